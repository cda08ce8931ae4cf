//! Failures of the store's change feed: the cache reads the feed again, or is brought up to date without it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_cache::{Cache, CorruptReason, Indexer, KeyRange, ObjectIndex, TooOld, WatchScope};
use pintle_layered_store::{LayeredStore, StoreLayer};
use pintle_store::{Change, ChangeBatch, ChangeFeed, Compare, Error, Key, Revision, Store, StoreFuture};
use tokio::sync::watch;

use self::common::{NullIndexer, load};

/// An indexer that indexes nothing. It panics at one value, once.
#[derive(Default)]
struct PanickingIndexer(AtomicBool);

impl Indexer for PanickingIndexer {
    fn index(&self, prefix: &str, value: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        assert!(value != b"panic" || self.0.swap(true, Ordering::Relaxed), "a defect of the indexer");
        NullIndexer.index(prefix, value)
    }
}

/// How the feeds of a store fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    None,
    /// The feeds cannot be read for now.
    Io,
    /// The open feeds have lost changes. New feeds have not.
    Compacted,
}

/// Lets the change feeds of a store fail.
#[derive(Clone, Debug)]
struct FailingFeeds(watch::Sender<Failure>);

impl StoreLayer for FailingFeeds {
    fn feed(&self, feed: Box<dyn ChangeFeed>) -> Box<dyn ChangeFeed> {
        Box::new(FailingFeed { feed, failure: self.0.subscribe(), is_new: true })
    }
}

type FailingStore = LayeredStore<FailingFeeds>;

#[derive(Debug)]
struct FailingFeed {
    feed: Box<dyn ChangeFeed>,
    failure: watch::Receiver<Failure>,
    is_new: bool,
}

impl ChangeFeed for FailingFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(async {
            loop {
                match *self.failure.borrow_and_update() {
                    Failure::Io => {
                        self.is_new = false;
                        return Err(Error::Io { path: "store".into(), detail: "no answer".to_owned() });
                    }
                    Failure::Compacted if !self.is_new => {
                        return Err(Error::Compacted { oldest: Revision(u64::MAX) });
                    }
                    Failure::Compacted | Failure::None => {}
                }
                tokio::select! {
                    biased;
                    Ok(()) = self.failure.changed() => self.is_new = false,
                    batch = self.feed.next_batch() => return batch,
                }
            }
        })
    }

    fn complete_to(&self) -> Revision {
        self.feed.complete_to()
    }
}

async fn start() -> (Arc<FailingStore>, Cache) {
    let layer = FailingFeeds(watch::Sender::new(Failure::None));
    let store = Arc::new(LayeredStore::new(layer));
    for key in ["a", "b"] {
        put(&store, key, "1").await;
    }
    let cache = load(store.clone(), &["pods", "nodes"], PanickingIndexer::default()).await;
    (store, cache)
}

async fn write(store: &FailingStore, key: &str, value: Option<&str>) -> u64 {
    let key: Key = format!("/registry/pods/{key}").into();
    let found = store.get(key.clone(), None).await.expect("a read");
    let compare = found.map_or(Compare::Absent, |record| Compare::ModRevision(record.mod_revision));
    let change = match value {
        Some(value) => Change { compare, ..Change::put(key, value.to_owned()) },
        None => Change::delete(key, compare),
    };
    store.commit(change).await.expect("a commit").get()
}

async fn put(store: &FailingStore, key: &str, value: &str) -> u64 {
    write(store, key, Some(value)).await
}

/// The objects of the cache as `key=value`.
fn objects(cache: &Cache) -> Vec<String> {
    let pods = cache.watch_cache("pods").expect("a watch cache");
    let show = |object: Arc<pintle_cache::Object>| format!("{}={}", object.key, String::from_utf8_lossy(&object.json));
    pods.objects(KeyRange::All).map(show).collect()
}

async fn wait(cache: &Cache, revision: u64) {
    let fresh = tokio::time::timeout(Duration::from_secs(10), cache.wait_until_fresh(revision));
    fresh.await.expect("the cache recovers");
    assert!(cache.is_following());
}

#[tokio::test]
async fn a_feed_that_cannot_be_read_for_a_while_loses_nothing() {
    let (store, cache) = start().await;
    let pods = cache.watch_cache("pods").expect("a watch cache");
    let mut watcher = pods.watch(WatchScope::All, cache.applied_revision());
    store.layer.0.send_replace(Failure::Io);
    while cache.is_following() {
        tokio::task::yield_now().await;
    }
    put(&store, "a", "2").await;
    let last = put(&store, "a", "3").await;
    store.layer.0.send_replace(Failure::None);
    wait(&cache, last).await;
    assert_eq!(objects(&cache), ["a=3", "b=1"]);
    let mut values = Vec::new();
    while values.len() < 2 {
        let events = watcher.next().await.expect("no event is lost");
        values.extend(events.iter().filter_map(|event| Some(event.object.as_ref()?.json.clone())));
    }
    assert_eq!(values.iter().map(|json| &json[..]).collect::<Vec<_>>(), [b"2", b"3"]);
}

#[tokio::test]
async fn a_feed_that_has_lost_changes_is_replaced_and_watches_list_again() {
    let (store, cache) = start().await;
    let pods = cache.watch_cache("pods").expect("a watch cache");
    let nodes = cache.watch_cache("nodes").expect("a watch cache");
    let from = cache.applied_revision();
    let mut watchers: Vec<_> = [
        pods.watch(WatchScope::All, from),
        pods.watch(WatchScope::Key("a".into()), from),
        pods.watch_until_corrupt(WatchScope::Namespace("x".into()), from),
        nodes.watch(WatchScope::All, from),
    ]
    .into();
    let mut stream = cache.event_stream();
    store.layer.0.send_replace(Failure::Io);
    while cache.is_following() {
        tokio::task::yield_now().await;
    }
    put(&store, "a", "2").await;
    write(&store, "b", None).await;
    let last = put(&store, "c", "1").await;
    store.layer.0.send_replace(Failure::Compacted);
    wait(&cache, last).await;
    assert_eq!(objects(&cache), ["a=2", "c=1"]);
    for watcher in &mut watchers {
        assert_eq!(watcher.next().await.map(|events| events.len()), Err(TooOld { oldest: last }));
    }
    assert!(stream.next().await.is_err());
    assert_eq!(pods.get("a", Some(from)).map(drop), Err(TooOld { oldest: last }));
    // The later events are complete again.
    let mut watcher = pods.watch(WatchScope::All, last);
    let next = put(&store, "a", "3").await;
    wait(&cache, next).await;
    assert_eq!(watcher.next().await.expect("an event").len(), 1);
    assert_eq!(stream.next().await.expect("an event").len(), 1);
    assert_eq!(objects(&cache), ["a=3", "c=1"]);
}

/// The changes that led to the current state are not known. If an object left a watcher's selection and was changed
/// again, its event would have the wrong revision.
#[tokio::test]
async fn no_watcher_sees_how_the_cache_is_brought_up_to_date() {
    let (store, cache) = start().await;
    let pods = cache.watch_cache("pods").expect("a watch cache");
    let from = cache.applied_revision();
    store.layer.0.send_replace(Failure::Io);
    while cache.is_following() {
        tokio::task::yield_now().await;
    }
    let mut last = 0;
    for number in 0..1000 {
        last = put(&store, &format!("new-{number}"), "1").await;
        store
            .commit(Change::put(Key::from(format!("/registry/nodes/{number}")), "1".to_owned()))
            .await
            .expect("a commit");
    }
    let mut watcher = pods.watch(WatchScope::All, from);
    let observe = tokio::task::spawn_blocking(move || {
        loop {
            match watcher.pending() {
                Ok(events) => assert!(events.is_empty(), "the watcher observes {} events", events.len()),
                Err(error) => return error,
            }
        }
    });
    store.layer.0.send_replace(Failure::Compacted);
    wait(&cache, last).await;
    let TooOld { oldest } = observe.await.expect("the watcher ends without an event");
    assert!(oldest >= last);
}

#[tokio::test]
async fn a_panic_of_the_indexer_does_not_end_the_cache() {
    let (store, cache) = start().await;
    let panics = put(&store, "a", "panic").await;
    wait(&cache, panics).await;
    let last = put(&store, "b", "2").await;
    wait(&cache, last).await;
    assert_eq!(objects(&cache), ["a=panic", "b=2"]);
}
