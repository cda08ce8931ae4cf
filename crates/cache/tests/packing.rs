//! Other work during the packing of the history.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pintle_cache::{Cache, CorruptReason, EncodingCache, HistoryLimits, Indexer, ObjectIndex, WatchScope};
use pintle_layered_store::{LayeredStore, StoreLayer};
use pintle_store::{
    Change, ChangeBatch, ChangeFeed, ManualClock, MemoryStore, Revision, Store, StoreFuture, Timestamp,
};

use self::common::{NullIndexer, load};

/// Waits until a condition holds.
async fn until(mut condition: impl FnMut() -> bool) {
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(std::time::Instant::now() < give_up);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Counts the calls of feeds that need several polls to read a batch.
#[derive(Clone, Debug, Default)]
struct SlowFeeds(Arc<AtomicUsize>);

#[derive(Debug)]
struct SlowFeed {
    feed: Box<dyn ChangeFeed>,
    calls: Arc<AtomicUsize>,
}

impl StoreLayer for SlowFeeds {
    fn feed(&self, feed: Box<dyn ChangeFeed>) -> Box<dyn ChangeFeed> {
        Box::new(SlowFeed { feed, calls: self.0.clone() })
    }
}

impl ChangeFeed for SlowFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.feed.next_batch().await
        })
    }

    fn complete_to(&self) -> Revision {
        self.feed.complete_to()
    }
}

#[tokio::test]
async fn a_feed_goes_on_reading_while_the_history_of_a_start_is_packed() {
    const VERSIONS: usize = 20_000;
    let store = Arc::new(LayeredStore::new(SlowFeeds::default()));
    let put = |number: usize| Change::put("/registry/pods/a", format!("{number}{}", "x".repeat(1000)));
    for number in 0..VERSIONS {
        store.commit(put(number)).await.expect("a put");
    }
    let cache = load(store.clone(), &["pods"], NullIndexer).await;
    let calls = store.layer.0.load(Ordering::Relaxed);
    let last = store.commit(put(VERSIONS)).await.expect("a put");
    cache.wait_until_fresh(last.get()).await;
    until(|| cache.history_stats().retained_bytes < 14 << 20).await;
    let calls = store.layer.0.load(Ordering::Relaxed) - calls;
    assert!(calls <= 3, "{calls} calls for one batch");
}

/// An indexer that indexes the first character, once it is told to do so.
#[derive(Clone, Default)]
struct LateIndexer(Arc<AtomicBool>);

impl Indexer for LateIndexer {
    fn index(&self, _: &str, value: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        let first = self.0.load(Ordering::Relaxed).then(|| String::from_utf8_lossy(&value[..1]));
        Ok(ObjectIndex { fields: first.into_iter().collect(), ..ObjectIndex::default() })
    }
}

#[tokio::test]
async fn what_was_indexed_again_keeps_its_index_when_it_is_packed() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new(Timestamp(0))));
    let (indexer, limits) = (LateIndexer::default(), HistoryLimits::default());
    let prefixes = ["pods".into(), "others".into()];
    let load =
        Cache::load(store.clone(), "/registry", prefixes, Arc::new(indexer.clone()), clock.clone(), limits).await;
    let cache = load.expect("a cache").follow([], EncodingCache::new(0));
    let put = async |key: &str, first: &str| {
        let value = format!("{first}{}", "x".repeat(500));
        let revision = store.commit(Change::put(format!("/registry/{key}"), value)).await.expect("a put").get();
        cache.wait_until_fresh(revision).await;
        revision
    };
    let (red, blue) = (put("pods/a", "R").await, put("pods/a", "B").await);
    indexer.0.store(true, Ordering::Relaxed);
    cache.reindex("pods").await.expect("a store");
    clock.advance(Duration::from_secs(11));
    // The cache packs two of the due events after each write. The runtime has one thread, so it does so before the writer
    // goes on.
    for _ in 0..20 {
        put("others/x", "x").await;
    }
    let pods = cache.watch_cache("pods").expect("a watch cache");
    for (revision, field) in [(red, "R"), (blue, "B")] {
        let object = pods.get("a", Some(revision)).expect("a state").expect("an object");
        assert_eq!(object.field(0), field);
    }
    let mut watcher = pods.watch(WatchScope::Field(0, "R".into()), red);
    assert_eq!(watcher.pending().expect("a history").len(), 1, "the change from red to blue");
}
