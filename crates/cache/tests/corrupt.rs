//! Stored values that cannot be read: what is there says so, what was there before can be read, and nobody is told of a
//! deletion that was none.

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{
    Cache, EncodingCache, Event, HistoryLimits, Indexer, KeyRange, ObjectIndex, WatchCache, WatchScope,
};
use pintle_store::{Change, Memory, Store, SystemClock};

/// Values that begin with an `x` cannot be read.
struct Picky;

impl Indexer for Picky {
    fn index(&self, _: &str, value: &[u8]) -> Result<ObjectIndex, String> {
        if value.starts_with(b"x") { Err("it begins with x".to_owned()) } else { Ok(ObjectIndex::default()) }
    }
}

struct Scene {
    store: Arc<Memory>,
    cache: Cache,
    watch_cache: Arc<WatchCache>,
}

impl Scene {
    async fn new(store: Arc<Memory>) -> Self {
        let things = ["things".into()];
        let (clock, window) = (Arc::new(SystemClock), HistoryLimits::default());
        let fill = Cache::fill(store.clone(), "/registry", things, Arc::new(Picky), clock, window);
        let cache = fill.await.expect("a cache").follow([], EncodingCache::new(0));
        let watch_cache = cache.watch_cache("things").expect("a log");
        Self { store, cache, watch_cache }
    }

    /// Writes a value, or removes it, and waits until the log knows.
    async fn write(&self, key: &str, value: Option<&str>) -> u64 {
        let revision = write(&self.store, key, value).await;
        self.cache.reaches(revision).await;
        revision
    }

    /// What a key has, now and at a revision: its value, nothing, or why it cannot be read.
    fn shows(&self, key: &str, at: u64) -> (String, String) {
        let text = |object: Option<Arc<pintle_cache::Object>>| {
            object.map_or("nothing".to_owned(), |object| String::from_utf8_lossy(&object.json).into_owned())
        };
        let now = self.watch_cache.read(key).map_or_else(|corrupt| corrupt.why.to_string(), text);
        let then = match self.watch_cache.corrupt(&KeyRange::Key(key.into()), Some(at)).into_iter().next() {
            Some(corrupt) => corrupt.why.to_string(),
            None => text(self.watch_cache.get(key, Some(at)).expect("the window reaches it")),
        };
        (now, then)
    }
}

async fn write(store: &Memory, key: &str, value: Option<&str>) -> u64 {
    let full = format!("/registry/things/{key}");
    let change = match value {
        Some(value) => Change::put(full, value.to_owned()),
        None => Change::delete(full, pintle_store::Expect::Any),
    };
    store.commit(change).await.expect("a commit").revision.get()
}

/// An event as its key with what was there before and after.
fn told(event: &Event) -> String {
    let text = |object: &Option<Arc<pintle_cache::Object>>| {
        object.as_ref().map_or("-".to_owned(), |object| String::from_utf8_lossy(&object.json).into_owned())
    };
    format!("{}: {} to {}", event.key, text(&event.previous), text(&event.object))
}

#[tokio::test]
async fn every_state_can_be_read_as_it_is() {
    let scene = Scene::new(Arc::new(Memory::new())).await;
    let writes = [Some("one"), Some("x1"), Some("x2"), Some("two"), None, Some("x3"), None, Some("x4"), Some("three")];
    let mut revisions = Vec::new();
    for value in writes {
        let at = scene.write("a", value).await;
        revisions.push(at);
        let expect = match value {
            Some(corrupt) if corrupt.starts_with('x') => "it begins with x",
            value => value.unwrap_or("nothing"),
        };
        assert_eq!(scene.shows("a", at), (expect.to_owned(), expect.to_owned()));
        assert_eq!(scene.watch_cache.len(), usize::from(!["it begins with x", "nothing"].contains(&expect)));
    }
    // What was is still what it was.
    for (at, value) in revisions.into_iter().zip(writes) {
        let expect = match value {
            Some(corrupt) if corrupt.starts_with('x') => "it begins with x",
            value => value.unwrap_or("nothing"),
        };
        assert_eq!(scene.shows("a", at).1, expect);
    }
    assert_eq!(scene.watch_cache.corrupt(&KeyRange::All, None), []);
}

#[tokio::test]
async fn who_goes_from_event_to_event_has_to_begin_anew() {
    let scene = Scene::new(Arc::new(Memory::new())).await;
    let start = scene.write("a", Some("one")).await;
    let mut event_stream = scene.cache.event_stream();
    let mut watcher = scene.watch_cache.watch_until_corrupt(WatchScope::All, start);
    let mut narrow = scene.watch_cache.watch_until_corrupt(WatchScope::Key("b".into()), start);
    let mut patient = scene.watch_cache.watch(WatchScope::All, start);
    let corrupt = scene.write("a", Some("x")).await;
    // Whatever else they wait for, something is lost to them.
    assert_eq!(watcher.next().await.expect_err("it is interrupted").oldest, corrupt);
    assert!(narrow.next().await.is_err());
    let mended = scene.write("a", Some("two")).await;
    assert!(scene.watch_cache.watch_until_corrupt(WatchScope::All, corrupt).next().await.is_err());
    scene.write("b", Some("three")).await;
    // Others just hear of what comes of it.
    let events = patient.next().await.expect("events");
    assert_eq!(events.first().map(|event| (told(event), event.revision)), Some(("a: one to two".to_owned(), mended)));
    // Who follows everything hears of what was there before.
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let events = tokio::time::timeout(Duration::from_secs(20), event_stream.next()).await.expect("events in time");
        heard.extend(events.expect("nothing is lost").iter().map(|(_, event)| told(event)));
    }
    assert_eq!(heard, ["a: one to two", "b: - to three"]);
}

#[tokio::test]
async fn what_was_broken_before_the_start_is_too() {
    let store = Arc::new(Memory::new());
    write(&store, "n/a", Some("x")).await;
    let at = write(&store, "n/b", Some("one")).await;
    write(&store, "m/a", Some("x")).await;
    store.compact(pintle_store::Revision(at)).await.expect("compaction");
    let scene = Scene::new(store).await;
    let corrupt = |range: KeyRange| -> Vec<String> {
        scene.watch_cache.corrupt(&range, None).iter().map(|corrupt| corrupt.key.to_string()).collect()
    };
    assert_eq!(corrupt(KeyRange::All), ["m/a", "n/a"]);
    assert_eq!(corrupt(KeyRange::Namespace("n".into())), ["n/a"]);
    assert_eq!(corrupt(KeyRange::Key("n/b".into())), [""; 0]);
    scene.write("n/a", None).await;
    scene.write("m/a", None).await;
    assert_eq!(corrupt(KeyRange::All), [""; 0]);
    assert_eq!(scene.watch_cache.objects(KeyRange::All).count(), 1);
}
