//! The metrics of values that were encrypted and decrypted (upstream: `apiserver/pkg/storage/value/metrics.go`).

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pintle_metrics::{Buckets, Counter, Exposition, Family, Histogram, Kind, Stability};

use super::EncryptionMetrics;
use crate::TransformError;

/// Five microseconds, and each bound twice the one before.
const DURATIONS: [f64; 25] = doubled(5e-6);
const KEY_DURATIONS: [f64; 14] = doubled(5e-6);

/// Bounds of buckets of which each is twice the one before (`ExponentialBuckets`).
pub(super) const fn doubled<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut position = 1;
    while position < N {
        bounds[position] = bounds[position - 1] * 2.0;
        position += 1;
    }
    bounds
}

/// Whether values are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    FromStorage,
    ToStorage,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FromStorage => "from_storage",
            Self::ToStorage => "to_storage",
        }
    }
}

/// The labels of the number of transformations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OperationLabels {
    resource: Arc<str>,
    direction: Direction,
    prefix: Arc<str>,
    status: Cow<'static, str>,
}

impl From<&OperationLabels> for OperationLabels {
    fn from(labels: &OperationLabels) -> Self {
        labels.clone()
    }
}

/// The labels of the duration of transformations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DurationLabels {
    direction: Direction,
    prefix: Arc<str>,
}

impl From<&DurationLabels> for DurationLabels {
    fn from(labels: &DurationLabels) -> Self {
        labels.clone()
    }
}

/// The transformations of all resources.
#[derive(Debug, Default)]
pub(crate) struct TransformationMetrics {
    operations: Family<OperationLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
    cache_misses: Counter,
    /// How long it took to make DEKs.
    key_durations: KeyDurations,
    key_failures: Counter,
}

/// A histogram that exists before its first value.
#[derive(Debug)]
struct KeyDurations(Histogram);

impl Default for KeyDurations {
    fn default() -> Self {
        Self(Histogram::new(Buckets::seconds(&KEY_DURATIONS)))
    }
}

impl TransformationMetrics {
    /// Counts a value whose DEK the plugin has to decrypt.
    pub(crate) fn record_cache_miss(&self) {
        self.cache_misses.inc();
    }

    /// Records a new DEK, which was begun at a time.
    pub(crate) fn record_key<T>(&self, start: Instant, result: &Result<T, TransformError>) {
        match result {
            Ok(_) => self.key_durations.0.observe(start.elapsed()),
            Err(_) => self.key_failures.inc(),
        }
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Latencies in seconds of value transformation operations.";
        let name = "apiserver_storage_transformation_duration_seconds";
        let mut family = out.family(name, Kind::Histogram, Stability::Alpha, help);
        for (DurationLabels { direction, prefix }, durations) in self.durations.all() {
            let labels = [("transformation_type", direction.name()), ("transformer_prefix", &*prefix)];
            family.histogram(&labels, &durations);
        }
        let help = "Total number of transformations. Successful transformation will have a status 'OK' and a varied status \
                    string when the transformation fails. The status, resource, and transformation_type fields can be \
                    used for alerting purposes. For example, you can monitor for encryption/decryption failures using \
                    the transformation_type (e.g., from_storage for decryption and to_storage for encryption). \
                    Additionally, these fields can be used to ensure that the correct transformers are applied to each \
                    resource.";
        let name = "apiserver_storage_transformation_operations_total";
        let mut family = out.family(name, Kind::Counter, Stability::Alpha, help);
        for (OperationLabels { resource, direction, prefix, status }, count) in self.operations.all() {
            let labels = [
                ("resource", &*resource),
                ("transformation_type", direction.name()),
                ("transformer_prefix", &*prefix),
                ("status", &*status),
            ];
            family.value(&labels, count.get() as f64);
        }
        let help = "Total number of cache misses while accessing key decryption key(KEK).";
        let name = "apiserver_storage_envelope_transformation_cache_misses_total";
        let misses = self.cache_misses.get() as f64;
        out.family(name, Kind::Counter, Stability::Alpha, help).value(&[], misses);
        let help = "Latencies in seconds of data encryption key(DEK) generation operations.";
        let name = "apiserver_storage_data_key_generation_duration_seconds";
        out.family(name, Kind::Histogram, Stability::Alpha, help).histogram(&[], &self.key_durations.0);
        let help = "Total number of failed data encryption key(DEK) generation operations.";
        let name = "apiserver_storage_data_key_generation_failures_total";
        out.family(name, Kind::Counter, Stability::Alpha, help).value(&[], self.key_failures.get() as f64);
    }
}

/// Records the transformations of a resource by the transformer of a prefix. The series of successes are looked up once.
#[derive(Debug)]
pub(crate) struct Recorder {
    metrics: Arc<EncryptionMetrics>,
    resource: Arc<str>,
    /// The label of the prefix, by direction.
    prefixes: [Arc<str>; 2],
    successes: [OnceLock<(Arc<Counter>, Arc<Histogram>)>; 2],
}

impl Recorder {
    /// Records the transformations of a transformer. Only when it reads, a transformer without a prefix is the identity.
    pub(crate) fn new(metrics: &Arc<EncryptionMetrics>, resource: &Arc<str>, prefix: &[u8]) -> Self {
        let label: Arc<str> = String::from_utf8_lossy(prefix).into();
        let read = if prefix.is_empty() { "identity".into() } else { label.clone() };
        let (metrics, resource) = (metrics.clone(), resource.clone());
        Self { metrics, resource, prefixes: [read, label], successes: Default::default() }
    }

    fn count(&self, direction: Direction, status: Cow<'static, str>) -> Arc<Counter> {
        let prefix = self.prefixes[direction as usize].clone();
        let labels = OperationLabels { resource: self.resource.clone(), direction, prefix, status };
        self.metrics.transformations.operations.get(&labels, Counter::default)
    }

    /// Records a transformation that took a time.
    pub(crate) fn record_success(&self, direction: Direction, duration: Duration) {
        let (count, durations) = self.successes[direction as usize].get_or_init(|| {
            let labels = DurationLabels { direction, prefix: self.prefixes[direction as usize].clone() };
            let new = || Histogram::new(Buckets::seconds(&DURATIONS));
            (self.count(direction, "OK".into()), self.metrics.transformations.durations.get(&labels, new))
        });
        count.inc();
        durations.observe(duration);
    }

    /// Records a failed transformation.
    pub(crate) fn record_failure(&self, direction: Direction, status: Cow<'static, str>) {
        self.count(direction, status).inc();
    }
}
