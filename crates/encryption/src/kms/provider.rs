//! A KMS plugin with the DEK for writing (upstream: `kmsv2PluginProbe` in `server/options/encryptionconfig/config.go`).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use futures_util::future::{BoxFuture, Shared};
use pintle_locks::{Mutex, RwLock};
use pintle_value::print::quote;
use pintle_value::time::{Duration, Time};
use uuid::Uuid;

use super::cache::DekCache;
use super::dek::{Dek, new_seed};
use super::measured::MeasuredPlugin;
use super::object::{cache_key, validate_dek, validate_key_id, write_dek};
use super::{DekKind, EncryptedDek, KmsPlugin, KmsStatus};
use crate::TransformError;
use crate::metrics::{Direction, EncryptionMetrics, ProviderMetrics, hash};

/// The time until the next check of a healthy plugin.
pub const POSITIVE_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(60);
/// The time until the next check of a plugin that is not healthy.
pub const NEGATIVE_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);
/// How long a DEK may be used for writing after the last successful check.
const WRITE_LIFETIME: Duration = Duration::from_seconds(3 * 60);
/// How long the result of a check is given to other callers.
const HEALTHY_LIFETIME: Duration = Duration::from_seconds(20);
const UNHEALTHY_LIFETIME: Duration = Duration::from_seconds(3);

const VERSIONS: [&str; 2] = ["v2", "v2beta1"];
const NO_STATE: TransformError = TransformError::fixed("got unexpected nil transformer");

/// The clock that a provider reads.
pub(crate) type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// The plugin's decryption of a DEK, for which several readers wait.
pub(super) type Fetch = Shared<BoxFuture<'static, Result<(), TransformError>>>;

/// A decryption that runs, or has failed recently.
pub(super) struct RunningFetch {
    pub(super) result: Fetch,
    /// The end of the time for which other readers get the failure.
    pub(super) failed_until: Option<Time>,
}

/// A KMS plugin, its DEK for writing, and the DEKs for reading. A task of the server calls [`KmsProvider::check`] at the
/// start and then at the poll intervals. Without a successful check, nothing is encrypted or decrypted.
pub struct KmsProvider {
    pub(super) name: String,
    pub(super) plugin: Arc<dyn KmsPlugin>,
    pub(super) now: Clock,
    pub(super) metrics: Arc<ProviderMetrics>,
    state: RwLock<Option<WriteState>>,
    pub(super) cache: Mutex<DekCache>,
    pub(super) fetches: Mutex<HashMap<[u8; 32], RunningFetch>>,
    checks: tokio::sync::Mutex<Checks>,
}

/// The DEK for writing.
#[derive(Clone, Debug)]
pub(super) struct WriteState {
    pub(super) dek: Arc<Dek>,
    pub(super) key_id: Arc<str>,
    /// The fields of the stored message after the ciphertext.
    pub(super) fields: Arc<[u8]>,
    pub(super) cache_key: [u8; 32],
    expires: Time,
    /// Whether a value was encrypted. Only then upstream counts the DEK as cached.
    is_used: Arc<AtomicBool>,
}

/// The last check of the plugin.
#[derive(Debug)]
struct Checks {
    result: Result<(), String>,
    time: Time,
    /// The version in the first status.
    version: Option<String>,
}

impl fmt::Debug for KmsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KmsProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KmsProvider {
    /// A provider with this name in the configuration.
    #[must_use]
    pub fn new(name: impl Into<String>, plugin: Arc<dyn KmsPlugin>) -> Arc<Self> {
        Self::with_clock(name, plugin, || SystemTime::now().into())
    }

    /// Like [`KmsProvider::new`], with a clock.
    pub fn with_clock(
        name: impl Into<String>,
        plugin: Arc<dyn KmsPlugin>,
        now: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with_metrics(name.into(), plugin, Box::new(now), Arc::default())
    }

    /// Like [`KmsProvider::new`], with a clock and the metrics in which the provider records.
    pub(crate) fn with_metrics(
        name: String,
        plugin: Arc<dyn KmsPlugin>,
        now: Clock,
        metrics: Arc<EncryptionMetrics>,
    ) -> Arc<Self> {
        let metrics = Arc::new(ProviderMetrics::new(metrics, &name));
        Arc::new(Self {
            name,
            plugin: Arc::new(MeasuredPlugin::new(plugin, metrics.clone())),
            now,
            metrics,
            state: RwLock::default(),
            cache: Mutex::default(),
            fetches: Mutex::default(),
            checks: tokio::sync::Mutex::new(Checks { result: Ok(()), time: Time::ZERO, version: None }),
        })
    }

    /// The number of cached DEKs.
    #[must_use]
    pub fn cached_deks(&self) -> usize {
        self.cache.lock().len()
    }

    /// Asks for the plugin's status, and makes a new DEK if the plugin has another key. A recent result counts as the
    /// result of this check. Calls wait for each other.
    ///
    /// # Errors
    /// Returns upstream's message. Writing goes on with the old DEK for up to three minutes, and reading for any time.
    pub async fn check(&self) -> Result<(), String> {
        let mut checks = self.checks.lock().await;
        let age = (self.now)().since(checks.time);
        let lifetime = if checks.result.is_ok() { HEALTHY_LIFETIME } else { UNHEALTHY_LIFETIME };
        if age < lifetime {
            return checks.result.clone();
        }
        let (kept, result) = match self.plugin.status().await {
            Ok(status) => {
                let result = self.check_status(&status, &mut checks.version).await;
                (result.clone(), result)
            }
            Err(error) => {
                let name = &self.name;
                let text = format!(
                    "failed to perform status section of the healthz check for KMS Provider {name}, error: {error}"
                );
                // As in upstream, other callers get the error alone.
                (Err(error.to_string()), Err(text))
            }
        };
        checks.result = kept;
        checks.time = (self.now)();
        result
    }

    async fn check_status(&self, status: &KmsStatus, known: &mut Option<String>) -> Result<(), String> {
        let KmsStatus { version, healthz, key_id } = status;
        let mut problems = Vec::new();
        if healthz != "ok" {
            problems.push(format!("got unexpected healthz status: {healthz}"));
        }
        if !VERSIONS.contains(&version.as_str()) {
            problems.push(format!("expected KMSv2 API version v2, got {version}"));
        } else {
            let known = known.get_or_insert_with(|| version.clone());
            if known != version {
                problems.push(format!(
                    "KMSv2 API version should not change after the initial status response version {known}, got {version}"
                ));
            }
        }
        match validate_key_id(key_id) {
            Ok(()) => {
                self.metrics.record_status_key(key_id, (self.now)());
                problems.extend(self.renew(key_id, &Uuid::new_v4().to_string()).await.err());
            }
            Err(problem) => {
                self.metrics.record_invalid_key(problem.code());
                problems.push(format!("got invalid KMSv2 KeyID hash {}: {problem}", quote(&hash(key_id))));
            }
        }
        let problems = problems.into_iter().map(TransformError::new);
        let problems = problems.reduce(|mut all, problem| {
            all.append(problem);
            all
        });
        let name = &self.name;
        problems.map_or(Ok(()), |error| Err(format!("kmsv2 Provider {name} is not healthy, error: {error}")))
    }

    /// Extends the lifetime of the DEK, or makes a new one for another key (`rotateDEKOnKeyIDChange`).
    async fn renew(&self, key_id: &str, uid: &str) -> Result<(), String> {
        // The lifetime begins before the call.
        let expires = (self.now)().plus(WRITE_LIFETIME);
        if let Some(state) = &mut *self.state.write()
            && *state.key_id == *key_id
        {
            state.expires = expires;
            return Ok(());
        }
        let made = self.make_dek(uid, expires).await;
        let (error, made_key_id) = match made {
            Ok(state) if *state.key_id == *key_id => {
                self.replace(state);
                return Ok(());
            }
            Ok(state) => ("<nil>".to_owned(), state.key_id.to_string()),
            Err(error) => (error, String::new()),
        };
        let state = self.state();
        let state_error = state.as_ref().err().map_or_else(|| "<nil>".to_owned(), ToString::to_string);
        let (old_key_id, expires) =
            state.map_or_else(|_| (String::new(), Time::ZERO), |state| (state.key_id.to_string(), state.expires));
        let [wanted, made, old] = [key_id, &made_key_id, &old_key_id].map(|id| quote(&hash(id)));
        Err(format!(
            "failed to rotate DEK uid={}, useSeed=true, errState={state_error}, errGen={error}, statusKeyIDHash={wanted}, \
             encryptKeyIDHash={made}, stateKeyIDHash={old}, expirationTimestamp={}",
            quote(uid),
            expires.rfc3339()
        ))
    }

    /// Makes a seed and has the plugin encrypt it (`GenerateTransformer`).
    async fn make_dek(&self, uid: &str, expires: Time) -> Result<WriteState, String> {
        let (start, seed) = (Instant::now(), new_seed());
        self.metrics.record_new_key(start, &seed);
        let seed = seed.map_err(|error| error.to_string())?;
        let encrypted = self.plugin.encrypt(uid, seed.bytes()).await;
        let encrypted = encrypted.map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        validate_dek(&encrypted)?;
        let kind = DekKind::HkdfSeed;
        let dek = Dek::new(&seed, kind).map_err(|error| error.to_string())?;
        let (cache_key, mut fields) = (cache_key(&encrypted, kind), Vec::new());
        write_dek(&encrypted, kind, &mut fields);
        let EncryptedDek { key_id, .. } = encrypted;
        let (dek, is_used) = (Arc::new(dek), Arc::default());
        Ok(WriteState { dek, key_id: key_id.into(), fields: fields.into(), cache_key, expires, is_used })
    }

    /// Replaces the DEK for writing. The old one stays in the cache for reading.
    fn replace(&self, new: WriteState) {
        let old = self.state.write().replace(new);
        if let Some(old) = old {
            self.cache.lock().insert(old.cache_key, old.dek, (self.now)());
        }
    }

    /// Keeps a DEK for reading.
    pub(super) fn keep_dek(&self, cache_key: [u8; 32], dek: Dek) {
        let mut cache = self.cache.lock();
        cache.insert(cache_key, Arc::new(dek), (self.now)());
        let writing = self.state.read().as_ref().is_some_and(|state| state.is_used.load(Ordering::Relaxed));
        self.metrics.record_cache_size(cache.len() + usize::from(writing));
    }

    /// Records a value that was encrypted.
    pub(super) fn record_encryption(&self, state: &WriteState) {
        if !state.is_used.load(Ordering::Relaxed) {
            state.is_used.store(true, Ordering::Relaxed);
            self.metrics.record_cache_size(self.cached_deks() + 1);
        }
        self.metrics.record_key(Direction::ToStorage, &state.key_id, (self.now)());
    }

    /// The DEK for writing, also if its lifetime is over.
    pub(super) fn state(&self) -> Result<WriteState, TransformError> {
        self.state.read().clone().ok_or(NO_STATE)
    }

    /// The DEK for writing.
    pub(super) fn state_for_writing(&self) -> Result<WriteState, TransformError> {
        let (state, now) = (self.state()?, (self.now)());
        if now > state.expires {
            let (key_id, expires, now) = (quote(&hash(&state.key_id)), state.expires.rfc3339(), now.rfc3339());
            return Err(TransformError::new(format!(
                "encryptedDEKSource with keyID hash {key_id} expired at {expires} (current time is {now})"
            )));
        }
        Ok(state)
    }
}
