//! The metrics of work queues (upstream: `client-go/util/workqueue/metrics.go`). Whoever serves metrics reads them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_metrics::{Buckets, Counter, Gauge, Histogram};
use tokio::task::Id;
use tokio::time::Instant;

const DURATIONS: Buckets = Buckets::seconds(&[1e-8, 1e-7, 1e-6, 0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0]);

/// The metrics of the work queues of a cluster, by name.
#[derive(Default)]
pub struct WorkQueues(Mutex<BTreeMap<&'static str, Arc<WorkQueueMetrics>>>);

impl fmt::Debug for WorkQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl WorkQueues {
    /// The metrics of a queue. A queue that is created again goes on counting in the same ones.
    #[must_use]
    pub fn queue(&self, name: &'static str) -> Arc<WorkQueueMetrics> {
        self.0.lock().entry(name).or_insert_with(|| Arc::new(WorkQueueMetrics::new(name))).clone()
    }

    /// The metrics of all queues.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<WorkQueueMetrics>> {
        self.0.lock().values().cloned().collect()
    }
}

/// The metrics of one work queue.
#[derive(Debug)]
pub struct WorkQueueMetrics {
    name: &'static str,
    /// The number of items that are ready to be processed.
    pub depth: Gauge,
    /// The number of items that were added.
    pub adds: Counter,
    /// The number of items that were retried after a failure.
    pub retries: Counter,
    /// How long items waited to be processed.
    pub queue_durations: Histogram,
    /// How long the processing of items took.
    pub work_durations: Histogram,
    /// When the processing of each item in progress began, by its task.
    running: Mutex<HashMap<Id, Instant>>,
}

impl WorkQueueMetrics {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            depth: Gauge::default(),
            adds: Counter::default(),
            retries: Counter::default(),
            queue_durations: Histogram::new(DURATIONS),
            work_durations: Histogram::new(DURATIONS),
            running: Mutex::default(),
        }
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How long the items in progress have been processed: in total, and the longest.
    #[must_use]
    pub fn running(&self) -> (Duration, Duration) {
        let running = self.running.lock();
        let durations = running.values().map(Instant::elapsed);
        durations.fold((Duration::ZERO, Duration::ZERO), |(total, longest), took| (total + took, longest.max(took)))
    }

    /// Nothing is queued and nothing in progress.
    pub(crate) fn clear(&self) {
        self.depth.set(0);
        self.running.lock().clear();
    }

    pub(crate) fn started(&self, task: Id) {
        self.running.lock().insert(task, Instant::now());
    }

    pub(crate) fn finished(&self, task: Id) {
        if let Some(started) = self.running.lock().remove(&task) {
            self.work_durations.observe(started.elapsed());
        }
    }
}
