//! A store in memory whose behaviour a layer changes. Tests use it to let commits, reads and feeds fail or lag.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pintle_layered_store::{LayeredStore, StoreLayer};
//! use pintle_store::{Change, Error, MemoryStore, Revision, Store as _, StoreFuture};
//!
//! #[derive(Clone, Debug)]
//! struct ReadOnly;
//!
//! impl StoreLayer for ReadOnly {
//!     fn commit<'s>(&'s self, _: &'s MemoryStore, _: Change) -> StoreFuture<'s, Revision> {
//!         Box::pin(async { Err(Error::Unavailable { detail: "read-only".to_owned() }) })
//!     }
//! }
//!
//! let store = LayeredStore { store: Arc::new(MemoryStore::new()), layer: ReadOnly };
//! assert!(store.health().is_ok());
//! ```

use std::fmt::Debug;
use std::sync::Arc;

use pintle_store::{
    Change, ChangeBatch, ChangeFeed, Error, Key, KeyInterval, MemoryStore, RangeResponse, Record, Revision, Store,
    StoreFuture, Timestamp,
};

/// The changes that a [`LayeredStore`] makes to the behaviour of its store.
pub trait StoreLayer: Clone + Debug + Send + Sync + 'static {
    /// Called before a range is read and before a feed is opened.
    fn before_read<'s>(&'s self, _store: &'s MemoryStore) -> StoreFuture<'s, ()> {
        Box::pin(async { Ok(()) })
    }

    /// True if a value that was written at a revision is stale.
    fn is_stale(&self, _written_at: Revision) -> bool {
        false
    }

    /// Commits a change.
    fn commit<'s>(&'s self, store: &'s MemoryStore, change: Change) -> StoreFuture<'s, Revision> {
        store.commit(change)
    }

    /// Called with each feed that is opened. Returns the feed that the user of the store reads.
    fn feed(&self, feed: Box<dyn ChangeFeed>) -> Box<dyn ChangeFeed> {
        feed
    }
}

/// A store with a layer on top.
#[derive(Debug)]
pub struct LayeredStore<L> {
    /// The store. Several layered stores may share it.
    pub store: Arc<MemoryStore>,
    /// The layer.
    pub layer: L,
}

impl<L> LayeredStore<L> {
    /// A layer on an empty store.
    #[must_use]
    pub fn new(layer: L) -> Self {
        Self { store: Arc::new(MemoryStore::new()), layer }
    }
}

/// The change feed of a [`LayeredStore`].
#[derive(Debug)]
struct LayeredFeed<L> {
    feed: Box<dyn ChangeFeed>,
    layer: L,
}

impl<L: StoreLayer> ChangeFeed for LayeredFeed<L> {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(async {
            let mut batch = self.feed.next_batch().await?;
            for change in &mut batch.changes {
                change.stale |= self.layer.is_stale(change.revision);
            }
            Ok(batch)
        })
    }

    fn complete_to(&self) -> Revision {
        self.feed.complete_to()
    }
}

impl<L: StoreLayer> Store for LayeredStore<L> {
    fn current_revision(&self) -> StoreFuture<'_, Revision> {
        self.store.current_revision()
    }

    fn get(&self, key: Key, at: Option<Revision>) -> StoreFuture<'_, Option<Record>> {
        self.store.get(key, at)
    }

    fn range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> StoreFuture<'_, RangeResponse> {
        Box::pin(async move {
            self.layer.before_read(&self.store).await?;
            let mut range = self.store.range(interval, at, limit).await?;
            for record in &mut range.records {
                record.stale |= self.layer.is_stale(record.mod_revision);
            }
            Ok(range)
        })
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, Revision> {
        self.layer.commit(&self.store, change)
    }

    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>> {
        Box::pin(async move {
            self.layer.before_read(&self.store).await?;
            let feed = self.store.changes(from).await?;
            Ok(self.layer.feed(Box::new(LayeredFeed { feed, layer: self.layer.clone() })))
        })
    }

    fn compact(&self, before: Revision) -> StoreFuture<'_, ()> {
        self.store.compact(before)
    }

    fn oldest_revision(&self) -> StoreFuture<'_, Revision> {
        self.store.oldest_revision()
    }

    fn expiries(&self) -> StoreFuture<'_, Vec<(Key, Timestamp)>> {
        self.store.expiries()
    }

    fn health(&self) -> Result<(), Error> {
        self.store.health()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.store.close()
    }
}
