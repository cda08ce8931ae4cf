//! The change feed: first the retained history, then live changes from the committing thread. Publishing never waits
//! for a reader. A reader that falls far behind loses its buffer and reads the retained history again, so memory stays
//! bounded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::{ChangeBatch, ChangeFeed, Error, Revision, StoreFuture, StoredChange};

/// The maximum size of the live changes that are buffered for one reader. A reader that exceeds it goes back to the
/// history.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// The number of changes in one read of the history.
const MAX_PAGE_CHANGES: usize = 2048;

/// Reads the changes that were committed before a feed subscribed.
pub(crate) trait HistoryReader: fmt::Debug + Send + Sync + 'static {
    /// The changes after `after` up to and including `until`, in order. At most about `limit` changes are returned, but
    /// at least one if there are any.
    fn read_page(&self, after: Revision, until: Revision, limit: usize) -> StoreFuture<'_, Vec<StoredChange>>;
}

/// A feed of the retained history and then of the live changes of a [`FeedPublisher`].
#[derive(Debug)]
pub(crate) struct BufferedFeed {
    position: Revision,
    history_until: Revision,
    history: Arc<dyn HistoryReader>,
    publisher: Arc<FeedPublisher>,
    buffer: Arc<FeedBuffer>,
}

impl ChangeFeed for BufferedFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(self.read_batch())
    }

    fn complete_to(&self) -> Revision {
        self.position
    }
}

impl BufferedFeed {
    async fn read_batch(&mut self) -> Result<ChangeBatch, Error> {
        loop {
            while self.position < self.history_until {
                let mut changes = self.history.read_page(self.position, self.history_until, MAX_PAGE_CHANGES).await?;
                changes.retain(|change| change.revision > self.position);
                self.position = changes.last().map_or(self.history_until, |last| last.revision);
                if !changes.is_empty() {
                    return Ok(ChangeBatch { changes, complete_to: self.position });
                }
            }
            match self.buffer.take() {
                BufferContents::Changes(mut changes) => {
                    changes.retain(|change| change.revision > self.position);
                    if let Some(last) = changes.last() {
                        self.position = last.revision;
                        return Ok(ChangeBatch { changes, complete_to: self.position });
                    }
                }
                BufferContents::Lagged => self.history_until = self.publisher.resume_live(&self.buffer),
                BufferContents::Closed => return Err(Error::Closed),
                BufferContents::Empty => self.buffer.notify.notified().await,
            }
        }
    }
}

/// Publishes committed changes to the feeds. The committing thread owns it.
#[derive(Debug)]
pub(crate) struct FeedPublisher {
    max_bytes: usize,
    state: pintle_locks::Mutex<PublisherState>,
}

#[derive(Debug)]
struct PublisherState {
    published: Revision,
    closed: bool,
    buffers: Vec<Weak<FeedBuffer>>,
}

/// The live changes that are buffered for one reader.
#[derive(Debug, Default)]
struct FeedBuffer {
    state: pintle_locks::Mutex<BufferState>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct BufferState {
    batches: VecDeque<Vec<StoredChange>>,
    bytes: usize,
    lagged: bool,
    closed: bool,
}

enum BufferContents {
    Changes(Vec<StoredChange>),
    Lagged,
    Closed,
    Empty,
}

impl FeedPublisher {
    pub(crate) fn new(published: Revision) -> FeedPublisher {
        FeedPublisher::with_max_bytes(published, MAX_BUFFERED_BYTES)
    }

    fn with_max_bytes(published: Revision, max_bytes: usize) -> FeedPublisher {
        FeedPublisher {
            max_bytes,
            state: pintle_locks::Mutex::new(PublisherState { published, closed: false, buffers: Vec::new() }),
        }
    }

    /// Opens a feed after `from`. The caller has checked that `from` is retained.
    pub(crate) fn subscribe(self: &Arc<Self>, from: Revision, history: Arc<dyn HistoryReader>) -> BufferedFeed {
        let buffer = Arc::new(FeedBuffer::default());
        let mut publisher = self.state.lock();
        publisher.buffers.push(Arc::downgrade(&buffer));
        buffer.state.lock().closed = publisher.closed;
        BufferedFeed {
            position: from,
            history_until: publisher.published,
            history,
            publisher: Arc::clone(self),
            buffer,
        }
    }

    /// Publishes committed changes to every reader. They must directly follow the changes of the previous call.
    pub(crate) fn publish(&self, changes: Vec<StoredChange>) {
        let Some(last) = changes.last() else { return };
        let bytes = changes.iter().map(buffered_size).sum();
        let mut publisher = self.state.lock();
        publisher.published = last.revision;
        publisher.buffers.retain(|buffer| buffer.strong_count() > 0);
        let mut buffers = publisher.buffers.iter().filter_map(Weak::upgrade).peekable();
        let mut changes = Some(changes);
        while let Some(buffer) = buffers.next() {
            let copy = if buffers.peek().is_some() { changes.clone() } else { changes.take() };
            buffer.push(copy.unwrap_or_default(), bytes, self.max_bytes);
        }
    }

    /// Ends every feed after the published changes.
    pub(crate) fn close(&self) {
        let mut publisher = self.state.lock();
        publisher.closed = true;
        for buffer in publisher.buffers.iter().filter_map(Weak::upgrade) {
            buffer.state.lock().closed = true;
            buffer.notify.notify_one();
        }
    }

    /// Lets a reader that fell behind receive live changes again. Returns the revision up to which it must read history
    /// first.
    fn resume_live(&self, buffer: &FeedBuffer) -> Revision {
        let publisher = self.state.lock();
        buffer.state.lock().lagged = false;
        publisher.published
    }
}

impl FeedBuffer {
    fn push(&self, changes: Vec<StoredChange>, bytes: usize, max_bytes: usize) {
        let mut state = self.state.lock();
        if state.lagged {
            return;
        }
        let idle = state.batches.is_empty();
        state.batches.push_back(changes);
        state.bytes += bytes;
        if state.bytes > max_bytes && state.batches.len() > 1 {
            state.batches = VecDeque::new();
            state.bytes = 0;
            state.lagged = true;
        }
        drop(state);
        if idle {
            self.notify.notify_one();
        }
    }

    fn take(&self) -> BufferContents {
        let mut state = self.state.lock();
        if state.lagged {
            return BufferContents::Lagged;
        }
        state.bytes = 0;
        match state.batches.pop_front() {
            Some(mut changes) => {
                changes.extend(state.batches.drain(..).flatten());
                BufferContents::Changes(changes)
            }
            None if state.closed => BufferContents::Closed,
            None => BufferContents::Empty,
        }
    }
}

/// The approximate memory of one buffered change.
fn buffered_size(change: &StoredChange) -> usize {
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
        StoredChange { revision: Revision(revision), key, value, stale: false }
    }

    /// A history that has every revision.
    #[derive(Debug)]
    struct FullHistory;

    impl HistoryReader for FullHistory {
        fn read_page(&self, after: Revision, until: Revision, limit: usize) -> StoreFuture<'_, Vec<StoredChange>> {
            let changes = (after.0 + 1..=until.0).take(limit).map(change).collect();
            Box::pin(async move { Ok(changes) })
        }
    }

    /// Publishes up to `to`, reads only after every `interval` changes, and expects every revision exactly once.
    async fn check(from: u64, at: u64, to: u64, interval: u64, max_bytes: usize) {
        let publisher = Arc::new(FeedPublisher::with_max_bytes(Revision(at), max_bytes));
        let mut feed = publisher.subscribe(Revision(from), Arc::new(FullHistory));
        let mut seen = Vec::new();
        for revision in at + 1..=to {
            publisher.publish(vec![change(revision)]);
            if revision % interval == 0 {
                seen.extend(feed.next_batch().await.unwrap().changes);
            }
        }
        publisher.close();
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
    async fn feed_delivers_history_then_live_changes() {
        check(1, 1, 10, 1, 1 << 20).await;
        check(1, 2000, 2010, 3, 1 << 20).await;
        check(5, 5, 5, 1, 1 << 20).await;
    }

    #[tokio::test]
    async fn slow_reader_goes_back_to_history() {
        check(1, 1, 500, 100, 2000).await;
        check(1, 50, 3000, 700, 500).await;
    }
}
