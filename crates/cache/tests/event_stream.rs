//! The tap: what comes into all logs, in one order.

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Cache, EncodingCache, EventStream, HistoryLimits, Indexer, ObjectIndex};
use pintle_store::{Change, Memory, Store, SystemClock};

/// Objects of which nothing needs to be known.
struct Plain;

impl Indexer for Plain {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, String> {
        Ok(ObjectIndex::default())
    }
}

/// A cache of `things` and `others`, and its store.
struct Scene {
    store: Arc<Memory>,
    cache: Cache,
}

impl Scene {
    async fn new(window: HistoryLimits) -> Self {
        let store = Arc::new(Memory::new());
        let prefixes = ["things".into(), "others".into()];
        let fill = Cache::fill(store.clone(), "/registry", prefixes, Arc::new(Plain), Arc::new(SystemClock), window);
        let cache = fill.await.expect("a cache").follow([], EncodingCache::new(0));
        Self { store, cache }
    }

    /// Writes objects, and waits until the logs have them.
    async fn put(&self, keys: &[&str]) {
        for key in keys {
            let change = Change::put(format!("/registry/{key}"), "{}".to_owned());
            let committed = self.store.commit(change).await.expect("a commit");
            self.cache.reaches(committed.revision.get()).await;
        }
    }
}

/// The next events of a tap, each by its key.
async fn next(event_stream: &mut EventStream, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < count {
        let events = tokio::time::timeout(Duration::from_secs(20), event_stream.next()).await.expect("events in time");
        keys.extend(events.expect("nothing is lost").iter().map(|(_, event)| event.key.to_string()));
    }
    keys
}

#[tokio::test]
async fn events_of_all_logs_come_in_the_order_of_their_revisions() {
    let scene = Scene::new(HistoryLimits::default()).await;
    scene.put(&["things/before"]).await;
    let mut event_stream = scene.cache.event_stream();
    scene.put(&["things/a", "others/b", "nothing/c", "things/d", "others/e"]).await;
    assert_eq!(next(&mut event_stream, 4).await, ["a", "b", "d", "e"]);
    let given_up = tokio::time::timeout(Duration::from_millis(1), event_stream.next()).await;
    assert!(given_up.is_err(), "there are no others");
    scene.put(&["others/f"]).await;
    assert_eq!(next(&mut event_stream, 1).await, ["f"]);
}

#[tokio::test]
async fn logs_that_come_and_go_are_told_once() {
    let scene = Scene::new(HistoryLimits::default()).await;
    let mut event_stream = scene.cache.event_stream();
    let mut watch_caches = || {
        let mut prefixes: Vec<String> =
            event_stream.watch_caches()?.iter().map(|watch_cache| watch_cache.prefix().to_string()).collect();
        prefixes.sort_unstable();
        Some(prefixes.join(" "))
    };
    assert_eq!(watch_caches().as_deref(), Some("others things"));
    assert_eq!(watch_caches(), None);
    scene.cache.open("more").await.expect("a log");
    assert_eq!(watch_caches().as_deref(), Some("more others things"));
    scene.cache.close("more");
    scene.cache.open("more").await.expect("a log");
    assert_eq!(watch_caches().as_deref(), Some("more others things"), "it is another one");
    assert_eq!(watch_caches(), None);
}

#[tokio::test]
async fn a_tap_that_the_window_has_passed_says_so_and_goes_on() {
    // Each of these events is larger than the window.
    let scene = Scene::new(HistoryLimits { bytes: 1, ..HistoryLimits::default() }).await;
    let mut event_stream = scene.cache.event_stream();
    scene.put(&["things/a", "things/b", "things/c"]).await;
    assert!(event_stream.next().await.is_err());
    let gone = tokio::time::timeout(Duration::from_millis(1), event_stream.next()).await;
    assert!(gone.is_err(), "it waits for what comes now");
}
