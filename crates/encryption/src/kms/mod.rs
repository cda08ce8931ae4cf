//! Encryption with a KMS v2 plugin (upstream: `storage/value/encrypt/envelope/kmsv2`). Values are encrypted with keys that
//! are derived from a seed, the data encryption key (DEK). The plugin encrypts the DEK, and each stored value has the
//! encrypted DEK. So the plugin is called for each DEK, not for each value.
//!
//! - `plugin`: the calls of a plugin.
//! - `client`, `grpc`: a plugin in another process.
//! - `object`, `wire`: the Protobuf message that is stored.
//! - `dek`: keys and seeds.
//! - `cache`: decrypted DEKs.
//! - `provider`: the DEK for writing, and its replacement when the plugin has a new key.
//! - `envelope`: the transformer.
//! - `measured`: records the calls of a plugin.

mod cache;
#[cfg(unix)]
mod client;
mod dek;
mod envelope;
#[cfg(unix)]
mod grpc;
mod measured;
mod object;
mod plugin;
mod provider;
mod wire;

#[cfg(unix)]
pub use client::KmsClient;
pub use envelope::{MissingDek, decrypt_with_plugin};
pub use object::{DekKind, EncryptedObject};
pub(crate) use plugin::NO_GRPC_STATUS;
pub use plugin::{EncryptedDek, KmsError, KmsFuture, KmsPlugin, KmsStatus};
pub use provider::{KmsProvider, NEGATIVE_POLL_INTERVAL, POSITIVE_POLL_INTERVAL};
