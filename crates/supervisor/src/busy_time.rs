//! How long a background task keeps a thread busy.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The time that a task has spent in its polls.
#[derive(Debug)]
pub(crate) struct BusyTime {
    created: Instant,
    /// The time of the completed polls, in nanoseconds.
    ended: AtomicU64,
    /// The start of the current poll, in nanoseconds since the creation; 0 between polls.
    began: AtomicU64,
}

impl Default for BusyTime {
    fn default() -> Self {
        Self { created: Instant::now(), ended: AtomicU64::new(0), began: AtomicU64::new(0) }
    }
}

impl BusyTime {
    /// The nanoseconds since the creation, at least one.
    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// The time so far, including the current poll. So a task that never returns from its poll is visible, too.
    pub(crate) fn get(&self) -> Duration {
        let current = match self.began.load(Ordering::Relaxed) {
            0 => 0,
            began => self.now().saturating_sub(began),
        };
        Duration::from_nanos(self.ended.load(Ordering::Relaxed).saturating_add(current))
    }
}

/// A future whose polls are measured.
pub(crate) struct Measured<F> {
    future: Pin<Box<F>>,
    busy: Arc<BusyTime>,
}

impl<F> Measured<F> {
    pub(crate) fn new(future: F, busy: Arc<BusyTime>) -> Self {
        Self { future: Box::pin(future), busy }
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _poll = RunningPoll::begin(self.busy.clone());
        self.future.as_mut().poll(context)
    }
}

/// The current poll. A panic ends it, too.
struct RunningPoll {
    busy: Arc<BusyTime>,
    began: u64,
}

impl RunningPoll {
    fn begin(busy: Arc<BusyTime>) -> Self {
        let began = busy.now();
        busy.began.store(began, Ordering::Relaxed);
        Self { busy, began }
    }
}

impl Drop for RunningPoll {
    fn drop(&mut self) {
        self.busy.began.store(0, Ordering::Relaxed);
        self.busy.ended.fetch_add(self.busy.now() - self.began, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn polls_are_counted_and_waits_are_not() {
        let busy = Arc::new(BusyTime::default());
        let during = busy.clone();
        let work = Duration::from_millis(20);
        let task = Measured::new(
            async move {
                std::thread::sleep(work);
                let first = during.get();
                // The task waits, which does not count.
                tokio::time::sleep(Duration::from_millis(300)).await;
                first
            },
            busy.clone(),
        );
        let started = Instant::now();
        let first = task.await;
        let wait = started.elapsed() - work;
        assert!(first >= work, "{first:?} during the poll");
        assert!(busy.get() >= first && busy.get() < work + wait, "{:?} at the end", busy.get());
        let ended = busy.get();
        assert_eq!(busy.get(), ended, "nothing is counted afterwards");
    }
}
