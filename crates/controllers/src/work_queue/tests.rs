//! Tests of the work queue, with reconciliations that only count.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;
use crate::work_queue_metrics::WorkQueues;

const MAX_CONCURRENT: usize = 4;

fn metrics() -> Arc<WorkQueueMetrics> {
    WorkQueues::default().queue("test")
}

/// A queue of names that counts reconciliations.
struct Fixture {
    queue: WorkQueue<&'static str, &'static str>,
    reconciled: Arc<AtomicUsize>,
}

impl Fixture {
    fn new() -> Self {
        Self { queue: WorkQueue::new(MAX_CONCURRENT, metrics()), reconciled: Arc::default() }
    }

    fn add(&mut self, items: &[&'static str]) {
        items.iter().for_each(|item| self.queue.add(item));
    }

    /// Starts all ready items, which all have the same result.
    fn start(&mut self, result: fn() -> ReconcileResult<&'static str>) -> usize {
        let before = self.reconciled.load(Ordering::Relaxed);
        self.queue.start(|_| {
            self.reconciled.fetch_add(1, Ordering::Relaxed);
            Some(ready(result()))
        });
        self.reconciled.load(Ordering::Relaxed) - before
    }

    /// Reconciles all ready items with the same result. Returns how many there were.
    async fn reconcile(&mut self, result: fn() -> ReconcileResult<&'static str>) -> usize {
        let started = self.start(result);
        for _ in 0..started {
            self.queue.wait().await;
        }
        started
    }
}

#[tokio::test(start_paused = true)]
async fn items_are_deduplicated_and_processed_again_if_added_meanwhile() {
    let mut fixture = Fixture::new();
    fixture.add(&["a", "b", "a"]);
    assert_eq!(fixture.start(|| ReconcileResult::Done), 2);
    fixture.add(&["a", "a"]);
    for _ in 0..2 {
        fixture.queue.wait().await;
    }
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 1, "a was added while it was processed");
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 0);
    fixture.add(&["c"]);
    fixture.queue.start(|_| None::<std::future::Ready<ReconcileResult<&'static str>>>);
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 0, "c was dropped");
    let idle = tokio::time::timeout(MAX_DELAY * 2, fixture.queue.wait()).await;
    assert!(idle.is_err(), "nothing is left to wait for");
    fixture.queue.drain().await;
}

#[tokio::test(start_paused = true)]
async fn failed_items_are_retried_with_exponential_backoff() {
    let mut fixture = Fixture::new();
    fixture.add(&["a"]);
    for delay in [BASE_DELAY, BASE_DELAY * 2, BASE_DELAY * 4] {
        assert_eq!(fixture.reconcile(|| ReconcileResult::Retry).await, 1);
        let failed = Instant::now();
        fixture.queue.wait().await;
        assert_eq!(failed.elapsed(), delay);
    }
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 1);
    fixture.add(&["a"]);
    assert_eq!(fixture.reconcile(|| ReconcileResult::Retry).await, 1);
    let failed = Instant::now();
    fixture.queue.wait().await;
    assert_eq!(failed.elapsed(), BASE_DELAY, "a success resets the backoff");
    for _ in 0..40 {
        assert_eq!(fixture.reconcile(|| ReconcileResult::Retry).await, 1);
        let failed = Instant::now();
        fixture.queue.wait().await;
        assert!(failed.elapsed() <= MAX_DELAY);
    }
}

#[tokio::test(start_paused = true)]
async fn workers_keep_the_client_only_until_they_end() {
    let client = Arc::new(());
    let weak = Arc::downgrade(&client);
    let mut queue = WorkQueue::<&'static str>::new(MAX_CONCURRENT, metrics());
    queue.add("a");
    queue.start_with(&weak, "it fails", |client, _| async move {
        tokio::time::sleep(BASE_DELAY).await;
        drop(client);
        Ok(ReconcileResult::Done)
    });
    drop(client);
    assert_eq!(weak.strong_count(), 1, "the worker has it");
    queue.wait().await;
    assert_eq!(weak.strong_count(), 0);
    queue.add("b");
    queue.start_with(&weak, "it fails", |_, _| async { Ok(ReconcileResult::Done) });
    assert!(!queue.is_empty(), "nothing is started without the client");
}

#[test]
fn failures_are_retried_unless_the_object_is_gone() {
    let check = |error: ApiError, retried: bool, retried_if_changed: bool| {
        let result = retry_failed::<Infallible>(Err(error.clone()), &"a", "it fails");
        assert_eq!(matches!(result, ReconcileResult::Retry), retried, "{error:?}");
        let result = retry_failed::<Infallible>(retry_changed(Err(error.clone())), &"a", "it fails");
        assert_eq!(matches!(result, ReconcileResult::Retry), retried_if_changed, "{error:?}");
    };
    let resource = || pintle_registry::GroupResource::new("", "pods");
    check(ApiError::NotFound { resource: resource(), name: "a".into() }, false, true);
    let exists =
        ApiError::AlreadyExists { resource: resource(), name: "a".into(), terminating: false, generated: false };
    check(exists, false, true);
    check(ApiError::Internal("the store is closed".to_owned()), true, true);
    assert!(matches!(retry_failed::<Infallible>(Ok(ReconcileResult::Done), &"a", "it fails"), ReconcileResult::Done));
}

#[tokio::test(start_paused = true)]
async fn an_item_has_one_retry_however_often_it_is_added() {
    let mut fixture = Fixture::new();
    for _ in 0..10 {
        fixture.add(&["a"]);
        assert_eq!(fixture.reconcile(|| ReconcileResult::Retry).await, 1);
    }
    assert_eq!((fixture.queue.delayed.len(), fixture.queue.retry_at.len()), (1, 1));
    fixture.queue.wait().await;
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 1);
    let idle = tokio::time::timeout(MAX_DELAY * 2, fixture.queue.wait()).await;
    assert!(idle.is_err(), "no earlier retry is left");
    assert!(fixture.queue.retry_at.is_empty() && fixture.queue.failures.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_blocked_item_that_its_owner_retries_keeps_its_backoff() {
    let mut fixture = Fixture::new();
    fixture.add(&["a"]);
    for delay in [BASE_DELAY, BASE_DELAY * 2, BASE_DELAY * 4] {
        fixture.start(|| ReconcileResult::Blocked("reason"));
        let (item, _) = fixture.queue.wait().await.expect("a blocked item");
        fixture.queue.retry(item);
        let failed = Instant::now();
        fixture.queue.wait().await;
        assert_eq!(failed.elapsed(), delay);
    }
    fixture.queue.start(|_| None::<std::future::Ready<ReconcileResult<&'static str>>>);
    assert!(fixture.queue.failures.is_empty(), "a dropped item is forgotten");
}

#[tokio::test(start_paused = true)]
async fn items_whose_worker_panics_are_retried() {
    let mut fixture = Fixture::new();
    fixture.add(&["a"]);
    fixture.queue.start(|_| Some(async { panic!("reconciling fails") }));
    fixture.queue.wait().await;
    fixture.queue.wait().await;
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 1);
}

#[tokio::test]
async fn blocked_items_are_handed_back_unless_added_meanwhile() {
    let mut fixture = Fixture::new();
    fixture.add(&["a"]);
    fixture.start(|| ReconcileResult::Blocked("reason"));
    assert_eq!(fixture.queue.wait().await, Some(("a", "reason")));
    fixture.add(&["a"]);
    fixture.start(|| ReconcileResult::Blocked("reason"));
    fixture.add(&["a"]);
    assert_eq!(fixture.queue.wait().await, None, "it was added meanwhile");
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_items_are_added_when_their_future_completes() {
    let mut fixture = Fixture::new();
    let condition = Arc::new(Notify::new());
    fixture.add(&["a"]);
    let waits = condition.clone();
    fixture.queue.start(|_| {
        let waits = waits.clone();
        Some(ready(ReconcileResult::WaitFor(Box::pin(async move { waits.notified().await }))))
    });
    fixture.queue.wait().await;
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 0, "it waits");
    condition.notify_one();
    fixture.queue.wait().await;
    assert_eq!(fixture.reconcile(|| ReconcileResult::Done).await, 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_item_is_added() {
    let mut fixture = Fixture::new();
    for _ in 0..3 {
        fixture.add(&["a"]);
        assert_eq!(fixture.start(|| ReconcileResult::WaitFor(Box::pin(pending()))), 1);
        while tokio::time::timeout(BASE_DELAY, fixture.queue.wait()).await.is_ok() {}
        assert_eq!((fixture.queue.waiting.len(), fixture.queue.waiters.len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_what_the_queue_does() {
    let mut fixture = Fixture::new();
    let metrics = fixture.queue.metrics.clone();
    fixture.add(&["a", "b", "a"]);
    assert_eq!((metrics.adds.get(), metrics.depth.get()), (2, 2));
    tokio::time::advance(Duration::from_secs(2)).await;
    fixture.queue.start(|_| {
        Some(async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            ReconcileResult::Retry
        })
    });
    assert_eq!((metrics.depth.get(), metrics.queue_durations.count(), metrics.queue_durations.sum()), (0, 2, 4.0));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(metrics.running(Instant::now().into_std()), (Duration::from_secs(2), Duration::from_secs(1)));
    for _ in 0..2 {
        fixture.queue.wait().await;
    }
    assert_eq!((metrics.retries.get(), metrics.work_durations.count()), (2, 2));
    assert_eq!(metrics.running(Instant::now().into_std()), (Duration::ZERO, Duration::ZERO));
}

#[tokio::test]
async fn concurrency_is_limited() {
    let mut queue = WorkQueue::<usize>::new(MAX_CONCURRENT, metrics());
    (0..MAX_CONCURRENT * 2).for_each(|item| queue.add(item));
    queue.start(|_| Some(ready(ReconcileResult::Done)));
    assert_eq!(queue.ready.len(), MAX_CONCURRENT);
    queue.wait().await;
    queue.start(|_| Some(ready(ReconcileResult::Done)));
    assert_eq!(queue.ready.len(), MAX_CONCURRENT - 1);
}
