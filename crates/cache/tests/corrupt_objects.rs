//! Corrupt objects: reads report them, earlier states stay readable, and no watcher receives a deletion event for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pintle_cache::{
    Cache, CorruptReason, EncodingCache, Event, HistoryLimits, Indexer, KeyRange, ObjectIndex, WatchCache, WatchScope,
};
use pintle_store::{
    Change, EmbeddedOptions, EmbeddedStore, MemoryStore, Store, StoredValue, SystemClock, TransformError,
    TransformedValue, ValueTransformer, unreadable_reason,
};

/// An indexer for which values that begin with `x` are corrupt.
struct RejectingIndexer;

impl Indexer for RejectingIndexer {
    fn index(&self, _: &str, value: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        if value.starts_with(b"x") { Err("it begins with x".to_owned().into()) } else { Ok(ObjectIndex::default()) }
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
        let now = self.watch_cache.read(key).map_or_else(|corrupt| corrupt.reason.text.to_string(), text);
        let then = match self.watch_cache.corrupt(&KeyRange::Key(key.into()), Some(at)).into_iter().next() {
            Some(corrupt) => corrupt.reason.text.to_string(),
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

/// A transformer that cannot decrypt values that begin with `e` while a key is missing.
#[derive(Debug, Default)]
struct MissingKey(Arc<AtomicBool>);

impl ValueTransformer for MissingKey {
    fn transform_to_storage(&self, _: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        Ok(StoredValue::exact(value))
    }

    fn transform_from_storage(&self, _: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        match stored.starts_with(b"e") && !self.0.load(Ordering::Relaxed) {
            true => Err(TransformError::encryption("the key is missing")),
            false => Ok(TransformedValue { value: stored, stale: false }),
        }
    }
}

/// As the indexer of a server, this one reports values that could not be transformed.
struct ReportingIndexer;

impl Indexer for ReportingIndexer {
    fn index(&self, _: &str, value: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        match unreadable_reason(value) {
            Some(error) => Err(CorruptReason { text: error.detail.into(), is_encrypted: true }),
            None => Ok(ObjectIndex::default()),
        }
    }
}

/// While a key is missing, its objects are corrupt. Once it is there, they are read again, and everybody who follows the
/// collection has to list it again.
#[tokio::test]
async fn objects_that_could_not_be_decrypted_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let transformer = Arc::new(MissingKey::default());
    let has_key = transformer.0.clone();
    let open = || {
        let options = EmbeddedOptions { transformer: transformer.clone(), ..EmbeddedOptions::default() };
        Arc::new(EmbeddedStore::open(folder.path(), options).expect("a store"))
    };
    let store = open();
    // Two collections: a few objects are read one by one, many are read together.
    for (collection, count) in [("few", 2), ("many", 100), ("others", 0)] {
        for number in 0..count {
            let key = format!("/registry/{collection}/{number}");
            store.commit(Change::create(key, format!("e{number}"))).await.expect("a commit");
        }
        store.commit(Change::create(format!("/registry/{collection}/plain"), "plain")).await.expect("a commit");
    }
    store.close().await.expect("it closes");
    let store = open();
    let (clock, history) = (Arc::new(SystemClock), HistoryLimits::default());
    let prefixes = ["few".into(), "many".into(), "others".into()];
    let load = Cache::load(store.clone(), "/registry", prefixes, Arc::new(ReportingIndexer), clock, history);
    let cache = load.await.expect("a cache").follow([], EncodingCache::new(0));
    let [few, many] = ["few", "many"].map(|prefix| cache.watch_cache(prefix).expect("a watch cache"));
    let corrupt = |watch_cache: &WatchCache| watch_cache.corrupt(&KeyRange::All, None).len();
    assert_eq!((corrupt(&few), corrupt(&many)), (2, 100));
    // This object changes before it can be read again.
    let revision = store.commit(Change::put("/registry/few/1", "new")).await.expect("a commit").get();
    cache.wait_until_fresh(revision).await;
    let mut watcher = many.watch(WatchScope::All, cache.applied_revision());
    has_key.store(true, Ordering::Relaxed);
    let others = cache.watch_cache("others").expect("a watch cache");
    let mut stream = cache.event_stream();
    let restored = async {
        while corrupt(&few) + corrupt(&many) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), restored).await.expect("the objects are read again");
    // The followers of all events are told twice at most: the collections may be read at different times.
    let mut restarts = 0;
    while tokio::time::timeout(Duration::from_millis(50), stream.next()).await.is_ok_and(|next| next.is_err()) {
        restarts += 1;
    }
    assert!((1..=2).contains(&restarts), "{restarts}");
    assert!(others.get("plain", None).expect("it is retained").is_some());
    assert_eq!(&*few.get("1", None).expect("it is retained").expect("an object").json, b"new");
    let first = few.get("0", None).expect("it is retained").expect("an object");
    assert_eq!((&*first.json, first.revision), (&b"e0"[..], 2));
    assert_eq!(&*many.get("99", None).expect("it is retained").expect("an object").json, b"e99");
    assert!(watcher.next().await.is_err(), "the watcher does not know the objects");
    let mut watcher = many.watch_until_corrupt(WatchScope::All, cache.applied_revision());
    let revision = store.commit(Change::put("/registry/many/0", "e0 again")).await.expect("a commit").get();
    let events = watcher.next().await.expect("events");
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), [revision]);
}
