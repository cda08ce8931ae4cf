//! The interface for encryption at rest: a transformer converts values to and from their stored form. It is modelled on
//! kube-apiserver's value transformers (upstream: `k8s.io/apiserver/pkg/storage/value`), which also report a stale
//! stored form.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{Error, Key, Record, Revision, Store, StoredChange};

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

/// The first byte of the placeholder for a value that cannot be read. No JSON begins with it. The second byte is the
/// kind of the error.
const UNREADABLE: u8 = 0;

/// How many values that cannot be transformed the log names when many are read.
const MAX_LOGGED_FAILURES: usize = 10;

/// The reason while a key is still being fetched.
const NOT_YET: &str = "the key of the value is not available yet";

/// How many keys a value may need from outside the process, one after the other.
const MAX_KEYS_PER_VALUE: usize = 4;

/// The placeholder for a value that cannot be transformed. With it, the other values can be read.
pub(crate) fn unreadable_value(error: &TransformError) -> Bytes {
    [&[UNREADABLE, u8::from(error.kind == TransformErrorKind::Encryption)], error.detail.as_bytes()].concat().into()
}

/// The reason why a value could not be transformed, if `value` is the placeholder for one.
#[must_use]
pub fn unreadable_reason(value: &[u8]) -> Option<TransformError> {
    let [UNREADABLE, is_encryption, detail @ ..] = value else { return None };
    let detail = String::from_utf8_lossy(detail);
    Some(if *is_encryption == 0 { TransformError::encoding(detail) } else { TransformError::encryption(detail) })
}

/// The kind of a transformer's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransformErrorKind {
    /// Encoding or decoding.
    Encoding,
    /// Encryption or decryption. A value that cannot be decrypted now may be readable later, with other keys.
    Encryption,
}

/// The reason why a value cannot be transformed. The text goes to the log and contains no secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct TransformError {
    /// The reason.
    pub detail: String,
    /// The kind of the error.
    pub kind: TransformErrorKind,
    missing: Option<Arc<dyn ExternalKey>>,
}

impl TransformError {
    /// A value cannot be encoded or decoded.
    #[must_use]
    pub fn encoding(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), kind: TransformErrorKind::Encoding, missing: None }
    }

    /// A value cannot be encrypted or decrypted.
    #[must_use]
    pub fn encryption(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), kind: TransformErrorKind::Encryption, missing: None }
    }

    /// The error of a read or a write of a key.
    pub(crate) fn of(self, key: &Key) -> Error {
        Error::Transform { key: key.clone(), detail: self.detail, kind: self.kind }
    }

    /// A value cannot be decrypted before its key was fetched.
    #[must_use]
    pub fn missing_key(detail: impl Into<String>, key: Arc<dyn ExternalKey>) -> Self {
        Self { missing: Some(key), ..Self::encryption(detail) }
    }
}

/// A key of stored values that another process has, such as a plugin of a key management service.
pub trait ExternalKey: fmt::Debug + Send + Sync {
    /// Identifies the key among all keys.
    fn id(&self) -> [u8; 32];

    /// Gets the key, so that the transformer has it from then on. This ends after the time limit of the key's
    /// configuration. Dropping the future is no failure.
    ///
    /// # Errors
    /// The reason why the key is not available.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
}

/// A key that values need before they can be read.
struct NeededKey {
    key: Arc<dyn ExternalKey>,
    /// The positions of the values.
    values: Vec<usize>,
}

impl NeededKey {
    /// The keys that are missing, each once.
    fn all(read: &[Result<TransformedValue, TransformError>]) -> Vec<NeededKey> {
        let mut needed: HashMap<[u8; 32], NeededKey> = HashMap::new();
        for (position, value) in read.iter().enumerate() {
            let Some(key) = value.as_ref().err().and_then(|error| error.missing.as_ref()) else { continue };
            let needed = needed.entry(key.id()).or_insert_with(|| NeededKey { key: key.clone(), values: Vec::new() });
            needed.values.push(position);
        }
        needed.into_values().collect()
    }

    async fn fetch(&self, max_wait: Option<Duration>) -> Result<(), String> {
        match max_wait {
            Some(max_wait) => timeout(max_wait, self.key.fetch()).await.unwrap_or_else(|_| Err(NOT_YET.to_owned())),
            None => self.key.fetch().await,
        }
    }
}

/// Returns the values of many stored forms, in order. Fetches the keys that are missing, within a time if one is given.
async fn read_stored(
    transformer: &dyn ValueTransformer,
    stored: &[(Key, Bytes)],
    max_wait: Option<Duration>,
) -> Vec<Result<TransformedValue, TransformError>> {
    let mut read = transformer.transform_all_from_storage(stored);
    for _ in 0..MAX_KEYS_PER_VALUE {
        let needed = NeededKey::all(&read);
        if needed.is_empty() {
            break;
        }
        let fetched = join_all(needed.iter().map(|needed| needed.fetch(max_wait))).await;
        let mut again = Vec::new();
        for (needed, fetched) in needed.iter().zip(fetched) {
            match fetched {
                Ok(()) => again.extend(&needed.values),
                Err(why) => needed.values.iter().for_each(|at| read[*at] = Err(TransformError::encryption(&why))),
            }
        }
        let retried: Vec<(Key, Bytes)> = again.iter().map(|at: &usize| stored[*at].clone()).collect();
        for (at, value) in again.into_iter().zip(transformer.transform_all_from_storage(&retried)) {
            read[at] = value;
        }
    }
    read
}

/// The stored form of a value, to be replaced by the value.
pub(crate) struct StoredForm<'v> {
    key: &'v Key,
    revision: Revision,
    value: &'v mut Bytes,
    stale: &'v mut bool,
}

impl<'v> From<&'v mut Record> for StoredForm<'v> {
    fn from(record: &'v mut Record) -> Self {
        let Record { key, value, mod_revision, stale, .. } = record;
        Self { key, revision: *mod_revision, value, stale }
    }
}

impl<'v> StoredForm<'v> {
    /// The stored form in a change that is no deletion.
    pub(crate) fn of_change(change: &'v mut StoredChange) -> Option<Self> {
        let StoredChange { revision, key, value, stale } = change;
        Some(Self { key, revision: *revision, value: value.as_mut()?, stale })
    }
}

/// Replaces stored forms by their values. A placeholder with the reason replaces a value that cannot be transformed, so
/// that the other values can be read.
pub(crate) async fn read_in_place<'v>(
    transformer: &dyn ValueTransformer,
    forms: impl IntoIterator<Item = StoredForm<'v>>,
) {
    read_forms(transformer, forms.into_iter().collect(), None).await;
}

/// Like [`read_in_place`], but waits only for a time for each key that is missing.
pub(crate) async fn read_in_place_within<'v>(
    transformer: &dyn ValueTransformer,
    forms: impl IntoIterator<Item = StoredForm<'v>>,
    max_wait: Duration,
) {
    read_forms(transformer, forms.into_iter().collect(), Some(max_wait)).await;
}

async fn read_forms(transformer: &dyn ValueTransformer, forms: Vec<StoredForm<'_>>, max_wait: Option<Duration>) {
    let stored: Vec<(Key, Bytes)> = forms.iter().map(|form| (form.key.clone(), form.value.clone())).collect();
    let mut failures = 0;
    for (form, value) in forms.into_iter().zip(read_stored(transformer, &stored, max_wait).await) {
        let value = value.unwrap_or_else(|error| {
            failures += 1;
            if failures <= MAX_LOGGED_FAILURES {
                let (key, revision) = (form.key, form.revision.get());
                tracing::error!(%key, revision, %error, "Failed to transform a stored value");
            }
            TransformedValue { value: unreadable_value(&error), stale: false }
        });
        (*form.value, *form.stale) = (value.value, value.stale);
    }
    if failures > MAX_LOGGED_FAILURES {
        tracing::error!(count = failures, "Failed to transform stored values");
    }
}

/// Converts the stored form in a record to the value. If this fails, the whole read fails.
pub(crate) async fn read_record(transformer: &dyn ValueTransformer, record: Record) -> Result<Record, Error> {
    let stored = [(record.key.clone(), record.value)];
    let value = read_stored(transformer, &stored, None).await.pop();
    let value = value.unwrap_or_else(|| Err(TransformError::encoding("the value is missing")));
    let TransformedValue { value, stale } = value.map_err(|error| error.of(&record.key))?;
    Ok(Record { value, stale, key: record.key, ..record })
}

/// True if the stored form of the key's value has become stale.
pub(crate) async fn is_stale(store: &dyn Store, transformer: &dyn ValueTransformer, key: Key) -> Result<bool, Error> {
    if !transformer.can_become_stale(&key) {
        return Ok(false);
    }
    Ok(store.get(key, None).await?.is_some_and(|record| record.stale))
}

/// Converts values to and from their stored form (upstream: `value.Transformer`). The key is passed as authenticated
/// data.
///
/// No method waits for anything outside the process. A key that is missing is named in the error
/// ([`TransformError::missing_key`]), and the store fetches it.
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

    /// True if a stored form may become stale while the process runs. For example, writes get a new key.
    fn can_become_stale(&self, _key: &str) -> bool {
        false
    }

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
