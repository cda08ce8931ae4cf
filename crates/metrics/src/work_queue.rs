//! The instruments of a work queue (upstream: `client-go/util/workqueue/metrics.go`). The handler of `/metrics` reads
//! them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pintle_locks::Mutex;

use crate::{Buckets, Counter, Gauge, Histogram};

const DURATIONS: Buckets = Buckets::seconds(&[1e-8, 1e-7, 1e-6, 0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0]);

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
    /// False if the queue retries nothing. Then it has no metric of retries.
    has_retries: bool,
    /// How long items waited before they were processed.
    pub queue_durations: Histogram,
    /// How long the processing of items took.
    pub work_durations: Histogram,
    running: Mutex<Running>,
}

/// The items in progress.
#[derive(Debug, Default)]
struct Running {
    last: u64,
    /// The start of the processing of each item.
    started: BTreeMap<u64, Instant>,
}

/// An item in progress.
#[derive(Debug, PartialEq, Eq)]
pub struct StartedItem(u64);

impl WorkQueueMetrics {
    /// The metrics of a queue.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            depth: Gauge::default(),
            adds: Counter::default(),
            retries: Counter::default(),
            has_retries: true,
            queue_durations: Histogram::new(DURATIONS),
            work_durations: Histogram::new(DURATIONS),
            running: Mutex::default(),
        }
    }

    /// The metrics of a queue that retries nothing.
    #[must_use]
    pub fn without_retries(name: &'static str) -> Self {
        Self { has_retries: false, ..Self::new(name) }
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// True if the queue retries items.
    #[must_use]
    pub fn has_retries(&self) -> bool {
        self.has_retries
    }

    /// The processing time of the items in progress: the sum, and the longest time.
    #[must_use]
    pub fn running(&self, now: Instant) -> (Duration, Duration) {
        let running = self.running.lock();
        let durations = running.started.values().map(|started| now.saturating_duration_since(*started));
        durations.fold((Duration::ZERO, Duration::ZERO), |(total, longest), took| (total + took, longest.max(took)))
    }

    /// Resets the queue to no waiting items and no items in progress.
    pub fn clear(&self) {
        self.depth.set(0);
        self.running.lock().started.clear();
    }

    /// Records that the processing of an item begins.
    pub fn started(&self, now: Instant) -> StartedItem {
        let mut running = self.running.lock();
        running.last += 1;
        let number = running.last;
        running.started.insert(number, now);
        StartedItem(number)
    }

    /// Records that the processing of an item ends.
    pub fn finished(&self, StartedItem(number): &StartedItem, now: Instant) {
        if let Some(started) = self.running.lock().started.remove(number) {
            self.work_durations.observe(now.saturating_duration_since(started));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_in_progress_are_measured() {
        let metrics = WorkQueueMetrics::new("q");
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let (one, other) = (metrics.started(start), metrics.started(start + second));
        assert_eq!(metrics.running(start + 3 * second), (5 * second, 3 * second));
        metrics.finished(&one, start + 3 * second);
        metrics.finished(&one, start + 4 * second);
        assert_eq!((metrics.work_durations.count(), metrics.work_durations.sum()), (1, 3.0));
        assert_eq!(metrics.running(start + 3 * second), (2 * second, 2 * second));
        metrics.clear();
        metrics.finished(&other, start + 3 * second);
        assert_eq!((metrics.work_durations.count(), metrics.running(start)), (1, (Duration::ZERO, Duration::ZERO)));
    }
}
