//! The calls of a KMS v2 plugin (upstream: `k8s.io/kms/pkg/service`).

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

use crate::Secret;

/// The answer of a plugin, or the text of its error.
pub type KmsFuture<'p, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'p>>;

/// A KMS plugin. Each call ends after the time-out of the plugin's configuration.
pub trait KmsPlugin: fmt::Debug + Send + Sync + 'static {
    /// The plugin's state and the ID of its key.
    fn status(&self) -> KmsFuture<'_, KmsStatus>;

    /// Encrypts a DEK. `uid` names the call in logs.
    fn encrypt<'p>(&'p self, uid: &'p str, dek: &'p [u8]) -> KmsFuture<'p, EncryptedDek>;

    /// Decrypts a DEK.
    fn decrypt<'p>(&'p self, uid: &'p str, dek: &'p EncryptedDek) -> KmsFuture<'p, Secret>;
}

/// The state of a plugin (`StatusResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KmsStatus {
    /// The version of the API.
    pub version: String,
    /// `ok`, or the reason why the plugin is not healthy.
    pub healthz: String,
    /// The ID of the key that encrypts now.
    pub key_id: String,
}

/// An encrypted DEK (`EncryptResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptedDek {
    /// The encrypted bytes: at least one and at most 1,024.
    pub ciphertext: Vec<u8>,
    /// The ID of the key that has encrypted them: at least one byte and at most 1,024.
    pub key_id: String,
    /// Data of the plugin: at most 32 KiB together. Their names are domains.
    pub annotations: BTreeMap<String, Vec<u8>>,
}
