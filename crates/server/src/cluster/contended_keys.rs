//! The keys that several writes want to change at the same time. Each commit makes all other attempts start again, so
//! without an order the work for a write grows with the number of writers. After its first conflict a write waits for
//! its turn. Later writes of the key wait as well, until no write of the key is left.
//!
//! Turns only save work. A write that has waited for too long continues without a turn, and the compare of its commit
//! decides.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_locks::Mutex;
use pintle_store::Key;
use tokio::sync::OwnedMutexGuard;

/// Maximum time for which a write waits for its turn. The write before it may wait for a webhook, which may itself
/// write the same key.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The keys for which writes take turns.
#[derive(Debug, Default)]
pub(crate) struct ContendedKeys {
    queues: Mutex<HashMap<Key, Queue>>,
    /// The number of queues. Usually there are none, and then writes take no lock.
    count: AtomicUsize,
}

/// The writes of a key that take turns. The lock is fair.
#[derive(Debug, Default)]
struct Queue {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// The number of writes that have their turn or wait for it.
    members: usize,
}

/// The turn of a write. Dropping it lets the next write begin.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    keys: &'a ContendedKeys,
    key: Key,
    /// `None` for a write that has waited for too long.
    guard: Option<OwnedMutexGuard<()>>,
}

impl ContendedKeys {
    /// Waits for the turn of a write of a key.
    pub(crate) async fn wait(&self, key: Key) -> Turn<'_> {
        let lock = {
            let mut queues = self.queues.lock();
            let queue = queues.entry(key.clone()).or_default();
            queue.members += 1;
            let lock = queue.lock.clone();
            self.count.store(queues.len(), Ordering::Relaxed);
            lock
        };
        // `turn` leaves the queue if the request is cancelled meanwhile.
        let mut turn = Turn { keys: self, key, guard: None };
        turn.guard = tokio::time::timeout(MAX_WAIT, lock.lock_owned()).await.ok();
        turn
    }

    /// Waits for the turn of a write of a key, if writes of the key take turns at present.
    pub(crate) async fn wait_if_contended(&self, key: impl FnOnce() -> Key) -> Option<Turn<'_>> {
        // A write that misses a new queue joins it after a conflict.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let key = key();
        let is_contended = self.queues.lock().contains_key(&key);
        if is_contended { Some(self.wait(key).await) } else { None }
    }
}

impl Turn<'_> {
    /// True unless the write has waited for too long and continues without a turn.
    pub(crate) fn has_begun(&self) -> bool {
        self.guard.is_some()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut queues = self.keys.queues.lock();
        if let Some(queue) = queues.get_mut(&self.key) {
            queue.members -= 1;
            if queue.members == 0 {
                queues.remove(&self.key);
            }
        }
        self.keys.count.store(queues.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    use futures_util::poll;

    #[tokio::test]
    async fn writes_of_a_contended_key_take_turns() {
        let keys = ContendedKeys::default();
        assert!(keys.wait_if_contended(|| "a".into()).await.is_none());
        let first = keys.wait("a".into()).await;
        assert!(keys.wait_if_contended(|| "b".into()).await.is_none());
        let mut second = pin!(keys.wait("a".into()));
        let mut third = pin!(keys.wait_if_contended(|| "a".into()));
        assert!(poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        drop(first);
        assert!(poll!(third.as_mut()).is_pending());
        let second = second.await;
        assert!(second.has_begun());
        drop(second);
        assert!(third.await.is_some_and(|turn| turn.has_begun()));
        assert!(keys.wait_if_contended(|| "a".into()).await.is_none());
        assert!(keys.queues.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_long() {
        let keys = ContendedKeys::default();
        let first = keys.wait("a".into()).await;
        assert!(first.has_begun());
        let second = keys.wait("a".into()).await;
        assert!(!second.has_begun());
        drop(first);
        assert!(keys.wait_if_contended(|| "a".into()).await.is_some_and(|turn| turn.has_begun()));
        drop(second);
        // A write that has waited for too long can wait again.
        assert!(keys.wait("a".into()).await.has_begun());
        assert!(keys.queues.lock().is_empty());
    }

    #[tokio::test]
    async fn cancelled_writes_leave_the_queue() {
        let keys = ContendedKeys::default();
        let first = keys.wait("a".into()).await;
        {
            let mut second = pin!(keys.wait("a".into()));
            assert!(poll!(second.as_mut()).is_pending());
        }
        drop(first);
        assert!(keys.queues.lock().is_empty());
    }
}
