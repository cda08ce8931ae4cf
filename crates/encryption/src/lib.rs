//! Encryption of values at rest (upstream: `apiserver/pkg/server/options/encryptionconfig`). An
//! [`EncryptionConfiguration`] names the providers of resources. This crate knows no store.
//!
//! ```
//! use pintle_encryption::{ConfigurationOptions, EncryptionConfiguration, ProviderConfiguration};
//! use pintle_registry::GroupResource;
//!
//! let text = b"
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: EncryptionConfiguration
//! resources:
//! - resources: [secrets]
//!   providers:
//!   - aesgcm: {keys: [{name: key1, secret: AAECAwQFBgcICQoLDA0ODw==}]}
//!   - identity: {}
//! ";
//! let options = ConfigurationOptions::default();
//! let configuration = EncryptionConfiguration::parse(text, "encryption.yaml", options).expect("a valid configuration");
//! let providers = configuration.providers(&GroupResource::new("", "secrets"));
//! assert!(matches!(providers[..], [ProviderConfiguration::AesGcm(_), ProviderConfiguration::Identity]));
//! assert!(!format!("{providers:?}").contains("AAECAwQF"));
//! ```

mod configuration;
mod secret;

pub use configuration::{
    ConfigurationFile, ConfigurationOptions, EncryptionConfiguration, EncryptionEntry, Key, KmsConfiguration,
    KmsVersion, ProviderConfiguration, content_hash,
};
pub use secret::Secret;
