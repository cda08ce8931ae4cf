//! The metrics of KMS plugins (upstream: `storage/value/encrypt/envelope/metrics/metrics.go`).

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::{Equivalent, HashMap};
use pintle_locks::RwLock;
use pintle_metrics::{Buckets, Counter, Exposition, Family, Gauge, Histogram, Kind, Stability};
use pintle_value::time::Time;

use super::transformations::doubled;
use super::{Direction, EncryptionMetrics, hash};
use crate::TransformError;

const CALL_DURATIONS: [f64; 20] = doubled(0.0001);
/// Of how many keys the use is shown. A new key removes the series of the key whose last use is the longest ago.
const MAX_KEYS: usize = 100;

/// A time in seconds, as a gauge shows it.
pub(super) fn seconds(time: Time) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}

/// The metrics of all plugins.
#[derive(Debug, Default)]
pub(crate) struct KmsMetrics {
    calls: Family<CallLabels, Histogram>,
    keys: RecentKeys,
    status_keys: RecentKeys,
    invalid_keys: Family<InvalidKeyLabels, Counter>,
    cache_sizes: Family<Arc<str>, Gauge>,
}

/// The labels of calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallLabels {
    provider: Arc<str>,
    method: &'static str,
    status: Cow<'static, str>,
}

impl From<&CallLabels> for CallLabels {
    fn from(labels: &CallLabels) -> Self {
        labels.clone()
    }
}

/// The labels of invalid IDs of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InvalidKeyLabels {
    provider: Arc<str>,
    error: &'static str,
}

impl From<&InvalidKeyLabels> for InvalidKeyLabels {
    fn from(labels: &InvalidKeyLabels) -> Self {
        labels.clone()
    }
}

/// The use of a key of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KeyLabels {
    /// `None` for the answers of status calls.
    direction: Option<Direction>,
    provider: Arc<str>,
    key_id: Box<str>,
}

/// [`KeyLabels`] that are borrowed. The fields are in the same order, so both have the same hash.
#[derive(Clone, Copy, Hash)]
struct KeyQuery<'k> {
    direction: Option<Direction>,
    provider: &'k str,
    key_id: &'k str,
}

impl Equivalent<KeyLabels> for KeyQuery<'_> {
    fn equivalent(&self, labels: &KeyLabels) -> bool {
        self.direction == labels.direction && *self.provider == *labels.provider && *self.key_id == *labels.key_id
    }
}

/// How often and when a key was used.
#[derive(Debug, Default)]
struct KeyUse {
    count: Counter,
    /// The bits of the time in seconds. They have the order of the times.
    last: AtomicU64,
}

impl KeyUse {
    fn record(&self, now: f64) {
        self.count.inc();
        self.last.store(now.to_bits(), Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

/// The use of a key, as metrics show it.
struct ShownKey {
    direction: Option<Direction>,
    provider: Arc<str>,
    key_id_hash: String,
    count: f64,
    /// The time of the last use in seconds.
    last: f64,
}

/// The keys that were used last.
#[derive(Debug, Default)]
struct RecentKeys(RwLock<HashMap<KeyLabels, KeyUse>>);

impl RecentKeys {
    fn record(&self, query: KeyQuery<'_>, now: Time) {
        let now = seconds(now);
        if let Some(key) = self.0.read().get(&query) {
            key.record(now);
            return;
        }
        let KeyQuery { direction, provider, key_id } = query;
        let labels = KeyLabels { direction, provider: provider.into(), key_id: key_id.into() };
        let mut keys = self.0.write();
        keys.entry(labels.clone()).or_default().record(now);
        if keys.len() > MAX_KEYS {
            let others = keys.iter().filter(|(other, _)| **other != labels);
            let oldest = others.min_by_key(|(_, key)| key.last()).map(|(oldest, _)| oldest.clone());
            oldest.and_then(|oldest| keys.remove(&oldest));
        }
    }

    fn all(&self) -> Vec<ShownKey> {
        let shown = |(labels, key): (&KeyLabels, &KeyUse)| ShownKey {
            direction: labels.direction,
            provider: labels.provider.clone(),
            key_id_hash: hash(&labels.key_id),
            count: key.count.get() as f64,
            last: f64::from_bits(key.last()),
        };
        self.0.read().iter().map(shown).collect()
    }
}

impl KmsMetrics {
    pub(super) fn write(&self, server: &str, out: &mut Exposition) {
        // Upstream fills the caches of this metric and of `dek_cache_inter_arrival_time_seconds` only with KMS v1.
        let help = "Percent of the cache slots currently occupied by cached DEKs.";
        let name = "apiserver_envelope_encryption_dek_cache_fill_percent";
        out.family(name, Kind::Gauge, Stability::Alpha, help).value(&[], 0.0);
        let help = "Number of records in data encryption key (DEK) source cache. On a restart, this value is an \
                    approximation of the number of decrypt RPC calls the server will make to the KMS plugin.";
        let name = "apiserver_envelope_encryption_dek_source_cache_size";
        let mut family = out.family(name, Kind::Gauge, Stability::Alpha, help);
        for (provider, size) in self.cache_sizes.all() {
            family.value(&[("provider_name", &provider)], size.get() as f64);
        }
        self.write_keys(server, out);
        let help = "Number of times an invalid keyID is returned by the Status RPC call split by error.";
        let name = "apiserver_envelope_encryption_invalid_key_id_from_status_total";
        let mut family = out.family(name, Kind::Counter, Stability::Alpha, help);
        for (InvalidKeyLabels { provider, error }, count) in self.invalid_keys.all() {
            family.value(&[("provider_name", &provider), ("error", error)], count.get() as f64);
        }
        let help = "KMS operation duration with gRPC error code status total.";
        let name = "apiserver_envelope_encryption_kms_operations_latency_seconds";
        let mut family = out.family(name, Kind::Histogram, Stability::Alpha, help);
        for (CallLabels { provider, method, status }, durations) in self.calls.all() {
            let labels = [("provider_name", &*provider), ("method_name", method), ("grpc_status_code", &*status)];
            family.histogram(&labels, &durations);
        }
    }

    fn write_keys(&self, server: &str, out: &mut Exposition) {
        for ShownKey { direction, provider, key_id_hash, count, last } in self.keys.all() {
            let labels = [
                ("transformation_type", direction.map(Direction::name).unwrap_or_default()),
                ("provider_name", &*provider),
                ("key_id_hash", key_id_hash.as_str()),
                ("apiserver_id_hash", server),
            ];
            let help =
                "Number of times a keyID is used split by transformation type, provider, and apiserver identity.";
            let name = "apiserver_envelope_encryption_key_id_hash_total";
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&labels, count);
            let help = "The last time in seconds when a keyID was used.";
            let name = "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds";
            out.family(name, Kind::Gauge, Stability::Alpha, help).value(&labels, last);
        }
        for ShownKey { provider, key_id_hash, last, .. } in self.status_keys.all() {
            let labels =
                [("provider_name", &*provider), ("key_id_hash", key_id_hash.as_str()), ("apiserver_id_hash", server)];
            let help = "The last time in seconds when a keyID was returned by the Status RPC call.";
            let name = "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds";
            out.family(name, Kind::Gauge, Stability::Alpha, help).value(&labels, last);
        }
    }
}

/// Records in the metrics under the name of a provider.
#[derive(Debug)]
pub(crate) struct ProviderMetrics {
    metrics: Arc<EncryptionMetrics>,
    provider: Arc<str>,
}

impl ProviderMetrics {
    pub(crate) fn new(metrics: Arc<EncryptionMetrics>, provider: &str) -> Self {
        Self { metrics, provider: provider.into() }
    }

    /// Records a call. The status is the name of gRPC's code.
    pub(crate) fn record_call(&self, method: &'static str, duration: Duration, status: Cow<'static, str>) {
        let labels = CallLabels { provider: self.provider.clone(), method, status };
        let new = || Histogram::new(Buckets::seconds(&CALL_DURATIONS));
        self.metrics.kms.calls.get(&labels, new).observe(duration);
    }

    /// Counts a value that was encrypted or decrypted under a key.
    pub(crate) fn record_key(&self, direction: Direction, key_id: &str, now: Time) {
        let query = KeyQuery { direction: Some(direction), provider: &self.provider, key_id };
        self.metrics.kms.keys.record(query, now);
    }

    /// Records the key in the plugin's status.
    pub(crate) fn record_status_key(&self, key_id: &str, now: Time) {
        let query = KeyQuery { direction: None, provider: &self.provider, key_id };
        self.metrics.kms.status_keys.record(query, now);
    }

    /// Counts an invalid key in the plugin's status.
    pub(crate) fn record_invalid_key(&self, error: &'static str) {
        let labels = InvalidKeyLabels { provider: self.provider.clone(), error };
        self.metrics.kms.invalid_keys.get(&labels, Counter::default).inc();
    }

    /// Sets the number of DEKs that are kept.
    pub(crate) fn record_cache_size(&self, size: usize) {
        let gauge = self.metrics.kms.cache_sizes.get(&*self.provider, Gauge::default);
        gauge.set(i64::try_from(size).unwrap_or(i64::MAX));
    }

    /// Records a new DEK, which was begun at a time.
    pub(crate) fn record_new_key<T>(&self, start: Instant, result: &Result<T, TransformError>) {
        self.metrics.transformations.record_key(start, result);
    }

    /// Counts a value whose DEK the plugin has to decrypt.
    pub(crate) fn record_cache_miss(&self) {
        self.metrics.transformations.record_cache_miss();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keys_of_the_last_uses_are_shown() {
        let keys = RecentKeys::default();
        let record = |key: i64, seconds| {
            let query = KeyQuery { direction: None, provider: "kms", key_id: &key.to_string() };
            keys.record(query, Time::from_seconds(seconds));
        };
        (0..100).for_each(|key| record(key, key));
        record(0, 100);
        record(100, 101);
        let mut all: Vec<_> = keys.all().into_iter().map(|key| (key.last, key.key_id_hash, key.count)).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert_eq!(all.len(), MAX_KEYS);
        assert_eq!(all[0], (2.0, hash("2"), 1.0));
        assert_eq!(all[98..], [(100.0, hash("0"), 2.0), (101.0, hash("100"), 1.0)]);
    }
}
