//! The metrics of an engine. The server reads them when it serves its own metrics.

use pintle_metrics::{Buckets, Counter, Histogram};

const COMMIT_DURATIONS: Buckets = Buckets::seconds(&[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);

/// The metrics of an engine that makes changes durable.
#[derive(Debug)]
pub struct StoreMetrics {
    /// The number of changes that were committed.
    pub changes: Counter,
    /// The number of transactions that failed.
    pub commit_errors: Counter,
    /// How long the transactions took, sync included. A transaction commits the changes of many callers.
    pub commit_durations: Histogram,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            changes: Counter::default(),
            commit_errors: Counter::default(),
            commit_durations: Histogram::new(COMMIT_DURATIONS),
        }
    }
}
