//! Corrupt objects: reads report them, earlier states stay readable, and no watcher receives a deletion event for them.

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{
    Cache, EncodingCache, Event, HistoryLimits, Indexer, KeyRange, ObjectIndex, WatchCache, WatchScope,
};
use pintle_store::{Change, MemoryStore, Store, SystemClock};

/// An indexer for which values that begin with `x` are corrupt.
struct RejectingIndexer;

impl Indexer for RejectingIndexer {
    fn index(&self, _: &str, value: &[u8]) -> Result<ObjectIndex, String> {
        if value.starts_with(b"x") { Err("it begins with x".to_owned()) } else { Ok(ObjectIndex::default()) }
    }
}

struct TestCache {
    store: Arc<MemoryStore>,
    cache: Cache,
    watch_cache: Arc<WatchCache>,
}

impl TestCache {
    async fn new(store: Arc<MemoryStore>) -> Self {
        let things = ["things".into()];
        let (clock, history_limits) = (Arc::new(SystemClock), HistoryLimits::default());
        let load = Cache::load(store.clone(), "/registry", things, Arc::new(RejectingIndexer), clock, history_limits);
        let cache = load.await.expect("a cache").follow([], EncodingCache::new(0));
        let watch_cache = cache.watch_cache("things").expect("a watch cache");
        Self { store, cache, watch_cache }
    }

    /// Writes or deletes a value and waits until the cache has it.
    async fn write(&self, key: &str, value: Option<&str>) -> u64 {
        let revision = write(&self.store, key, value).await;
        self.cache.wait_until_fresh(revision).await;
        revision
    }

    /// The state of a key, now and at a revision: its value, `nothing`, or the reason why it is corrupt.
    fn state_of(&self, key: &str, at: u64) -> (String, String) {
        let text = |object: Option<Arc<pintle_cache::Object>>| {
            object.map_or("nothing".to_owned(), |object| String::from_utf8_lossy(&object.json).into_owned())
        };
        let now = self.watch_cache.read(key).map_or_else(|corrupt| corrupt.reason.to_string(), text);
        let then = match self.watch_cache.corrupt(&KeyRange::Key(key.into()), Some(at)).into_iter().next() {
            Some(corrupt) => corrupt.reason.to_string(),
            None => text(self.watch_cache.get(key, Some(at)).expect("the revision is retained")),
        };
        (now, then)
    }
}

async fn write(store: &MemoryStore, key: &str, value: Option<&str>) -> u64 {
    let full = format!("/registry/things/{key}");
    let change = match value {
        Some(value) => Change::put(full, value.to_owned()),
        None => Change::delete(full, pintle_store::Compare::Any),
    };
    store.commit(change).await.expect("a commit").get()
}

/// Formats an event: its key with the values before and after.
fn format_event(event: &Event) -> String {
    let text = |object: &Option<Arc<pintle_cache::Object>>| {
        object.as_ref().map_or("-".to_owned(), |object| String::from_utf8_lossy(&object.json).into_owned())
    };
    format!("{}: {} to {}", event.key, text(&event.previous), text(&event.object))
}

#[tokio::test]
async fn reads_return_each_state_or_why_it_is_corrupt() {
    let test = TestCache::new(Arc::new(MemoryStore::new())).await;
    let writes = [Some("one"), Some("x1"), Some("x2"), Some("two"), None, Some("x3"), None, Some("x4"), Some("three")];
    let mut revisions = Vec::new();
    for value in writes {
        let at = test.write("a", value).await;
        revisions.push(at);
        let expect = match value {
            Some(corrupt) if corrupt.starts_with('x') => "it begins with x",
            value => value.unwrap_or("nothing"),
        };
        assert_eq!(test.state_of("a", at), (expect.to_owned(), expect.to_owned()));
        assert_eq!(test.watch_cache.len(), usize::from(!["it begins with x", "nothing"].contains(&expect)));
    }
    // Past states are unchanged.
    for (at, value) in revisions.into_iter().zip(writes) {
        let expect = match value {
            Some(corrupt) if corrupt.starts_with('x') => "it begins with x",
            value => value.unwrap_or("nothing"),
        };
        assert_eq!(test.state_of("a", at).1, expect);
    }
    assert_eq!(test.watch_cache.corrupt(&KeyRange::All, None), []);
}

#[tokio::test]
async fn a_watcher_that_stops_at_corrupt_objects_must_list_again() {
    let test = TestCache::new(Arc::new(MemoryStore::new())).await;
    let start = test.write("a", Some("one")).await;
    let mut event_stream = test.cache.event_stream();
    let mut watcher = test.watch_cache.watch_until_corrupt(WatchScope::All, start);
    let mut other_key = test.watch_cache.watch_until_corrupt(WatchScope::Key("b".into()), start);
    let mut tolerant = test.watch_cache.watch(WatchScope::All, start);
    let corrupt = test.write("a", Some("x")).await;
    // Any corrupt object of the collection ends these watchers, whatever their scope.
    assert_eq!(watcher.next().await.expect_err("the watcher fails").oldest, corrupt);
    assert!(other_key.next().await.is_err());
    let mended = test.write("a", Some("two")).await;
    assert!(test.watch_cache.watch_until_corrupt(WatchScope::All, corrupt).next().await.is_err());
    test.write("b", Some("three")).await;
    // Other watchers receive the next decodable change.
    let events = tolerant.next().await.expect("events");
    assert_eq!(
        events.first().map(|event| (format_event(event), event.revision)),
        Some(("a: one to two".to_owned(), mended))
    );
    // The previous object of that event is the last decodable object.
    let mut received = Vec::new();
    while received.len() < 2 {
        let events = tokio::time::timeout(Duration::from_secs(20), event_stream.next()).await.expect("events in time");
        received.extend(events.expect("no event is missed").iter().map(|(_, event)| format_event(event)));
    }
    assert_eq!(received, ["a: one to two", "b: - to three"]);
}

#[tokio::test]
async fn objects_that_were_corrupt_before_the_start_are_reported() {
    let store = Arc::new(MemoryStore::new());
    write(&store, "n/a", Some("x")).await;
    let at = write(&store, "n/b", Some("one")).await;
    write(&store, "m/a", Some("x")).await;
    store.compact(pintle_store::Revision(at)).await.expect("compaction");
    let test = TestCache::new(store).await;
    let corrupt = |range: KeyRange| -> Vec<String> {
        test.watch_cache.corrupt(&range, None).iter().map(|corrupt| corrupt.key.to_string()).collect()
    };
    assert_eq!(corrupt(KeyRange::All), ["m/a", "n/a"]);
    assert_eq!(corrupt(KeyRange::Namespace("n".into())), ["n/a"]);
    assert_eq!(corrupt(KeyRange::Key("n/b".into())), [""; 0]);
    test.write("n/a", None).await;
    test.write("m/a", None).await;
    assert_eq!(corrupt(KeyRange::All), [""; 0]);
    assert_eq!(test.watch_cache.objects(KeyRange::All).count(), 1);
}
