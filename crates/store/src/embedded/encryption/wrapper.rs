//! The interface to key-encryption keys: a wrapper encrypts the data keys of a store. A file or a KMS plugin has the
//! key-encryption keys.

use std::fmt;

use pintle_sealing::SecretKey;

/// A data key that is encrypted with a key-encryption key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The id of the key-encryption key. It is no secret.
    pub wrapped_with: String,
    /// The encrypted data key, in the form of the wrapper.
    pub bytes: Vec<u8>,
}

/// The reason why a data key cannot be wrapped or unwrapped. The text contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyWrapError(pub String);

/// Encrypts and decrypts data keys with key-encryption keys. The methods may block. A store calls them when it is
/// opened and when its keys change, but not on the threads of its reads and commits.
pub trait KeyWrapper: fmt::Debug + Send + Sync + 'static {
    /// Encrypts a data key with the current key-encryption key. The result must be authenticated.
    ///
    /// # Errors
    /// There is no usable key-encryption key.
    fn wrap(&self, key: &SecretKey) -> Result<WrappedKey, KeyWrapError>;

    /// Decrypts a data key that an earlier call of [`KeyWrapper::wrap`] returned.
    ///
    /// # Errors
    /// The key-encryption key is missing, or the wrapped key is not authentic.
    fn unwrap(&self, wrapped: &WrappedKey) -> Result<SecretKey, KeyWrapError>;
}
