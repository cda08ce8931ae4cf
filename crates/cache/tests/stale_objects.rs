//! Objects whose stored form is stale, and a change feed that is not the store's own.

use std::sync::Arc;

use pintle_cache::{Cache, EncodingCache, HistoryLimits, Indexer, ObjectIndex};
use pintle_store::{
    Change, ChangeBatch, ChangeFeed, CommitResponse, Error, Key, KeyInterval, MemoryStore, RangeResponse, Record,
    Revision, Store, StoreFuture, SystemClock,
};

/// Indexes nothing.
struct NullIndexer;

impl Indexer for NullIndexer {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, String> {
        Ok(ObjectIndex::default())
    }
}

/// A store whose encryption key was rotated after a revision: values from before it are stale.
#[derive(Debug)]
struct RotatedStore {
    store: MemoryStore,
    rotated_after: Revision,
}

/// The change feed of a [`RotatedStore`].
#[derive(Debug)]
struct RotatedFeed {
    feed: Box<dyn ChangeFeed>,
    rotated_after: Revision,
}

impl ChangeFeed for RotatedFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(async {
            let mut batch = self.feed.next_batch().await?;
            for change in &mut batch.changes {
                change.stale = change.revision <= self.rotated_after;
            }
            Ok(batch)
        })
    }

    fn complete_to(&self) -> Revision {
        self.feed.complete_to()
    }
}

impl Store for RotatedStore {
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
            let mut range = self.store.range(interval, at, limit).await?;
            for record in &mut range.records {
                record.stale = record.mod_revision <= self.rotated_after;
            }
            Ok(range)
        })
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, CommitResponse> {
        self.store.commit(change)
    }

    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>> {
        Box::pin(async move {
            let feed = self.store.changes(from).await?;
            Ok(Box::new(RotatedFeed { feed, rotated_after: self.rotated_after }) as Box<dyn ChangeFeed>)
        })
    }

    fn compact(&self, before: Revision) -> StoreFuture<'_, ()> {
        self.store.compact(before)
    }

    fn oldest_revision(&self) -> StoreFuture<'_, Revision> {
        self.store.oldest_revision()
    }

    fn health(&self) -> Result<(), Error> {
        self.store.health()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.store.close()
    }
}

#[tokio::test]
async fn stale_objects_are_marked_until_they_are_written_again() {
    let store = MemoryStore::new();
    for name in ["initial", "history", "current"] {
        store.commit(Change::create(format!("/registry/things/{name}"), "{}")).await.expect("a commit");
    }
    // Of the first one only the state at the start of the history is left.
    store.compact(Revision(2)).await.expect("a compaction");
    let store = Arc::new(RotatedStore { store, rotated_after: Revision(3) });
    let load = Cache::load(
        store.clone(),
        "/registry",
        ["things".into()],
        Arc::new(NullIndexer),
        Arc::new(SystemClock),
        HistoryLimits::default(),
    );
    let cache = load.await.expect("a cache").follow([], EncodingCache::new(0));
    let watch_cache = cache.watch_cache("things").expect("a watch cache");
    let is_stale = |name: &str, at: Option<u64>| {
        watch_cache.get(name, at).expect("the revision is retained").expect("an object").is_stale()
    };
    let all = || ["initial", "history", "current"].map(|name| is_stale(name, None));
    assert_eq!(all(), [true, true, false]);
    cache.reindex("things").await.expect("the store is readable");
    assert_eq!(all(), [true, true, false], "another index does not change the stored form");

    // The same bytes again are a change of their own.
    for (name, revision) in [("initial", 2), ("history", 3)] {
        let change = Change::update(format!("/registry/things/{name}"), Revision(revision), "{}");
        let committed = store.commit(change).await.expect("a commit");
        assert_eq!(committed.revision, Revision(revision + 3));
    }
    cache.wait_until_fresh(6).await;
    assert_eq!(all(), [false; 3]);
    assert!(is_stale("initial", Some(4)), "the old version stays what it was");
}
