//! The metrics of the work queues of a cluster. The server reads them for `/metrics`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pintle_locks::Mutex;
use pintle_metrics::WorkQueueMetrics;

/// The metrics of the work queues of a cluster, by name.
#[derive(Default)]
pub struct WorkQueues(Mutex<BTreeMap<&'static str, Arc<WorkQueueMetrics>>>);

impl fmt::Debug for WorkQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl WorkQueues {
    /// The metrics of a queue. A queue that is created again goes on with the same metrics.
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
