//! The flags of encryption at rest, with kube-apiserver's names.

use std::path::PathBuf;

use clap::ArgAction;
use pintle_encryption::EncryptionOptions;

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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        encryption: EncryptionFlags,
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
}
