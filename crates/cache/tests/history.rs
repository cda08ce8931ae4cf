//! Packing of the history: reads return the same results as without packing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{
    Cache, CorruptReason, EncodingCache, Event, HistoryLimits, Indexer, KeyRange, Object, ObjectIndex, WatchCache,
    WatchScope,
};
use pintle_store::{Change, ManualClock, MemoryStore, Store, Timestamp};

/// An indexer with the first character as the only selectable field.
struct FirstCharacter;

impl Indexer for FirstCharacter {
    fn index(&self, _: &str, value: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        let fields = std::iter::once(String::from_utf8_lossy(&value[..1])).collect();
        Ok(ObjectIndex { item_offset: value.len() as u32, fields, ..ObjectIndex::default() })
    }
}

struct History {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    cache: Cache,
    watch_cache: Arc<WatchCache>,
}

impl History {
    async fn start() -> Self {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new(Timestamp(0))));
        let limits = HistoryLimits { duration: Duration::from_secs(36_000), ..HistoryLimits::default() };
        let prefixes = ["things".into(), "others".into()];
        let load =
            Cache::load(store.clone(), "/registry", prefixes, Arc::new(FirstCharacter), clock.clone(), limits).await;
        let cache = load.expect("a cache").follow([], EncodingCache::new(0));
        let watch_cache = cache.watch_cache("things").expect("a watch cache");
        Self { store, clock, cache, watch_cache }
    }

    /// Writes a value, or deletes the object, and waits until the cache has the change. Returns the revision.
    async fn write(&self, key: &str, value: Option<&str>) -> u64 {
        let key = format!("/registry/{key}");
        let change = match value {
            Some(value) => Change::put(key, value.to_owned()),
            None => Change::delete(key, pintle_store::Compare::Any),
        };
        let revision = match self.store.commit(change).await {
            Ok(revision) => revision.get(),
            Err(pintle_store::Error::Conflict { .. }) if value.is_none() => return 0,
            Err(error) => panic!("{error}"),
        };
        self.cache.wait_until_fresh(revision).await;
        revision
    }

    /// Makes all events so far old enough to be packed. A write packs the first events; the others are packed because
    /// nothing else happens. Waits until no more events are packed: the runtime has one thread, so the cache packs a batch
    /// at each turn of its task.
    async fn pack(&self) {
        self.clock.advance(Duration::from_secs(11));
        self.write("others/x", Some("x")).await;
        let (mut retained, mut unchanged) = (0, 0);
        while unchanged < 20 {
            tokio::task::yield_now().await;
            let now = self.cache.history_stats().retained_bytes;
            unchanged = if now == retained { unchanged + 1 } else { 0 };
            retained = now;
        }
    }
}

fn text(object: &Arc<Object>) -> (String, u64, String, String) {
    let json = String::from_utf8_lossy(&object.json).into_owned();
    assert_eq!(object.index.item_offset as usize, json.len(), "the index of another version");
    (object.key.to_string(), object.revision, object.field(0).to_owned(), json)
}

type EventText = (u64, String, Option<(String, u64, String, String)>, Option<(String, u64, String, String)>);

fn event_text(event: &Arc<Event>) -> EventText {
    (event.revision, event.key.to_string(), event.object.as_ref().map(text), event.previous.as_ref().map(text))
}

/// Everything that can be read from the history.
#[derive(Debug, PartialEq)]
struct Reading {
    /// The objects at each revision.
    states: BTreeMap<u64, Vec<(String, u64, String, String)>>,
    /// The events after each revision, by scope.
    events: BTreeMap<(u64, String), Vec<EventText>>,
}

fn read(watch_cache: &Arc<WatchCache>, from: u64, to: u64) -> Reading {
    let (mut states, mut events) = (BTreeMap::new(), BTreeMap::new());
    for revision in from..=to {
        let page = watch_cache.page(&KeyRange::All, None, revision, usize::MAX).expect("a state");
        let objects: Vec<_> = page.objects.iter().map(text).collect();
        for (key, object) in page.objects.iter().map(|object| (&object.key, object)) {
            let got = watch_cache.get(key, Some(revision)).expect("a state").expect("an object");
            assert_eq!(text(&got), text(object));
        }
        let last = watch_cache.remaining(&KeyRange::All, revision, None, 0, "").expect("a state");
        assert_eq!(last, objects.len());
        states.insert(revision, objects);
        let scopes = [
            WatchScope::All,
            WatchScope::Namespace("a".into()),
            WatchScope::Key("b/1".into()),
            WatchScope::Field(0, "B".into()),
        ];
        for scope in scopes {
            let mut watcher = watch_cache.watch(scope.clone(), revision);
            let mut found = Vec::new();
            loop {
                let more = watcher.pending().expect("a history");
                if more.is_empty() {
                    break;
                }
                found.extend(more.iter().map(event_text));
            }
            events.insert((revision, format!("{scope:?}")), found);
        }
    }
    Reading { states, events }
}

#[tokio::test]
async fn the_history_that_a_start_reads_is_packed_without_a_write() {
    const VERSIONS: usize = 600;
    const BYTES: usize = 40_000;
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new(Timestamp(0))));
    for number in 0..VERSIONS {
        let value = format!("{number}{}", "x".repeat(BYTES));
        store.commit(Change::put("/registry/things/a", value)).await.expect("a put");
    }
    let indexer = Arc::new(FirstCharacter);
    let load = Cache::load(store, "/registry", ["things".into()], indexer, clock, HistoryLimits::default()).await;
    let cache = load.expect("a cache").follow([], EncodingCache::new(0));
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    // 8 MiB stay unpacked, and one of sixteen versions.
    while cache.history_stats().retained_bytes > 12 << 20 {
        assert!(std::time::Instant::now() < give_up, "{:?}", cache.history_stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(cache.history_stats().events, VERSIONS);
}

#[tokio::test]
async fn a_packed_history_is_read_as_before() {
    let history = History::start().await;
    let mut stream = history.cache.event_stream();
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let first = history.write("things/a/0", Some(&format!("A{}", "x".repeat(300)))).await;
    let mut last = first;
    for number in 0..400 {
        let key = format!("things/{}", ["a/0", "a/1", "b/1", "b/2"][random(4) as usize]);
        let value = match random(12) {
            0 => None,
            1 => Some(format!("short {number}")),
            _ => Some(format!("{}{}{number}{}", ["A", "B"][random(2) as usize], "x".repeat(300), "y".repeat(200))),
        };
        last = history.write(&key, value.as_deref()).await.max(last);
    }
    let before = read(&history.watch_cache, first, last);
    let retained = history.cache.history_stats().retained_bytes;
    history.pack().await;
    let packed = history.cache.history_stats().retained_bytes;
    assert!(packed < retained / 2, "{retained} bytes are {packed} when they are packed");
    assert_eq!(read(&history.watch_cache, first, last), before);
    // This stream has not read until now.
    let expected = &before.events[&(first, "All".to_owned())];
    let mut streamed = Vec::new();
    while streamed.len() < expected.len() + 1 {
        let events = stream.next().await.expect("the events");
        streamed.extend(events.iter().filter(|(of, _)| of.prefix() == "things").map(|(_, event)| event_text(event)));
    }
    assert_eq!(&streamed[1..], &expected[..]);
    // Indexing again needs the objects themselves.
    history.cache.reindex("things").await.expect("a store that can be read");
    assert_eq!(read(&history.watch_cache, first, last), before);
    history.write("things/a/0", Some("later")).await;
    history.pack().await;
    assert_eq!(read(&history.watch_cache, first, last).states, before.states);
}

#[tokio::test]
async fn versions_that_differ_little_take_little_memory() {
    let history = History::start().await;
    let filler = "some text of an object that stays as it is, ".repeat(25);
    let first = history.write("things/a/0", Some(&format!("A{filler}"))).await;
    let mut last = first;
    for number in 0..1000 {
        last = history.write("things/a/0", Some(&format!("A{filler}{number:06}{filler}"))).await;
    }
    assert!(history.cache.history_stats().retained_bytes > 2_000_000);
    history.pack().await;
    let retained = history.cache.history_stats().retained_bytes;
    assert!(retained < 400_000, "{retained} bytes of 1000 versions");
    for revision in first..=last {
        let object = history.watch_cache.get("a/0", Some(revision)).expect("a state").expect("an object");
        let middle = revision.checked_sub(first + 1).map_or(String::new(), |number| format!("{number:06}{filler}"));
        assert_eq!(text(&object).3, format!("A{filler}{middle}"));
    }
    // Dropping versions from the front leaves the others readable.
    history.cache.halve_history(1000);
    let oldest = history.watch_cache.valid_from();
    assert!(oldest > first);
    for revision in [oldest, oldest + 1, (oldest + last) / 2, last] {
        let object = history.watch_cache.get("a/0", Some(revision)).expect("a state").expect("an object");
        assert_eq!(text(&object).1, revision);
    }
    assert!(history.watch_cache.get("a/0", Some(oldest - 1)).is_err());
}
