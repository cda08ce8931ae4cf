//! The encrypted form of values in a store (upstream: the transformers of `RESTOptionsGetter`). It wraps another form:
//! a write is encoded and then encrypted, a read is decrypted and then decoded.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use pintle_encryption::{EncryptionAtRest, MissingDek};
use pintle_store::{ExternalKey, Key, StoredValue, TransformError, TransformedValue, ValueTransformer};
use pintle_value::threads::map_parallel;

use super::store_keys::StoredResources;

/// The beginning of all encrypted values.
const ENCRYPTED_PREFIX: &[u8] = b"k8s:enc:";

/// The minimum number of values that several threads decrypt.
const MIN_PARALLEL_VALUES: usize = 1000;

/// Encrypts the values of a store as the encryption configuration says. The storage key of a value is authenticated.
#[derive(Debug)]
pub struct EncryptedForm {
    inner: Arc<dyn ValueTransformer>,
    resources: StoredResources,
    encryption: Arc<EncryptionAtRest>,
}

impl EncryptedForm {
    /// The form of the values below a prefix of keys (`--etcd-prefix`). `inner` encodes them.
    #[must_use]
    pub fn new(key_prefix: &str, inner: Arc<dyn ValueTransformer>, encryption: Arc<EncryptionAtRest>) -> Self {
        Self { inner, resources: StoredResources::new(key_prefix), encryption }
    }

    fn encrypt(&self, key: &str, StoredValue { bytes, is_exact }: StoredValue) -> Result<StoredValue, TransformError> {
        let transformers = self.encryption.transformers();
        let resource = if transformers.is_empty() { None } else { self.resources.of(key) };
        let Some(resource) = resource else { return Ok(StoredValue { bytes, is_exact }) };
        let encrypted = transformers.of(&resource).encrypt(&bytes, key.as_bytes());
        let encrypted = encrypted.map_err(|error| TransformError::encryption(error.to_string()))?;
        Ok(StoredValue { bytes: encrypted.into(), is_exact })
    }
}

impl ValueTransformer for EncryptedForm {
    fn transform_to_storage(&self, key: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        self.encrypt(key, self.inner.transform_to_storage(key, value)?)
    }

    fn transform_encoded_to_storage(
        &self,
        key: &str,
        value: Bytes,
        encoded: StoredValue,
    ) -> Result<StoredValue, TransformError> {
        self.encrypt(key, self.inner.transform_encoded_to_storage(key, value, encoded)?)
    }

    fn transform_from_storage(&self, key: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        let transformers = self.encryption.transformers();
        // Without a configuration, encrypted values are errors.
        let may_be_encrypted = !transformers.is_empty() || stored.starts_with(ENCRYPTED_PREFIX);
        let resource = if may_be_encrypted { self.resources.of(key) } else { None };
        let Some(resource) = resource else { return self.inner.transform_from_storage(key, stored) };
        let decrypted = transformers.of(&resource).decrypt(&stored, key.as_bytes()).map_err(store_error)?;
        let is_stale = decrypted.stale;
        let encoded = match decrypted.value {
            Cow::Borrowed(encoded) => stored.slice_ref(encoded),
            Cow::Owned(encoded) => encoded.into(),
        };
        let read = self.inner.transform_from_storage(key, encoded)?;
        Ok(TransformedValue { stale: read.stale || is_stale, ..read })
    }

    fn can_become_stale(&self, key: &str) -> bool {
        let transformers = self.encryption.transformers();
        !transformers.is_empty() && self.resources.of(key).is_some_and(|resource| transformers.has_rule(&resource))
    }

    fn is_as_written(&self, read: &[u8], written: &[u8]) -> bool {
        self.inner.is_as_written(read, written)
    }

    fn transform_all_from_storage(&self, stored: &[(Key, Bytes)]) -> Vec<Result<TransformedValue, TransformError>> {
        let transform = |(key, stored): &(Key, Bytes)| self.transform_from_storage(key, stored.clone());
        match stored.len() {
            ..MIN_PARALLEL_VALUES => stored.iter().map(transform).collect(),
            _ => map_parallel(stored, &transform),
        }
    }
}

/// A DEK that the store fetches.
#[derive(Clone)]
struct DekInPlugin(MissingDek);

impl fmt::Debug for DekInPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ExternalKey for DekInPlugin {
    fn id(&self) -> [u8; 32] {
        self.0.id()
    }

    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async { self.0.fetch().await.map_err(|error| error.to_string()) })
    }
}

fn store_error(error: pintle_encryption::TransformError) -> TransformError {
    let detail = error.to_string();
    match error.missing() {
        Some(missing) => TransformError::missing_key(detail, Arc::new(DekInPlugin(missing.clone()))),
        None => TransformError::encryption(detail),
    }
}
