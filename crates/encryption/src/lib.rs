//! Encryption of values at rest (upstream: `apiserver/pkg/server/options/encryptionconfig`,
//! `apiserver/pkg/storage/value`). An [`EncryptionConfiguration`] names the providers of resources.
//! [`ResourceTransformers`] have the [`Transformer`] of each resource. The stored forms are upstream's to the byte, so a
//! Go API server reads them and the other way round. This crate knows no store.
//!
//! ```
//! use pintle_encryption::{ConfigurationOptions, EncryptionConfiguration, ResourceTransformers};
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
//! let no_kms = &mut |_: &_| Err("a KMS plugin".to_owned());
//! let transformers = ResourceTransformers::new(&configuration, no_kms).expect("no KMS plugins");
//! let secrets = transformers.of(&GroupResource::new("", "secrets"));
//!
//! let key = b"/registry/secrets/shop/password";
//! let stored = secrets.encrypt(b"value", key).expect("random bytes");
//! assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
//! let decrypted = secrets.decrypt(&stored, key).expect("the same key");
//! assert_eq!((&*decrypted.value, decrypted.stale), (b"value".as_slice(), false));
//! // A value that was moved to another key cannot be read.
//! assert!(secrets.decrypt(&stored, b"/registry/secrets/shop/other").is_err());
//! // A value that is not encrypted yet is stale.
//! assert!(secrets.decrypt(b"value", key).expect("the provider identity").stale);
//! ```

mod at_rest;
mod configuration;
mod error;
mod kms;
mod metrics;
mod reload;
mod resources;
mod running;
mod secret;
mod stored_key;
pub mod testing;
mod transformer;

pub use at_rest::{EncryptionAtRest, EncryptionEnvironment, EncryptionOptions, KMS_HEALTH_CHECK, PluginFactory};
pub use configuration::{
    ConfigurationFile, ConfigurationOptions, EncryptionConfiguration, EncryptionEntry, Key, KmsConfiguration,
    KmsVersion, ProviderConfiguration, content_hash,
};
pub use error::TransformError;
#[cfg(unix)]
pub use kms::KmsClient;
pub use kms::{
    DekKind, EncryptedDek, EncryptedObject, KmsError, KmsFuture, KmsPlugin, KmsProvider, KmsStatus, MissingDek,
    NEGATIVE_POLL_INTERVAL, POSITIVE_POLL_INTERVAL, decrypt_with_plugin,
};
pub use metrics::EncryptionMetrics;
pub use resources::{KmsFactory, ResourceTransformers};
pub use secret::Secret;
pub use stored_key::StoredKey;
pub use transformer::{Decrypted, Transformer};
