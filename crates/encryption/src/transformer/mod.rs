//! Transformers encrypt and decrypt values (upstream: `apiserver/pkg/storage/value`). The stored forms are upstream's.
//!
//! - `prefix`: chooses the provider and the key by the prefix of a stored value.
//! - `aes_cbc`, `aes_gcm`, `secretbox`, `identity`: the providers with keys in the configuration.

mod aes_cbc;
pub(crate) mod aes_gcm;
mod identity;
mod prefix;
mod secretbox;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::metrics::EncryptionMetrics;
use crate::{Key, StoredKey, TransformError};

pub(crate) use identity::Identity;
pub(crate) use prefix::{PrefixTransformers, ProviderTransformer};

/// The prefixes of stored values by provider.
const AES_CBC_PREFIX: &str = "k8s:enc:aescbc:v1:";
const AES_GCM_PREFIX: &str = "k8s:enc:aesgcm:v1:";
const SECRETBOX_PREFIX: &str = "k8s:enc:secretbox:v1:";
const NO_AES_KEY: &str = "no matching key was found for the provided AES transformer";
const NO_SECRETBOX_KEY: &str = "no matching key was found for the provided Secretbox transformer";

/// By how many bytes most stored values are longer than the value, at most.
const USUAL_OVERHEAD: usize = 128;

/// A stored value is shorter than the nonce and other parts that every stored value has.
pub(crate) const TOO_SHORT: TransformError =
    TransformError::fixed("the stored data was shorter than the required size");

/// A decrypted value.
#[derive(Clone, PartialEq, Eq)]
pub struct Decrypted<'s> {
    /// The value.
    pub value: Cow<'s, [u8]>,
    /// True if another provider or key would be used for writing now. The value should be written again.
    pub stale: bool,
}

/// Shows the length of the value, not the value.
impl fmt::Debug for Decrypted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypted").field("length", &self.value.len()).field("stale", &self.stale).finish()
    }
}

impl<'s> Decrypted<'s> {
    pub(crate) fn fresh(value: impl Into<Cow<'s, [u8]>>) -> Self {
        Self { value: value.into(), stale: false }
    }
}

/// Encrypts and decrypts values (upstream: `value.Transformer`). The context is the key under which the store keeps the
/// value. Most providers authenticate it, so that a stored value cannot take the place of another one.
pub trait Transformer: fmt::Debug + Send + Sync {
    /// Appends the stored form of a value.
    ///
    /// # Errors
    /// The system has no random bytes, or a key management service has not provided a key.
    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError>;

    /// Returns the value of a stored form.
    ///
    /// # Errors
    /// The stored form is malformed, has the prefix of another provider or key, or was changed or moved.
    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError>;

    /// The provider and the key with which values are written now. `None` if a plugin has not provided the key yet. By
    /// default, values are not encrypted.
    fn writing_key(&self) -> Option<StoredKey> {
        Some(StoredKey::identity())
    }

    /// Returns the stored form of a value.
    ///
    /// # Errors
    /// See [`Transformer::encrypt_to`].
    fn encrypt(&self, value: &[u8], context: &[u8]) -> Result<Vec<u8>, TransformError> {
        let mut stored = Vec::with_capacity(value.len() + USUAL_OVERHEAD);
        self.encrypt_to(value, context, &mut stored)?;
        Ok(stored)
    }
}

/// Fills a nonce with random bytes of the system.
pub(crate) fn fill_random(nonce: &mut [u8]) -> Result<(), TransformError> {
    getrandom::fill(nonce).map_err(|_| TransformError::new("unable to read sufficient random bytes"))
}

/// A transformer and the prefix of its stored values.
pub(crate) type PrefixedTransformer = (Vec<u8>, Arc<dyn Transformer>);

/// A provider, of which each resource has a transformer.
#[derive(Debug)]
pub(crate) struct Provider {
    /// The prefix of stored values.
    prefix: Vec<u8>,
    transformers: ProviderTransformers,
}

#[derive(Debug)]
enum ProviderTransformers {
    /// A transformer of each key. Its prefix has the name of the key.
    Keys { keys: Vec<PrefixedTransformer>, no_key: &'static str },
    /// A transformer that all resources share.
    Shared(Arc<dyn Transformer>),
}

impl Provider {
    /// A provider whose resources share a transformer.
    pub(crate) fn shared((prefix, transformer): PrefixedTransformer) -> Self {
        Self { prefix, transformers: ProviderTransformers::Shared(transformer) }
    }

    /// See [`Transformer::writing_key`].
    pub(crate) fn writing_key(&self) -> Option<StoredKey> {
        match &self.transformers {
            ProviderTransformers::Keys { keys, .. } => {
                let (key, _) = keys.first()?;
                Some(StoredKey::of(&[&self.prefix[..], key].concat()))
            }
            ProviderTransformers::Shared(transformer) => transformer.writing_key(),
        }
    }

    /// The transformer of a resource, and the prefix of its stored values.
    pub(crate) fn transformer(
        &self,
        metrics: &Arc<EncryptionMetrics>,
        resource: &Arc<str>,
    ) -> (Vec<u8>, ProviderTransformer) {
        let transformer = match &self.transformers {
            ProviderTransformers::Keys { keys, no_key } => {
                ProviderTransformer::Keys(PrefixTransformers::of_keys(keys, no_key, metrics, resource))
            }
            ProviderTransformers::Shared(transformer) => ProviderTransformer::Other(transformer.clone()),
        };
        (self.prefix.clone(), transformer)
    }
}

/// AES-CBC with these keys.
///
/// # Errors
/// A key has the wrong length.
pub(crate) fn aes_cbc(keys: &[Key]) -> Result<Provider, String> {
    with_keys(AES_CBC_PREFIX, keys, NO_AES_KEY, aes_cbc::new)
}

/// AES-GCM with these keys.
///
/// # Errors
/// A key has the wrong length.
pub(crate) fn aes_gcm(keys: &[Key]) -> Result<Provider, String> {
    with_keys(AES_GCM_PREFIX, keys, NO_AES_KEY, aes_gcm::new)
}

/// Secretbox with these keys.
///
/// # Errors
/// A key has the wrong length.
pub(crate) fn secretbox(keys: &[Key]) -> Result<Provider, String> {
    with_keys(SECRETBOX_PREFIX, keys, NO_SECRETBOX_KEY, secretbox::new)
}

/// A provider whose stored values begin with its prefix, the name of the key and a colon.
fn with_keys(
    prefix: &str,
    keys: &[Key],
    no_key: &'static str,
    new: fn(&[u8]) -> Option<Arc<dyn Transformer>>,
) -> Result<Provider, String> {
    let transformer = |key: &Key| {
        let length = key.secret.bytes().len();
        let transformer = new(key.secret.bytes());
        let error = || format!("the key {} cannot have {length} bytes", key.name);
        Ok((format!("{}:", key.name).into_bytes(), transformer.ok_or_else(error)?))
    };
    let keys = keys.iter().map(transformer).collect::<Result<_, String>>()?;
    Ok(Provider { prefix: prefix.as_bytes().to_vec(), transformers: ProviderTransformers::Keys { keys, no_key } })
}
