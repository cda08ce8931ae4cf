//! A background task and its supervision.

use std::sync::Arc;
use std::time::Duration;

use pintle_locks::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::busy_time::{BusyTime, Measured};

/// The delay before a restart after the first failure of a task. Each further failure doubles it.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
/// The maximum delay.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// When a failing task counts as recovered, and when as unrecoverable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryTimes {
    /// A task has recovered if it has worked for this time since its last failure.
    pub recovered_after: Duration,
    /// A task that has failed repeatedly for this time does not recover by itself.
    pub unrecoverable_after: Duration,
}

impl Default for RecoveryTimes {
    fn default() -> Self {
        Self { recovered_after: Duration::from_secs(30), unrecoverable_after: Duration::from_secs(120) }
    }
}

/// A background task of the server. Clones share its state.
#[derive(Clone, Debug)]
pub struct BackgroundTask {
    name: &'static str,
    state: Arc<Mutex<TaskState>>,
    busy: Arc<BusyTime>,
}

#[derive(Debug, Default)]
struct TaskState {
    /// Why the task does not work now.
    failure: Option<String>,
    last_failure: Option<FailureSeries>,
    recovery: RecoveryTimes,
}

/// A series of failures without a recovery in between.
#[derive(Clone, Debug)]
struct FailureSeries {
    started_at: Instant,
    last_at: Instant,
    last_reason: String,
    /// The number of restarts of the task.
    restarts: u32,
}

impl TaskState {
    /// The failures from which the task has not recovered.
    fn failures(&mut self) -> Option<&mut FailureSeries> {
        let (works, recovered_after) = (self.failure.is_none(), self.recovery.recovered_after);
        self.last_failure.as_mut().filter(|series| !works || series.last_at.elapsed() < recovered_after)
    }

    fn record_failure(&mut self, reason: &str) -> &mut FailureSeries {
        let now = Instant::now();
        let known = self.failures().cloned();
        let known =
            known.unwrap_or(FailureSeries { started_at: now, last_at: now, last_reason: String::new(), restarts: 0 });
        self.failure = Some(reason.to_owned());
        self.last_failure.insert(FailureSeries { last_at: now, last_reason: reason.to_owned(), ..known })
    }
}

impl BackgroundTask {
    /// A task that works.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, state: Arc::default(), busy: Arc::default() }
    }

    /// Changes when the task counts as recovered, and when as unrecoverable.
    pub(crate) fn set_recovery(&self, recovery: RecoveryTimes) {
        self.state.lock().recovery = recovery;
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How long the task has kept a thread busy so far, including its current work.
    #[must_use]
    pub fn busy_time(&self) -> Duration {
        self.busy.get()
    }

    /// Why the task does not work now; `None` while it works.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    /// The last failure of a task that has failed repeatedly for [`RecoveryTimes::unrecoverable_after`], even if the
    /// task works at the moment.
    #[must_use]
    pub fn unrecoverable_failure(&self) -> Option<String> {
        let mut state = self.state.lock();
        let unrecoverable_after = state.recovery.unrecoverable_after;
        let series = state.failures()?;
        (series.started_at.elapsed() >= unrecoverable_after).then(|| series.last_reason.clone())
    }

    /// Reports that the task works.
    pub fn report_success(&self) {
        self.state.lock().failure = None;
    }

    /// Reports that the task fails, and why. It is not restarted: it retries by itself.
    pub fn report_failure(&self, reason: &str) {
        self.state.lock().record_failure(reason);
    }

    /// Records why the task has ended. Returns the delay before it is started again.
    fn record_end(&self, reason: &str) -> Duration {
        let mut state = self.state.lock();
        let series = state.record_failure(reason);
        series.restarts += 1;
        MIN_BACKOFF.saturating_mul(1 << (series.restarts - 1).min(16)).min(MAX_BACKOFF)
    }

    /// Runs a task until `is_over` is true after it has returned. After each error, panic or early return, it restarts
    /// the task with a backoff. The task then counts as failed until it calls [`BackgroundTask::report_success`].
    /// Dropping the future aborts the task.
    pub async fn supervise<F>(&self, mut start: impl FnMut() -> F, is_over: impl Fn() -> bool)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        loop {
            let reason = match run(Measured::new(start(), self.busy.clone())).await {
                // A failure at the end is ignored: the task is no longer expected to work.
                _ if is_over() => return,
                Ok(()) => "it has ended unexpectedly".to_owned(),
                Err(reason) => reason,
            };
            let delay = self.record_end(&reason);
            tracing::error!(task = self.name, error = reason, ?delay, "Background task failed, will restart it");
            sleep(delay).await;
            if is_over() {
                return;
            }
        }
    }
}

/// Runs a future as a task of its own, so that a panic ends only this task.
async fn run(future: impl Future<Output = Result<(), String>> + Send + 'static) -> Result<(), String> {
    let mut task = JoinSet::new();
    task.spawn(future);
    match task.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(error.to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_fails_and_ends_early_is_started_again_until_it_is_over() {
        let task = BackgroundTask::new("test");
        let (starts, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let start = || {
            let start = starts.fetch_add(1, Ordering::Relaxed);
            let task = task.clone();
            async move {
                match start {
                    0 => panic!("a defect"),
                    1 => Err("an error".to_owned()),
                    2 => Ok(()),
                    _ => {
                        task.report_success();
                        sleep(SECOND).await;
                        Ok(())
                    }
                }
            }
        };
        let supervised = task.supervise(start, || over.load(Ordering::Relaxed));
        let check = async {
            let mut failed_at = Instant::now();
            for (delay, expect) in [(1, "a defect"), (2, "an error"), (4, "it has ended unexpectedly")] {
                while task.failure().is_none_or(|reason| !reason.contains(expect)) {
                    sleep(MIN_BACKOFF / 10).await;
                }
                assert!(failed_at.elapsed() <= MIN_BACKOFF * delay, "{expect}: {:?}", failed_at.elapsed());
                failed_at = Instant::now();
            }
            while task.failure().is_some() {
                sleep(MIN_BACKOFF / 10).await;
            }
            assert_eq!(task.unrecoverable_failure(), None);
            over.store(true, Ordering::Relaxed);
        };
        tokio::time::timeout(SECOND * 60, async { tokio::join!(supervised, check) }).await.expect("it ends");
        assert_eq!((starts.load(Ordering::Relaxed), task.failure()), (4, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_keeps_failing_is_unrecoverable_even_while_it_runs() {
        let task = BackgroundTask::new("test");
        let start = || {
            task.report_success();
            async {
                sleep(SECOND).await;
                panic!("a defect")
            }
        };
        let supervised = task.supervise(start, || false);
        let check = async {
            sleep(RecoveryTimes::default().unrecoverable_after - SECOND).await;
            assert_eq!(task.unrecoverable_failure(), None);
            sleep(SECOND * 3).await;
            // The task is restarted at least every 11 seconds, and then runs for one second.
            while task.failure().is_some() {
                sleep(SECOND / 10).await;
            }
            assert!(task.unrecoverable_failure().is_some_and(|reason| reason.contains("a defect")));
        };
        tokio::select! {
            () = supervised => panic!("it goes on"),
            () = check => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_worked_for_a_while_has_recovered() {
        let task = BackgroundTask::new("test");
        for _ in 0..10 {
            task.report_failure("an error");
            task.report_success();
            sleep(RecoveryTimes::default().recovered_after).await;
        }
        assert_eq!(task.unrecoverable_failure(), None);
        task.report_failure("an error");
        sleep(RecoveryTimes::default().unrecoverable_after).await;
        assert_eq!(task.unrecoverable_failure().as_deref(), Some("an error"), "it has not worked since");
        task.report_success();
        assert_eq!(task.unrecoverable_failure(), None, "its last failure was long ago");
    }
}
