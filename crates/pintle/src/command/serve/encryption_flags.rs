//! The flags of encryption at rest, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use pintle::{StoreEncryptionOptions, StoreKeySource};
use pintle_encryption::EncryptionOptions;

use super::parse_positive_duration;

/// The flags that say how stored values are encrypted.
#[derive(clap::Args)]
pub(crate) struct EncryptionFlags {
    /// The file with the providers that encrypt stored values (EncryptionConfiguration). Without it, nothing is
    /// encrypted.
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<String>,
    /// If true, read the file of --encryption-provider-config again when it changes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    encryption_provider_config_automatic_reload: bool,
}

impl EncryptionFlags {
    /// The options of encryption at rest. As in upstream, an empty name names no file.
    ///
    /// # Errors
    /// The flags contradict each other; with upstream's message.
    pub(crate) fn options(self) -> Result<EncryptionOptions, String> {
        let options = EncryptionOptions {
            config_file: self.encryption_provider_config.filter(|file| !file.is_empty()).map(PathBuf::from),
            automatic_reload: self.encryption_provider_config_automatic_reload,
        };
        options.validate()?;
        Ok(options)
    }
}

/// The flags that say how the embedded store is encrypted as a whole.
#[derive(clap::Args)]
pub(crate) struct StoreEncryptionFlags {
    /// Encrypt everything that the embedded store writes. Needs --store-key-file or --store-kms-endpoint.
    #[arg(long)]
    encrypt_store: bool,
    /// The file with the key-encryption keys of the embedded store: 32 bytes as base64 in each line. The first key is
    /// used for new data keys.
    #[arg(long, value_name = "FILE", requires = "encrypt_store", conflicts_with = "store_kms_endpoint")]
    store_key_file: Option<PathBuf>,
    /// The URL of the Unix socket of a KMS v2 plugin that has the key-encryption keys of the embedded store.
    #[arg(long, value_name = "URL", requires = "encrypt_store")]
    store_kms_endpoint: Option<String>,
    /// How long a call of the plugin of --store-kms-endpoint may take.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_positive_duration)]
    store_kms_timeout: Duration,
    /// Encrypt a store that is not encrypted yet. Without this flag it is refused, so that nobody can put another store
    /// in place of an encrypted one.
    #[arg(long, requires = "encrypt_store")]
    encrypt_existing_store: bool,
}

impl StoreEncryptionFlags {
    /// The encryption of the store, if it is asked for.
    ///
    /// # Errors
    /// No flag says where the keys are.
    pub(crate) fn options(self) -> Result<Option<StoreEncryptionOptions>, String> {
        let keys = match (self.encrypt_store, self.store_key_file, self.store_kms_endpoint) {
            (false, ..) => return Ok(None),
            (true, Some(file), _) => StoreKeySource::File(file),
            (true, None, Some(endpoint)) => StoreKeySource::Kms { endpoint, timeout: self.store_kms_timeout },
            (true, None, None) => {
                return Err("--encrypt-store needs --store-key-file or --store-kms-endpoint".to_owned());
            }
        };
        Ok(Some(StoreEncryptionOptions { keys, encrypt_existing: self.encrypt_existing_store }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        encryption: EncryptionFlags,
        #[command(flatten)]
        store: StoreEncryptionFlags,
    }

    #[test]
    fn reload_needs_a_file() {
        let parse = |line: &str| {
            let arguments = std::iter::once("serve").chain(line.split_whitespace());
            CommandLine::try_parse_from(arguments).expect("flags").encryption.options()
        };
        let options = |file: Option<&str>, automatic_reload| {
            Ok(EncryptionOptions { config_file: file.map(PathBuf::from), automatic_reload })
        };
        let file = "--encryption-provider-config";
        assert_eq!(parse(""), options(None, false));
        assert_eq!(parse(&format!("{file} f")), options(Some("f"), false));
        assert_eq!(parse(&format!("{file}=")), options(None, false));
        assert_eq!(parse(&format!("{file}-automatic-reload {file} f")), options(Some("f"), true));
        assert_eq!(parse(&format!("{file}-automatic-reload=false")), options(None, false));
        let error = "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config";
        assert_eq!(parse(&format!("{file}-automatic-reload")), Err(error.to_owned()));
    }

    #[test]
    fn the_encryption_of_the_store_needs_one_source_of_keys() {
        let parse = |line: &str| {
            let arguments = std::iter::once("serve").chain(line.split_whitespace());
            let line = CommandLine::try_parse_from(arguments).map_err(|error| error.to_string())?;
            line.store.options()
        };
        assert_eq!(parse(""), Ok(None));
        let file = StoreEncryptionOptions { keys: StoreKeySource::File("k".into()), encrypt_existing: false };
        assert_eq!(parse("--encrypt-store --store-key-file k"), Ok(Some(file)));
        let keys = StoreKeySource::Kms { endpoint: "unix:///s".to_owned(), timeout: Duration::from_secs(3) };
        let plugin = StoreEncryptionOptions { keys, encrypt_existing: true };
        assert_eq!(parse("--encrypt-store --store-kms-endpoint unix:///s --encrypt-existing-store"), Ok(Some(plugin)));
        for refused in [
            "--encrypt-store",
            "--store-key-file k",
            "--encrypt-existing-store",
            "--encrypt-store --store-key-file k --store-kms-endpoint unix:///s",
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }
}
