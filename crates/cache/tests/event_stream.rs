//! The event stream: the events of all collections in one order.

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Cache, CorruptReason, EncodingCache, EventStream, HistoryLimits, Indexer, ObjectIndex};
use pintle_store::{Change, MemoryStore, Store, SystemClock};

/// An indexer that indexes nothing.
struct NullIndexer;

impl Indexer for NullIndexer {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        Ok(ObjectIndex::default())
    }
}

/// A cache of `things` and `others`, and its store.
struct TestCache {
    store: Arc<MemoryStore>,
    cache: Cache,
}

impl TestCache {
    async fn new(history_limits: HistoryLimits) -> Self {
        let store = Arc::new(MemoryStore::new());
        let prefixes = ["things".into(), "others".into()];
        let load = Cache::load(
            store.clone(),
            "/registry",
            prefixes,
            Arc::new(NullIndexer),
            Arc::new(SystemClock),
            history_limits,
        );
        let cache = load.await.expect("a cache").follow([], EncodingCache::new(0));
        Self { store, cache }
    }

    /// Writes objects and waits until the cache has them.
    async fn put(&self, keys: &[&str]) {
        for key in keys {
            let change = Change::put(format!("/registry/{key}"), "{}".to_owned());
            let committed = self.store.commit(change).await.expect("a commit");
            self.cache.wait_until_fresh(committed.get()).await;
        }
    }
}

/// The keys of the next events of a stream.
async fn next(event_stream: &mut EventStream, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < count {
        let events = tokio::time::timeout(Duration::from_secs(20), event_stream.next()).await.expect("events in time");
        keys.extend(events.expect("no event is missed").iter().map(|(_, event)| event.key.to_string()));
    }
    keys
}

#[tokio::test]
async fn events_of_all_collections_are_ordered_by_revision() {
    let test = TestCache::new(HistoryLimits::default()).await;
    test.put(&["things/before"]).await;
    let mut event_stream = test.cache.event_stream();
    test.put(&["things/a", "others/b", "nothing/c", "things/d", "others/e"]).await;
    assert_eq!(next(&mut event_stream, 4).await, ["a", "b", "d", "e"]);
    let given_up = tokio::time::timeout(Duration::from_millis(1), event_stream.next()).await;
    assert!(given_up.is_err(), "there are no more events");
    test.put(&["others/f"]).await;
    assert_eq!(next(&mut event_stream, 1).await, ["f"]);
}

#[tokio::test]
async fn added_and_removed_watch_caches_are_reported_once() {
    let test = TestCache::new(HistoryLimits::default()).await;
    let mut event_stream = test.cache.event_stream();
    let mut watch_caches = || {
        let mut prefixes: Vec<String> =
            event_stream.watch_caches()?.iter().map(|watch_cache| watch_cache.prefix().to_string()).collect();
        prefixes.sort_unstable();
        Some(prefixes.join(" "))
    };
    assert_eq!(watch_caches().as_deref(), Some("others things"));
    assert_eq!(watch_caches(), None);
    test.cache.open("more").await.expect("a watch cache");
    assert_eq!(watch_caches().as_deref(), Some("more others things"));
    test.cache.close("more");
    test.cache.open("more").await.expect("a watch cache");
    assert_eq!(watch_caches().as_deref(), Some("more others things"), "it is a new watch cache");
    assert_eq!(watch_caches(), None);
}

#[tokio::test]
async fn an_event_stream_behind_the_history_fails_once_and_continues() {
    // Each of these events is larger than the history limits.
    let test = TestCache::new(HistoryLimits { bytes: 1, ..HistoryLimits::default() }).await;
    let mut event_stream = test.cache.event_stream();
    test.put(&["things/a", "things/b", "things/c"]).await;
    assert!(event_stream.next().await.is_err());
    let next = tokio::time::timeout(Duration::from_millis(1), event_stream.next()).await;
    assert!(next.is_err(), "it waits for new events");
}
