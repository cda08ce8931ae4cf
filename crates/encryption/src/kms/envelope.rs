//! The transformer of a KMS plugin (upstream: `kmsv2/envelope.go`). It never waits for the plugin. If a DEK is not decrypted
//! yet, the error names it, and the caller has the plugin decrypt it.

use std::fmt;
use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use pintle_value::time::Duration;
use uuid::Uuid;

use super::dek::{Dek, SEED_OVERHEAD};
use super::object::{EncryptedObject, cache_key, write_data_length};
use super::provider::{Fetch, KmsProvider, RunningFetch};
use super::{DekKind, EncryptedDek};
use crate::metrics::{Direction, Recorder};
use crate::transformer::Decrypted;
use crate::{StoredKey, TransformError, Transformer};

/// Stored values begin with this text, the name of the provider and a colon.
const PREFIX: &str = "k8s:enc:kms:v2:";

/// How long a failure to decrypt a DEK is given to other readers.
const FAILURE_LIFETIME: Duration = Duration::from_seconds(3);

/// The transformer of a KMS plugin.
#[derive(Debug)]
struct Envelope(Arc<KmsProvider>);

/// A DEK that the plugin has to decrypt before a value can be decrypted.
#[derive(Clone)]
pub struct MissingDek {
    provider: Arc<KmsProvider>,
    dek: EncryptedDek,
    kind: DekKind,
    cache_key: [u8; 32],
    /// Where a failure is recorded.
    recorders: Vec<Arc<Recorder>>,
}

impl fmt::Debug for MissingDek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MissingDek").field("provider", &self.provider.name).finish_non_exhaustive()
    }
}

impl MissingDek {
    /// Identifies the encrypted DEK.
    #[must_use]
    pub fn id(&self) -> [u8; 32] {
        self.cache_key
    }

    /// Has the plugin decrypt the DEK. Callers that need the same DEK at the same time share one call. After a failure,
    /// the plugin is not asked for the same DEK for some seconds. So a plugin that hangs does not hold up each reader.
    ///
    /// # Errors
    /// Returns upstream's error.
    pub async fn fetch(&self) -> Result<(), TransformError> {
        self.provider.metrics.record_cache_miss();
        let result = self.shared_fetch().await;
        if let Err(error) = &result {
            for recorder in &self.recorders {
                recorder.record_failure(Direction::FromStorage, error.status());
            }
        }
        result
    }

    pub(crate) fn record_failure_in(&mut self, recorder: Arc<Recorder>) {
        self.recorders.push(recorder);
    }

    fn shared_fetch(&self) -> Fetch {
        let now = (self.provider.now)();
        let mut fetches = self.provider.fetches.lock();
        fetches.retain(|_, fetch| fetch.failed_until.is_none_or(|end| now < end));
        let start = || RunningFetch { result: self.clone().into_fetch(), failed_until: None };
        fetches.entry(self.cache_key).or_insert_with(start).result.clone()
    }

    fn into_fetch(self) -> Fetch {
        let Self { provider, dek, kind, cache_key, .. } = self;
        let plugin = provider.plugin.clone();
        // The provider owns the fetch.
        let provider: Weak<KmsProvider> = Arc::downgrade(&provider);
        let fetch = async move {
            let uid = Uuid::new_v4().to_string();
            let decrypted = plugin.decrypt(&uid, &dek).await;
            let dek = decrypted.map_err(TransformError::of_plugin).and_then(|secret| Dek::new(&secret, kind));
            let Some(provider) = provider.upgrade() else { return dek.map(drop) };
            let result = dek.map(|dek| provider.keep_dek(cache_key, dek));
            let mut fetches = provider.fetches.lock();
            match (&result, fetches.get_mut(&cache_key)) {
                (Err(_), Some(fetch)) => fetch.failed_until = Some((provider.now)().plus(FAILURE_LIFETIME)),
                _ => drop(fetches.remove(&cache_key)),
            }
            drop(fetches);
            result
        };
        fetch.boxed().shared()
    }
}

/// Decrypts a value, and has a plugin decrypt its DEK if need be.
///
/// # Errors
/// See [`Transformer::decrypt`] and [`MissingDek::fetch`].
pub async fn decrypt_with_plugin<'s>(
    transformer: &dyn Transformer,
    stored: &'s [u8],
    context: &[u8],
) -> Result<Decrypted<'s>, TransformError> {
    match transformer.decrypt(stored, context) {
        Err(error) if error.missing().is_some() => {
            if let Some(missing) = error.missing() {
                missing.fetch().await?;
            }
            transformer.decrypt(stored, context)
        }
        result => result,
    }
}

impl KmsProvider {
    /// The prefix of stored values, and the transformer.
    #[must_use]
    pub fn transformer(self: &Arc<Self>) -> (Vec<u8>, Arc<dyn Transformer>) {
        (format!("{PREFIX}{}:", self.name).into_bytes(), Arc::new(Envelope(self.clone())))
    }
}

impl Transformer for Envelope {
    fn writing_key(&self) -> Option<StoredKey> {
        self.0.state().ok().map(|state| StoredKey::of_kms(&self.0.name, &state.key_id))
    }

    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let state = self.0.state_for_writing()?;
        let length = value.len() + SEED_OVERHEAD;
        // The tag of the ciphertext and its length have at most eleven bytes.
        stored.reserve(length + state.fields.len() + 11);
        write_data_length(length, stored);
        state.dek.encrypt_to(value, context, stored)?;
        self.0.record_encryption(&state);
        stored.extend_from_slice(&state.fields);
        Ok(())
    }

    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let EncryptedObject { data, dek: encrypted, kind } = EncryptedObject::decode(stored)?;
        let state = self.0.state()?;
        let cache_key = cache_key(&encrypted, kind);
        let cached = || self.0.cache.lock().get(&cache_key);
        let dek = if cache_key == state.cache_key { Some(state.dek.clone()) } else { cached() };
        let stale = *encrypted.key_id != *state.key_id || kind != DekKind::HkdfSeed;
        let Some(dek) = dek else {
            let missing =
                MissingDek { provider: self.0.clone(), dek: encrypted, kind, cache_key, recorders: Vec::new() };
            return Err(TransformError::missing_dek(missing));
        };
        self.0.metrics.record_key(Direction::FromStorage, &encrypted.key_id, (self.0.now)());
        Ok(Decrypted { value: dek.decrypt(&data, context)?.into(), stale })
    }
}
