//! The writes in progress for which admission plugins reserve something (shares of quotas), or may do so. The quota
//! controller waits for these writes before it counts stored objects. Then each earlier reservation is either stored or
//! given back.

use std::collections::BTreeSet;

use pintle_locks::Mutex;
use tokio::sync::Notify;

/// The writes in progress that have reservations.
#[derive(Debug, Default)]
pub(crate) struct ReservedWrites {
    writes: Mutex<Numbers>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    in_progress: BTreeSet<u64>,
}

/// A write in progress that has reservations. Dropping it ends the write.
#[derive(Debug)]
pub(crate) struct ReservedWrite<'a> {
    writes: &'a ReservedWrites,
    number: u64,
}

impl ReservedWrites {
    /// Begins a write.
    pub(crate) fn begin(&self) -> ReservedWrite<'_> {
        let mut writes = self.writes.lock();
        let number = writes.next;
        writes.next += 1;
        writes.in_progress.insert(number);
        ReservedWrite { writes: self, number }
    }

    /// Waits until every write that began before the call has ended.
    pub(crate) async fn wait(&self) {
        let end = self.writes.lock().next;
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.writes.lock().in_progress.first().is_none_or(|first| *first >= end) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for ReservedWrite<'_> {
    fn drop(&mut self) {
        self.writes.writes.lock().in_progress.remove(&self.number);
        self.writes.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_writes_that_began_before() {
        let writes = ReservedWrites::default();
        writes.wait().await;
        let (first, second) = (writes.begin(), writes.begin());
        let waiting = writes.wait();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let _later = writes.begin();
        drop(second);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(first);
        assert!(futures_util::poll!(waiting.as_mut()).is_ready());
    }
}
