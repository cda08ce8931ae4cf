//! The interface to key-encryption keys: a wrapper encrypts the data keys of a store. A file or a KMS plugin has the
//! key-encryption keys.

use std::fmt;

use zeroize::Zeroize;

/// The length of a key, in bytes.
pub(super) const KEY_BYTES: usize = 32;

/// The bytes of a key. They are zeroed on drop, and no debug output shows them.
#[derive(Clone)]
pub struct SecretKey([u8; KEY_BYTES]);

impl SecretKey {
    /// Takes the bytes of a key.
    #[must_use]
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Takes the bytes of a key. Returns `None` if their number is wrong.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// A random key.
    pub(super) fn random() -> Result<Self, KeyWrapError> {
        let mut key = Self([0; KEY_BYTES]);
        getrandom::fill(&mut key.0).map_err(|_| KeyWrapError("the system has no random bytes".to_owned()))?;
        Ok(key)
    }

    /// The bytes of the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

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
