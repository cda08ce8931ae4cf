//! Helpers of several tests: an indexer, and a store that changes another store's answers.

use std::fmt::Debug;
use std::sync::Arc;

use pintle_cache::{Cache, EncodingCache, HistoryLimits, Indexer, ObjectIndex};
use pintle_store::{
    Change, ChangeBatch, ChangeFeed, Error, Key, KeyInterval, MemoryStore, RangeResponse, Record, Revision, Store,
    StoreFuture, SystemClock, Timestamp,
};
use pintle_value::Str;

/// An indexer that indexes nothing.
pub(crate) struct NullIndexer;

impl Indexer for NullIndexer {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, String> {
        Ok(ObjectIndex::default())
    }
}

/// A cache of these collections. Its history limits are too large to matter.
pub(crate) async fn load(store: Arc<dyn Store>, prefixes: &[&str], indexer: impl Indexer) -> Cache {
    let prefixes: Vec<Str> = prefixes.iter().copied().map(Str::from).collect();
    let clock = Arc::new(SystemClock);
    let load = Cache::load(store, "/registry", prefixes, Arc::new(indexer), clock, HistoryLimits::default());
    load.await.expect("a cache").follow([], EncodingCache::new(0))
}

/// The changes that a [`LayeredStore`] makes to the answers of its store.
pub(crate) trait StoreLayer: Clone + Debug + Send + Sync + 'static {
    /// Called before a range is read and before a feed is opened.
    fn before_read<'s>(&'s self, _store: &'s MemoryStore) -> StoreFuture<'s, ()> {
        Box::pin(async { Ok(()) })
    }

    /// True if a value that was written at a revision is stale.
    fn is_stale(&self, _written_at: Revision) -> bool {
        false
    }

    /// Called with each feed that is opened. Returns the feed that the cache reads.
    fn feed(&self, feed: Box<dyn ChangeFeed>) -> Box<dyn ChangeFeed> {
        feed
    }
}

/// A store with a layer on top.
#[derive(Debug)]
pub(crate) struct LayeredStore<L> {
    pub(crate) store: MemoryStore,
    pub(crate) layer: L,
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
                change.stale = self.layer.is_stale(change.revision);
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
                record.stale = self.layer.is_stale(record.mod_revision);
            }
            Ok(range)
        })
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, Revision> {
        self.store.commit(change)
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
