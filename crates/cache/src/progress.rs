//! The progress of the cache, and waiting for a revision.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use pintle_locks::Mutex;

/// The revision up to which every watch cache is complete.
///
/// A waiter is woken only when its revision is reached. Over etcd every write advances the progress by itself, and all
/// writes in flight wait.
pub(crate) struct Progress {
    applied_revision: AtomicU64,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    /// The wakers by the awaited revision and the number of the waiter.
    wakers: BTreeMap<(u64, u64), Waker>,
    next_number: u64,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("applied_revision", &self.get()).finish_non_exhaustive()
    }
}

impl Progress {
    pub(crate) fn new(revision: u64) -> Self {
        Self { applied_revision: AtomicU64::new(revision), waiters: Mutex::default() }
    }

    pub(crate) fn get(&self) -> u64 {
        self.applied_revision.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self, revision: u64) {
        let reached = {
            let mut waiters = self.waiters.lock();
            if self.applied_revision.fetch_max(revision, Ordering::AcqRel) >= revision {
                return;
            }
            let later = waiters.wakers.split_off(&(revision.saturating_add(1), 0));
            std::mem::replace(&mut waiters.wakers, later)
        };
        reached.into_values().for_each(Waker::wake);
    }

    pub(crate) async fn wait_until_fresh(&self, revision: u64) {
        Wait { progress: self, revision, number: None }.await;
    }
}

/// Waits for a revision.
struct Wait<'a> {
    progress: &'a Progress,
    revision: u64,
    /// The number of the waiter, once the future has been polled.
    number: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.progress.get() >= self.revision {
            return Poll::Ready(());
        }
        let mut waiters = self.progress.waiters.lock();
        // The progress advances under the lock.
        if self.progress.get() >= self.revision {
            return Poll::Ready(());
        }
        let number = self.number.unwrap_or(waiters.next_number);
        waiters.next_number = waiters.next_number.max(number + 1);
        let replaced = waiters.wakers.insert((self.revision, number), context.waker().clone());
        drop(waiters);
        // Dropping the old waker may drop another waiting future, and its drop takes this lock.
        drop(replaced);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && self.progress.get() < self.revision
        {
            let removed = self.progress.waiters.lock().wakers.remove(&(self.revision, number));
            drop(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(wait: Pin<&mut impl Future<Output = ()>>, counter: &Arc<Counter>) -> Poll<()> {
        wait.poll(&mut Context::from_waker(&counter.clone().into()))
    }

    #[test]
    fn those_are_woken_whose_revision_is_reached() {
        let progress = Progress::new(10);
        let counters: [Arc<Counter>; 3] = Default::default();
        let mut waits = [11, 12, 14].map(|revision| Box::pin(progress.wait_until_fresh(revision)));
        for (wait, counter) in waits.iter_mut().zip(&counters) {
            assert_eq!(poll(wait.as_mut(), counter), Poll::Pending);
        }
        let woken = || counters.each_ref().map(|counter| counter.0.load(Ordering::Relaxed));
        progress.advance(10);
        assert_eq!(woken(), [0, 0, 0]);
        progress.advance(12);
        assert_eq!(woken(), [1, 1, 0]);
        let states = waits.each_mut().map(|wait| poll(wait.as_mut(), &counters[2]));
        assert_eq!(states, [Poll::Ready(()), Poll::Ready(()), Poll::Pending]);
        progress.advance(20);
        assert_eq!(woken(), [1, 1, 1]);
        progress.advance(15);
        assert_eq!(progress.get(), 20);
        assert!(progress.waiters.lock().wakers.is_empty());
    }

    #[test]
    fn a_wait_that_is_dropped_is_forgotten() {
        let progress = Progress::new(0);
        let counter = Arc::default();
        let mut wait = Box::pin(progress.wait_until_fresh(5));
        assert_eq!(poll(wait.as_mut(), &counter), Poll::Pending);
        assert_eq!(poll(wait.as_mut(), &counter), Poll::Pending);
        assert_eq!(progress.waiters.lock().wakers.len(), 1);
        drop(wait);
        assert!(progress.waiters.lock().wakers.is_empty());
        let mut reached = Box::pin(progress.wait_until_fresh(0));
        assert_eq!(poll(reached.as_mut(), &counter), Poll::Ready(()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_is_lost() {
        let progress = Arc::new(Progress::new(0));
        let waiting: Vec<_> = (0..200)
            .map(|number| {
                let progress = progress.clone();
                tokio::spawn(async move { progress.wait_until_fresh(number % 50 * 100).await })
            })
            .collect();
        for revision in 0..5000 {
            progress.advance(revision);
        }
        for wait in waiting {
            wait.await.unwrap();
        }
    }
}
