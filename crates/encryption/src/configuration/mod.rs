//! `EncryptionConfiguration` says which resources are encrypted, and how (upstream:
//! `apiserver/pkg/server/options/encryptionconfig`, `apiserver/pkg/apis/apiserver`).
//!
//! - `decode`: reads a file strictly and sets defaults.
//! - `validate`: upstream's rules.
//! - `providers`: the providers of a valid object.
//! - `rules`: the entries of each resource, and the entries that earlier wildcards mask.

mod decode;
mod providers;
mod rules;
mod validate;

use std::fmt::Write as _;
use std::path::Path;

use pintle_auth::config_file::system_error;
use pintle_registry::GroupResource;
use pintle_value::print::quote;
use pintle_value::time::Duration;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Secret;

pub(crate) use rules::{ANY, any_in_group, rules};

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionConfiguration {
    /// The entries, in order.
    pub entries: Vec<EncryptionEntry>,
}

/// Resources and their providers (`ResourceConfiguration`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionEntry {
    /// The resources. A resource or group `*` is a wildcard.
    pub resources: Vec<GroupResource>,
    /// The providers, in order. The first one writes, and all of them read.
    pub providers: Vec<ProviderConfiguration>,
}

/// A way of encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderConfiguration {
    /// AES in Galois/Counter Mode, with these keys.
    AesGcm(Vec<Key>),
    /// AES in Cipher Block Chaining Mode with PKCS #7 padding, with these keys.
    AesCbc(Vec<Key>),
    /// XSalsa20 and Poly1305, with these keys.
    Secretbox(Vec<Key>),
    /// Values are stored as they are.
    Identity,
    /// A key management service encrypts the keys of values.
    Kms(KmsConfiguration),
}

/// A key. The first key of a provider writes, and all of them read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name, which stored values begin with.
    pub name: String,
    /// The key itself.
    pub secret: Secret,
}

/// A plugin of a key management service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsConfiguration {
    /// The version of the plugin's API.
    pub api_version: KmsVersion,
    /// The name, which stored values begin with.
    pub name: String,
    /// How many keys are cached, for v1 only. A negative number means none.
    pub cache_size: Option<i32>,
    /// The URL of the plugin's Unix socket.
    pub endpoint: String,
    /// How long a call of the plugin may take.
    pub timeout: Duration,
}

/// The version of the API of a KMS plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KmsVersion {
    /// `v1`, which needs the feature gate `KMSv1`.
    V1,
    /// `v2`
    V2,
}

/// Settings of the server on which the validity of a configuration depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationOptions {
    /// `--encryption-provider-config-automatic-reload`. It demands that the names of KMS v1 plugins differ.
    pub reload: bool,
    /// The feature gate `KMSv1`.
    pub kms_v1: bool,
}

/// A configuration that was read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationFile {
    /// The configuration.
    pub configuration: EncryptionConfiguration,
    /// The hash of the file's content, by which a changed file is found: `sha256:` and hexadecimal digits.
    pub content_hash: String,
}

impl ConfigurationFile {
    /// Reads a file (`LoadEncryptionConfig`).
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn read(file: &Path, options: ConfigurationOptions) -> Result<Self, String> {
        let (text, content_hash) = read_file(file).map_err(not_loaded)?;
        let configuration = EncryptionConfiguration::parse(&text, &file.to_string_lossy(), options)?;
        Ok(Self { configuration, content_hash })
    }
}

fn not_loaded(error: String) -> String {
    format!("error while parsing file: error while loading file: {error}")
}

/// The hash of a file's content, without decoding it (`GetEncryptionConfigHash`).
///
/// # Errors
/// Returns upstream's message.
pub fn content_hash(file: &Path) -> Result<String, String> {
    read_file(file).map(|(_, hash)| hash)
}

fn read_file(file: &Path) -> Result<(Zeroizing<Vec<u8>>, String), String> {
    let name = file.to_string_lossy();
    let text = std::fs::read(file).map_err(|error| {
        let (quoted, error) = (quote(&name), system_error(&error));
        format!("error reading encryption provider configuration file {quoted}: open {name}: {error}")
    })?;
    check_not_empty(&text, &name)?;
    let mut hash = "sha256:".to_owned();
    for byte in Sha256::digest(&text) {
        let _ = write!(hash, "{byte:02x}");
    }
    Ok((Zeroizing::new(text), hash))
}

fn check_not_empty(text: &[u8], file: &str) -> Result<(), String> {
    match text.is_empty() {
        true => Err(format!("encryption provider configuration file {} is empty", quote(file))),
        false => Ok(()),
    }
}

impl EncryptionConfiguration {
    /// Decodes and validates the content of a file with this name.
    ///
    /// # Errors
    /// Returns upstream's message. Where upstream repeats keys or the whole text, the message has `REDACTED`.
    pub fn parse(text: &[u8], file: &str, options: ConfigurationOptions) -> Result<Self, String> {
        check_not_empty(text, file).map_err(not_loaded)?;
        let in_file = |error| format!("error while parsing file: {error}");
        let value = decode::decode(text, file).map_err(in_file)?;
        let errors = validate::validate(&value, options.reload);
        if !errors.is_empty() {
            return Err(in_file(errors.message()));
        }
        let configuration = Self { entries: providers::entries(&value) };
        rules(&configuration, options.kms_v1).map_err(|error| format!("error while building transformers: {error}"))?;
        Ok(configuration)
    }

    /// The providers of a resource in order, or none if the configuration does not name the resource. The most exact
    /// entries decide: they name the resource, all resources of its group, or all resources.
    #[must_use]
    pub fn providers(&self, resource: &GroupResource) -> Vec<&ProviderConfiguration> {
        let entries_with = |named: &GroupResource| {
            let entries = self.entries.iter().filter(|entry| entry.resources.contains(named));
            entries.flat_map(|entry| &entry.providers).collect::<Vec<_>>()
        };
        let candidates = [resource.clone(), any_in_group(resource), ANY];
        candidates.iter().map(entries_with).find(|providers| !providers.is_empty()).unwrap_or_default()
    }
}
