//! A queue of items to reconcile (upstream: `client-go/util/workqueue`). Each item is queued once and processed by one
//! task at a time. A limited number of items is processed at the same time. Failed items are retried with exponential
//! backoff.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_metrics::{StartedItem, WorkQueueMetrics};
use pintle_registry::{ApiError, BoxFuture};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

/// The delay after the first failure. It doubles with each further failure, up to the maximum.
const BASE_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The result of reconciling an item.
pub(crate) enum ReconcileResult<B = Infallible> {
    /// Nothing is left to do.
    Done,
    /// The item is reconciled again after a backoff.
    Retry,
    /// The item is reconciled again when the future completes, or when it is added before that.
    WaitFor(BoxFuture<'static, ()>),
    /// The item is handed back to the owner of the queue with the reason why it cannot be reconciled now. The owner
    /// retries or forgets it.
    Blocked(B),
}

/// Items that wait to be reconciled, and the tasks that reconcile them. Dropping the queue aborts the tasks.
pub(crate) struct WorkQueue<T, B = Infallible> {
    max_concurrent: usize,
    metrics: Arc<WorkQueueMetrics>,
    /// Items to process, in the order in which they were added.
    ready: VecDeque<T>,
    /// The items of `ready`, and items that were added during their processing, each with the time when it was added.
    dirty: HashMap<T, Instant>,
    workers: JoinSet<ReconcileResult<B>>,
    /// The item that each worker processes.
    worker_items: HashMap<Id, (T, StartedItem)>,
    processing: HashSet<T>,
    waiters: JoinSet<()>,
    /// The item that each waiter waits for.
    waiter_items: HashMap<Id, T>,
    waiting: HashMap<T, AbortHandle>,
    /// Failed items by the time of their retry. The number distinguishes items with the same time.
    delayed: BTreeMap<(Instant, u64), T>,
    /// The key of each item in `delayed`. An item is there at most once.
    retry_at: HashMap<T, (Instant, u64)>,
    retries: u64,
    /// How often each item has failed since its last success.
    failures: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash, B: Send + 'static> WorkQueue<T, B> {
    /// An empty queue that processes up to `max_concurrent` items at the same time.
    pub(crate) fn new(max_concurrent: usize, metrics: Arc<WorkQueueMetrics>) -> Self {
        metrics.clear();
        Self {
            max_concurrent,
            metrics,
            ready: VecDeque::new(),
            dirty: HashMap::new(),
            workers: JoinSet::new(),
            worker_items: HashMap::new(),
            processing: HashSet::new(),
            waiters: JoinSet::new(),
            waiter_items: HashMap::new(),
            waiting: HashMap::new(),
            delayed: BTreeMap::new(),
            retry_at: HashMap::new(),
            retries: 0,
            failures: HashMap::new(),
        }
    }

    /// Counts in other metrics from now on. The queue must be empty.
    pub(crate) fn report_to(&mut self, metrics: Arc<WorkQueueMetrics>) {
        metrics.clear();
        self.metrics = metrics;
    }

    /// Adds an item. If it is being processed, it is processed again afterwards.
    pub(crate) fn add(&mut self, item: T) {
        let Entry::Vacant(entry) = self.dirty.entry(item.clone()) else { return };
        entry.insert(Instant::now());
        self.metrics.adds.inc();
        if !self.processing.contains(&item) {
            self.ready.push_back(item);
            self.metrics.depth.add(1);
        }
    }

    /// True if no item is ready to be processed.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Starts to process the items that are ready, as far as the limit permits. Items for which `reconcile` returns
    /// `None` are dropped, and their backoff is reset.
    pub(crate) fn start<F>(&mut self, mut reconcile: impl FnMut(&T) -> Option<F>)
    where
        F: Future<Output = ReconcileResult<B>> + Send + 'static,
    {
        while self.workers.len() < self.max_concurrent
            && let Some(item) = self.get()
        {
            match reconcile(&item) {
                Some(reconcile) => {
                    let worker = self.workers.spawn(reconcile);
                    let started = self.metrics.started(Instant::now().into_std());
                    self.worker_items.insert(worker.id(), (item.clone(), started));
                    self.processing.insert(item);
                }
                None => self.forget(&item),
            }
        }
    }

    /// Starts like [`WorkQueue::start`], and gives `reconcile` a client of the cluster. A worker keeps the client only
    /// until it has ended. No worker is started once the cluster is gone. [`retry_failed`] handles failures.
    pub(crate) fn start_with<C, F>(
        &mut self,
        client: &Weak<C>,
        failure: &'static str,
        mut reconcile: impl FnMut(Arc<C>, T) -> F,
    ) where
        C: ?Sized + Send + Sync + 'static,
        F: Future<Output = Result<ReconcileResult<B>, ApiError>> + Send + 'static,
        T: Debug + Send + 'static,
    {
        let Some(client) = client.upgrade() else { return };
        self.start(|item| {
            let (reconciled, item) = (reconcile(client.clone(), item.clone()), item.clone());
            Some(async move { retry_failed(reconciled.await, &item, failure) })
        });
    }

    /// Waits until [`WorkQueue::start`] may have something to do: a worker has ended, or an item is ready again. It
    /// waits forever if nothing is processed, delayed or waiting. Returns a blocked item if a worker reports one.
    /// Cancel-safe.
    pub(crate) async fn wait(&mut self) -> Option<(T, B)> {
        // While all workers are busy, delayed items could not start anyway.
        let next_retry = self.delayed.first_key_value().map(|((time, _), _)| *time);
        let next_retry = next_retry.filter(|_| self.workers.len() < self.max_concurrent);
        tokio::select! {
            Some(ended) = self.workers.join_next_with_id() => {
                let (id, result) = ended.unwrap_or_else(|error| (error.id(), failed(&error)));
                self.done(id, result)
            }
            Some(ended) = self.waiters.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                if let Some(item) = self.waiter_items.remove(&id) {
                    self.waiting.remove(&item);
                    self.add(item);
                }
                None
            }
            () = async { sleep_until(next_retry.unwrap_or_else(Instant::now)).await }, if next_retry.is_some() => {
                self.add_delayed();
                None
            }
            else => std::future::pending().await,
        }
    }

    /// Adds a failed item again after its backoff.
    pub(crate) fn retry(&mut self, item: T) {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = BASE_DELAY.saturating_mul(1 << (*failures).min(16)).min(MAX_DELAY);
        *failures += 1;
        self.retries += 1;
        self.metrics.retries.inc();
        self.cancel_retry(&item);
        let retry_at = (Instant::now() + delay, self.retries);
        self.retry_at.insert(item.clone(), retry_at);
        self.delayed.insert(retry_at, item);
    }

    fn cancel_retry(&mut self, item: &T) {
        if let Some(retry_at) = self.retry_at.remove(item) {
            self.delayed.remove(&retry_at);
        }
    }

    /// Waits for the items that are being processed, and processes no others.
    pub(crate) async fn drain(mut self) {
        while self.workers.join_next().await.is_some() {}
    }

    /// Takes the next item. Its wait and its retry time are dropped.
    fn get(&mut self) -> Option<T> {
        let item = self.ready.pop_front()?;
        self.metrics.depth.add(-1);
        if let Some(added) = self.dirty.remove(&item) {
            self.metrics.queue_durations.observe(added.elapsed());
        }
        self.stop_waiting(&item);
        self.cancel_retry(&item);
        Some(item)
    }

    fn done(&mut self, id: Id, result: ReconcileResult<B>) -> Option<(T, B)> {
        let (item, started) = self.worker_items.remove(&id)?;
        self.metrics.finished(&started, Instant::now().into_std());
        self.processing.remove(&item);
        if matches!(result, ReconcileResult::Done | ReconcileResult::WaitFor(_)) {
            self.forget(&item);
        }
        if self.dirty.contains_key(&item) {
            self.ready.push_back(item);
            self.metrics.depth.add(1);
            return None;
        }
        match result {
            ReconcileResult::Done => {}
            ReconcileResult::Retry => self.retry(item),
            ReconcileResult::WaitFor(condition) => self.wait_for(item, condition),
            ReconcileResult::Blocked(reason) => return Some((item, reason)),
        }
        None
    }

    /// Resets the backoff of an item.
    pub(crate) fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    fn wait_for(&mut self, item: T, condition: BoxFuture<'static, ()>) {
        self.stop_waiting(&item);
        let waiter = self.waiters.spawn(condition);
        self.waiter_items.insert(waiter.id(), item.clone());
        self.waiting.insert(item, waiter);
    }

    fn stop_waiting(&mut self, item: &T) {
        if let Some(waiter) = self.waiting.remove(item) {
            self.waiter_items.remove(&waiter.id());
            waiter.abort();
        }
    }

    /// Adds the items whose backoff has passed.
    fn add_delayed(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let item = entry.remove();
            self.retry_at.remove(&item);
            self.add(item);
        }
    }
}

/// The result of an attempt to reconcile an item. A failure is retried, with a warning unless the object was changed
/// meanwhile. An object that was created or deleted meanwhile needs nothing more: its change enqueues it again.
pub(crate) fn retry_failed<B>(
    result: Result<ReconcileResult<B>, ApiError>,
    item: &impl Debug,
    failure: &'static str,
) -> ReconcileResult<B> {
    result.unwrap_or_else(|error| match error {
        ApiError::AlreadyExists { .. } | ApiError::NotFound { .. } => ReconcileResult::Done,
        ApiError::Conflict { .. } => ReconcileResult::Retry,
        error => {
            tracing::warn!(%error, ?item, "{failure}");
            ReconcileResult::Retry
        }
    })
}

/// For items that concern several objects: an item that failed because another object was created or deleted meanwhile
/// is retried, too.
///
/// # Errors
/// All other errors.
pub(crate) fn retry_changed<B>(result: Result<ReconcileResult<B>, ApiError>) -> Result<ReconcileResult<B>, ApiError> {
    match result {
        Err(ApiError::AlreadyExists { .. } | ApiError::NotFound { .. }) => Ok(ReconcileResult::Retry),
        result => result,
    }
}

fn failed<B>(error: &JoinError) -> ReconcileResult<B> {
    tracing::error!(%error, "Reconciling panicked, will retry");
    ReconcileResult::Retry
}

#[cfg(test)]
mod tests;
