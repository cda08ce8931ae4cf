//! The calls of a KMS v2 plugin (upstream: `k8s.io/kms/pkg/service`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

use crate::Secret;

/// The names of a plugin's calls.
pub(super) const STATUS: &str = "/v2.KeyManagementService/Status";
pub(super) const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
pub(super) const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

/// The status of an error that is not gRPC's, in metrics.
pub(crate) const NO_GRPC_STATUS: &str = "unknown-non-grpc";

/// The answer of a plugin.
pub type KmsFuture<'p, T> = Pin<Box<dyn Future<Output = Result<T, KmsError>> + Send + 'p>>;

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsError {
    /// The name of gRPC's code, or [`NO_GRPC_STATUS`].
    pub(crate) status: Cow<'static, str>,
    text: String,
}

impl KmsError {
    /// An error of gRPC with the name of its code.
    pub(super) fn with_status(status: Cow<'static, str>, text: String) -> Self {
        Self { status, text }
    }

    /// The error of a call that takes too long.
    pub(crate) fn deadline_exceeded() -> Self {
        let text = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
        Self { status: "DeadlineExceeded".into(), text: text.to_owned() }
    }
}

impl From<String> for KmsError {
    fn from(text: String) -> Self {
        Self { status: NO_GRPC_STATUS.into(), text }
    }
}

impl From<&str> for KmsError {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for KmsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

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
