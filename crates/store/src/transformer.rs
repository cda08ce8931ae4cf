//! The interface for encryption at rest: a transformer converts values to and from their stored form. It is modelled on
//! kube-apiserver's value transformers (upstream: `k8s.io/apiserver/pkg/storage/value`), which also report a stale
//! stored form.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::Key;

/// The stored form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The bytes to store.
    pub bytes: Bytes,
    /// True if reading the bytes is known to give the written value again, byte for byte. This assumes that the written
    /// value was normalised and had its defaults.
    pub is_exact: bool,
}

impl StoredValue {
    /// A stored form from which exactly the written value is read.
    pub fn exact(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), is_exact: true }
    }
}

/// A value that was read from its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformedValue {
    /// The value that was written.
    pub value: Bytes,
    /// True if the stored form is stale, for example encrypted with an old key. The value must be written again.
    pub stale: bool,
}

/// The first byte of the placeholder for a value that cannot be read. No JSON begins with it.
const UNREADABLE: u8 = 0;

/// The placeholder for a value that cannot be transformed. With it, the other values can be read.
pub(crate) fn unreadable_value(error: &TransformError) -> Bytes {
    [&[UNREADABLE], error.0.as_bytes()].concat().into()
}

/// The reason why a value could not be transformed, if `value` is the placeholder for one.
#[must_use]
pub fn unreadable_reason(value: &[u8]) -> Option<Cow<'_, str>> {
    value.strip_prefix(&[UNREADABLE]).map(String::from_utf8_lossy)
}

/// The reason why a value cannot be transformed. The text goes to the log and contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub String);

/// Converts values to and from their stored form (upstream: `value.Transformer`). The key is passed as authenticated
/// data.
///
/// The committing thread calls `transform_from_storage` after a conflict, so this method must not wait for anything
/// outside the process.
pub trait ValueTransformer: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored form of a value.
    fn transform_to_storage(&self, key: &str, value: Bytes) -> Result<StoredValue, TransformError>;

    /// Returns the stored form of a value that the caller has already encoded. A transformer that only encodes may
    /// return `encoded`. A transformer that does more, such as encryption, must not return it. By default, the encoding
    /// is ignored.
    fn transform_encoded_to_storage(
        &self,
        key: &str,
        value: Bytes,
        _encoded: StoredValue,
    ) -> Result<StoredValue, TransformError> {
        self.transform_to_storage(key, value)
    }

    /// Returns the value of a stored form, and whether the stored form is stale.
    fn transform_from_storage(&self, key: &str, stored: Bytes) -> Result<TransformedValue, TransformError>;

    /// True if a value that was read equals the written value. A transformer may read an object with another order of
    /// members.
    fn is_as_written(&self, read: &[u8], written: &[u8]) -> bool {
        read == written
    }

    /// Returns the values of many stored forms, in order. May use all processors.
    fn transform_all_from_storage(&self, stored: &[(Key, Bytes)]) -> Vec<Result<TransformedValue, TransformError>> {
        stored.iter().map(|(key, stored)| self.transform_from_storage(key, stored.clone())).collect()
    }
}

/// Stores values unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityTransformer;

impl ValueTransformer for IdentityTransformer {
    fn transform_to_storage(&self, _key: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        Ok(StoredValue::exact(value))
    }

    fn transform_from_storage(&self, _key: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        Ok(TransformedValue { value: stored, stale: false })
    }
}
