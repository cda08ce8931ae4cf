//! The change feed: history first, then live changes handed over by the committing thread. The handover never waits for
//! a reader, and a reader that falls far behind goes back to the kept history, so that memory stays bounded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::{Error, Pending, Revision, StoredChange, lock};

/// How many bytes of changes may wait for one reader before it is sent back to the history.
const BACKLOG_BYTES: usize = 64 << 20;

/// How many changes one read of history asks for.
const PAGE: usize = 2048;

/// Where a feed reads what was committed before it was attached.
pub(crate) trait History: fmt::Debug + Send + Sync + 'static {
    /// The changes after `after` up to and including `until`, in order, at most about `limit`; never empty when there
    /// are any.
    fn page(&self, after: Revision, until: Revision, limit: usize) -> Pending<'_, Vec<StoredChange>>;
}

/// Some consecutive changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changes, in order of their revisions.
    pub changes: Vec<StoredChange>,
    /// Everything up to here has now been delivered.
    pub complete_to: Revision,
}

/// The ordered changes of a store from some revision on.
#[derive(Debug)]
pub struct ChangeFeed {
    position: Revision,
    history_until: Revision,
    history: Arc<dyn History>,
    hub: Arc<Hub>,
    tail: Arc<Tail>,
}

impl ChangeFeed {
    /// Waits for changes and returns all that are there, at least one.
    ///
    /// Dropping the future loses nothing. Fails with [`Error::Closed`] after the last change of a closed store, and
    /// with [`Error::Compacted`] when the reader was so slow that the history which it needs is gone.
    pub async fn next_batch(&mut self) -> Result<Batch, Error> {
        loop {
            while self.position < self.history_until {
                let mut changes = self.history.page(self.position, self.history_until, PAGE).await?;
                changes.retain(|change| change.revision > self.position);
                self.position = changes.last().map_or(self.history_until, |last| last.revision);
                if !changes.is_empty() {
                    return Ok(Batch { changes, complete_to: self.position });
                }
            }
            match self.tail.take() {
                Taken::Changes(mut changes) => {
                    changes.retain(|change| change.revision > self.position);
                    if let Some(last) = changes.last() {
                        self.position = last.revision;
                        return Ok(Batch { changes, complete_to: self.position });
                    }
                }
                Taken::Lagged => self.history_until = self.hub.resume(&self.tail),
                Taken::Closed => return Err(Error::Closed),
                Taken::Nothing => self.tail.arrived.notified().await,
            }
        }
    }

    /// Everything up to here has been delivered by this feed.
    pub fn complete_to(&self) -> Revision {
        self.position
    }
}

/// What the committing side hands to its readers.
#[derive(Debug)]
pub(crate) struct Hub {
    backlog: usize,
    inner: std::sync::Mutex<HubState>,
}

#[derive(Debug)]
struct HubState {
    published: Revision,
    closed: bool,
    tails: Vec<Weak<Tail>>,
}

/// The changes that wait for one reader.
#[derive(Debug, Default)]
struct Tail {
    state: std::sync::Mutex<TailState>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct TailState {
    waiting: VecDeque<Vec<StoredChange>>,
    bytes: usize,
    lagged: bool,
    closed: bool,
}

enum Taken {
    Changes(Vec<StoredChange>),
    Lagged,
    Closed,
    Nothing,
}

impl Hub {
    pub(crate) fn new(published: Revision) -> Hub {
        Hub::with_backlog(published, BACKLOG_BYTES)
    }

    fn with_backlog(published: Revision, backlog: usize) -> Hub {
        Hub { backlog, inner: std::sync::Mutex::new(HubState { published, closed: false, tails: Vec::new() }) }
    }

    /// Opens a feed after `from`. The caller has checked that `from` lies in the kept history.
    pub(crate) fn attach(self: &Arc<Self>, from: Revision, history: Arc<dyn History>) -> ChangeFeed {
        let tail = Arc::new(Tail::default());
        let mut hub = lock(&self.inner);
        hub.tails.push(Arc::downgrade(&tail));
        lock(&tail.state).closed = hub.closed;
        ChangeFeed { position: from, history_until: hub.published, history, hub: Arc::clone(self), tail }
    }

    /// Hands committed changes to every reader. They must follow on those of the call before.
    pub(crate) fn publish(&self, changes: Vec<StoredChange>) {
        let Some(last) = changes.last() else { return };
        let bytes = changes.iter().map(weight).sum();
        let mut hub = lock(&self.inner);
        hub.published = last.revision;
        hub.tails.retain(|tail| tail.strong_count() > 0);
        let mut tails = hub.tails.iter().filter_map(Weak::upgrade).peekable();
        let mut changes = Some(changes);
        while let Some(tail) = tails.next() {
            let handed = if tails.peek().is_some() { changes.clone() } else { changes.take() };
            tail.push(handed.unwrap_or_default(), bytes, self.backlog);
        }
    }

    /// Ends every feed after what was published.
    pub(crate) fn close(&self) {
        let mut hub = lock(&self.inner);
        hub.closed = true;
        for tail in hub.tails.iter().filter_map(Weak::upgrade) {
            lock(&tail.state).closed = true;
            tail.arrived.notify_one();
        }
    }

    /// Lets a reader that fell behind receive live changes again; returns up to where it must read history first.
    fn resume(&self, tail: &Tail) -> Revision {
        let hub = lock(&self.inner);
        lock(&tail.state).lagged = false;
        hub.published
    }
}

impl Tail {
    fn push(&self, changes: Vec<StoredChange>, bytes: usize, backlog: usize) {
        let mut state = lock(&self.state);
        if state.lagged {
            return;
        }
        let idle = state.waiting.is_empty();
        state.waiting.push_back(changes);
        state.bytes += bytes;
        if state.bytes > backlog && state.waiting.len() > 1 {
            state.waiting = VecDeque::new();
            state.bytes = 0;
            state.lagged = true;
        }
        drop(state);
        if idle {
            self.arrived.notify_one();
        }
    }

    fn take(&self) -> Taken {
        let mut state = lock(&self.state);
        if state.lagged {
            return Taken::Lagged;
        }
        state.bytes = 0;
        match state.waiting.pop_front() {
            Some(mut changes) => {
                changes.extend(state.waiting.drain(..).flatten());
                Taken::Changes(changes)
            }
            None if state.closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }
}

/// The memory that one waiting change holds, roughly.
fn weight(change: &StoredChange) -> usize {
    let value = change.value.as_ref().map_or(0, bytes::Bytes::len);
    size_of::<StoredChange>() + change.key.len() + value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn change(revision: u64) -> StoredChange {
        let key = Key::from("k");
        let value = Some(bytes::Bytes::from(vec![0; 100]));
        StoredChange { revision: Revision(revision), key, value, create_revision: Revision(revision) }
    }

    /// A history that has every revision.
    #[derive(Debug)]
    struct Complete;

    impl History for Complete {
        fn page(&self, after: Revision, until: Revision, limit: usize) -> Pending<'_, Vec<StoredChange>> {
            let changes = (after.0 + 1..=until.0).take(limit).map(change).collect();
            Box::pin(async move { Ok(changes) })
        }
    }

    /// Publishes up to `to` in steps, reading only after every `pause` steps, and expects every revision once.
    async fn check(from: u64, at: u64, to: u64, pause: u64, backlog: usize) {
        let hub = Arc::new(Hub::with_backlog(Revision(at), backlog));
        let mut feed = hub.attach(Revision(from), Arc::new(Complete));
        let mut seen = Vec::new();
        for revision in at + 1..=to {
            hub.publish(vec![change(revision)]);
            if revision % pause == 0 {
                seen.extend(feed.next_batch().await.unwrap().changes);
            }
        }
        hub.close();
        let end = loop {
            match feed.next_batch().await {
                Ok(batch) => {
                    assert_eq!(batch.changes.last().unwrap().revision, batch.complete_to);
                    seen.extend(batch.changes);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(end, Error::Closed));
        let seen: Vec<u64> = seen.iter().map(|change| change.revision.0).collect();
        assert_eq!(seen, (from + 1..=to).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn history_then_live() {
        check(1, 1, 10, 1, 1 << 20).await;
        check(1, 2000, 2010, 3, 1 << 20).await;
        check(5, 5, 5, 1, 1 << 20).await;
    }

    #[tokio::test]
    async fn a_slow_reader_returns_to_history() {
        check(1, 1, 500, 100, 2000).await;
        check(1, 50, 3000, 700, 500).await;
    }
}
