//! Behaviour that only the engine over etcd must have, tested with an etcd of one member.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use pintle_etcd_process::EtcdProcess;
use pintle_store::{
    Change, Error, EtcdOptions, EtcdStore, Key, KeyInterval, Revision, Store, StoredValue, TransformError,
    TransformedValue, ValueTransformer, unreadable_reason,
};
use serde_json::json;

use crate::until;

/// A running etcd of one member, and the stores over it.
pub(crate) struct EtcdServer(EtcdProcess);

impl EtcdServer {
    /// Starts an empty etcd.
    pub(crate) fn start() -> Self {
        Self(EtcdProcess::start())
    }

    pub(crate) fn options(&self) -> EtcdOptions {
        EtcdOptions { servers: vec![self.0.url()], ..EtcdOptions::default() }
    }

    pub(crate) fn open(&self) -> EtcdStore {
        EtcdStore::open(self.options()).unwrap()
    }
}

#[tokio::test]
async fn stores_share_an_etcd() {
    let server = EtcdServer::start();
    let (one, two) = (server.open(), server.open());
    let mut feed = two.changes(Revision::EMPTY).await.unwrap();
    let committed = one.commit(Change::create("/a", "1")).await.unwrap();
    let batch = feed.next_batch().await.unwrap();
    assert_eq!(batch.changes[0].revision, committed);
    assert_eq!(two.current_revision().await.unwrap(), committed);
    let conflict = two.commit(Change::create("/a", "2")).await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict { current: Some(_) }), "{conflict}");
    // Closing one store does not close the other.
    one.close().await.unwrap();
    assert!(matches!(one.get(Key::from("/a"), None).await, Err(Error::Closed)));
    assert!(two.get(Key::from("/a"), None).await.unwrap().is_some());
}

/// etcd holds the events of a watch back until it has reported that it created the watch. It does not hold back the
/// answers to requests for progress notifications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feeds_that_are_opened_while_others_write_miss_nothing() {
    let server = EtcdServer::start();
    let (store, other) = (server.open(), server.open());
    let mut newest = store.current_revision().await.unwrap();
    for number in 0..400 {
        let mut feeds = join_all((0..8).map(|_| store.changes(newest))).await;
        let write = async {
            for _ in 0..200 + number % 300 {
                tokio::task::yield_now().await;
            }
            other.commit(Change::put("/a", "1")).await.unwrap()
        };
        let read = join_all(feeds.iter_mut().map(|feed| async { feed.as_mut().unwrap().next_batch().await.unwrap() }));
        let (written, batches) = tokio::join!(write, read);
        for batch in batches {
            // A notification may report that there was no change before.
            let is_first = batch.complete_to < written || batch.changes.len() == 1;
            assert!(is_first, "revision {written} is missing before {}", batch.complete_to);
        }
        newest = written;
    }
}

#[tokio::test]
async fn a_feed_reaches_revisions_of_keys_that_it_does_not_watch() {
    let server = EtcdServer::start();
    let store = server.open();
    let interval = KeyInterval::prefix("/registry/");
    let registry = EtcdStore::open(EtcdOptions { interval, ..server.options() }).unwrap();
    let mut feed = registry.changes(Revision::EMPTY).await.unwrap();
    let mine = store.commit(Change::create("/registry/a", "1")).await.unwrap();
    let other = store.commit(Change::create("/other/a", "1")).await.unwrap();
    assert_eq!(registry.current_revision().await.unwrap(), other);
    let mut changes = Vec::new();
    while feed.complete_to() < other {
        changes.extend(feed.next_batch().await.unwrap().changes);
    }
    assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [mine]);
}

#[tokio::test]
async fn keys_expire_with_leases_that_they_share() {
    let server = EtcdServer::start();
    let store = server.open();
    let ttl = Duration::from_secs(1);
    for key in ["/a", "/b"] {
        store.commit(Change::create(key, "1").with_ttl(ttl)).await.unwrap();
    }
    store.commit(Change::put("/b", "2")).await.unwrap();
    let long = Duration::from_secs(1000);
    for number in 0..10 {
        store.commit(Change::create(format!("/long/{number}"), "1").with_ttl(long)).await.unwrap();
    }
    let expiries = store.expiries().await.unwrap();
    assert_eq!(expiries.iter().filter(|(key, _)| key.starts_with("/long/")).count(), 10);
    let times: std::collections::HashSet<_> =
        expiries.iter().filter(|(key, _)| key.starts_with("/long/")).map(|(_, due)| due.0 / 1000).collect();
    assert!(times.len() <= 2, "they share a lease");
    let mut feed = store.changes(store.current_revision().await.unwrap()).await.unwrap();
    let expired = feed.next_batch().await.unwrap().changes;
    assert_eq!(expired.iter().map(|change| (&*change.key, &change.value)).collect::<Vec<_>>(), [("/a", &None)]);
    // A put without a time to live keeps the key.
    assert!(store.get(Key::from("/b"), None).await.unwrap().is_some());
}

#[tokio::test]
async fn values_that_are_too_large_are_refused() {
    let server = EtcdServer::start();
    let store = server.open();
    let error = store.commit(Change::create("/a", vec![b'x'; 2 << 20])).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    // Many large values are one answer to a read and several messages to a feed.
    for number in 0..8 {
        store.commit(Change::create(format!("/a/{number}"), vec![b'x'; 1 << 20])).await.unwrap();
    }
    assert_eq!(store.range(KeyInterval::all(), None, None).await.unwrap().records.len(), 8);
    let mut feed = store.changes(Revision::EMPTY).await.unwrap();
    let mut delivered = 0;
    while feed.complete_to() < Revision(9) {
        delivered += feed.next_batch().await.unwrap().changes.len();
    }
    assert_eq!(delivered, 8);
}

#[tokio::test]
async fn a_store_tells_that_etcd_is_gone() {
    let server = EtcdServer::start();
    let store = Arc::new(server.open());
    store.commit(Change::create("/a", "1")).await.unwrap();
    let mut feed = store.changes(Revision(2)).await.unwrap();
    drop(server);
    let error = feed.next_batch().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let error = store.current_revision().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    until(|| store.health().err()).await;
    store.close().await.unwrap();
    assert!(matches!(feed.next_batch().await, Err(Error::Closed)));
}

#[tokio::test]
async fn a_store_is_ready_while_changes_arrive() {
    let server = EtcdServer::start();
    let store = EtcdStore::open(EtcdOptions { max_feed_lag: Duration::from_millis(300), ..server.options() }).unwrap();
    let mut feed = store.changes(Revision::EMPTY).await.unwrap();
    // Nobody takes the changes from the feed, and nobody reads.
    let committed = server.open().commit(Change::create("/a", "1")).await.unwrap();
    let error = until(|| store.readiness().err()).await;
    assert!(matches!(error, Error::Behind { seconds: 0 }), "{error}");
    store.health().unwrap();
    while feed.complete_to() < committed {
        feed.next_batch().await.unwrap();
    }
    store.readiness().unwrap();
}

#[tokio::test]
async fn one_of_several_stores_compacts_what_is_old() {
    let server = EtcdServer::start();
    let compaction_interval = Duration::from_millis(500);
    let open = || EtcdStore::open(EtcdOptions { compaction_interval, ..server.options() }).unwrap();
    let stores = [open(), open(), open()];
    let old = stores[0].commit(Change::create("/a", "1")).await.unwrap();
    let mut feed = stores[1].changes(old).await.unwrap();
    let mut compacted = Vec::new();
    while compacted.len() < 3 {
        let oldest = stores[2].oldest_revision().await.unwrap();
        if compacted.last() != Some(&oldest) {
            compacted.push(oldest);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let put = stores[0].commit(Change::put("/a", "2")).await.unwrap();
        // New changes are not compacted.
        while feed.complete_to() < put {
            feed.next_batch().await.unwrap();
        }
    }
    assert!(compacted.is_sorted() && compacted[2] > old, "{compacted:?}");
    // Upstream's key has the revision of the last compaction.
    loop {
        let key = stores[0].get(Key::from("compact_rev_key"), None).await.unwrap().expect("a key");
        // The compaction comes after the write of the key.
        if String::from_utf8_lossy(&key.value).parse() == Ok(stores[0].oldest_revision().await.unwrap().get()) {
            break;
        }
    }
}

/// A transformer that cannot read values that begin with `?`.
#[derive(Debug)]
struct Choosy;

impl ValueTransformer for Choosy {
    fn transform_to_storage(&self, _: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        Ok(StoredValue { is_exact: !value.starts_with(b"?"), bytes: value })
    }

    fn transform_from_storage(&self, _: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        match stored.starts_with(b"?") {
            true => Err(TransformError::encoding("who wrote this?")),
            false => Ok(TransformedValue { value: stored, stale: false }),
        }
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_read_does_not_hide_others() {
    let server = EtcdServer::start();
    let store = EtcdStore::open(EtcdOptions { transformer: Arc::new(Choosy), ..server.options() }).unwrap();
    for (key, value) in [("/a", "1"), ("/b", "?"), ("/c", "3")] {
        store.commit(Change::create(key, value)).await.unwrap();
    }
    let error = store.get(Key::from("/b"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "the value of /b cannot be transformed: who wrote this?");
    let values = |values: Vec<Bytes>| {
        let text = |value: &Bytes| match unreadable_reason(value) {
            Some(why) => format!("unreadable: {why}"),
            None => String::from_utf8_lossy(value).into_owned(),
        };
        values.iter().map(text).collect()
    };
    let expect = ["1", "unreadable: who wrote this?", "3"];
    let range = store.range(KeyInterval::all(), None, None).await.unwrap().records;
    let found: Vec<String> = values(range.into_iter().map(|record| record.value).collect());
    assert_eq!(found, expect);
    let mut feed = store.changes(Revision::EMPTY).await.unwrap();
    let mut changes = Vec::new();
    while changes.len() < 3 {
        changes.extend(feed.next_batch().await.unwrap().changes);
    }
    let found: Vec<String> = values(changes.into_iter().flat_map(|change| change.value).collect());
    assert_eq!(found, expect);
    // The unreadable value can be overwritten.
    store.commit(Change::put("/b", "2")).await.unwrap();
    assert!(store.get(Key::from("/b"), None).await.unwrap().is_some());
}

#[tokio::test]
async fn what_others_write_is_delivered_and_keys_that_are_no_text_are_left_out() {
    let server = EtcdServer::start();
    let store = server.open();
    let mut feed = store.changes(Revision::EMPTY).await.unwrap();
    store.commit(Change::create("/a/1", "1")).await.unwrap();
    // The keys `/a/` and `/a/1` with the byte 255.
    for key in ["L2Ev/w==", "L2EvMf8="] {
        let _ = server.0.call("kv/put", &json!({"key": key, "value": "eA=="}));
    }
    // A transaction that deletes `/a/1` and writes `/a/3` and `/a/4`.
    let transaction = json!({"success": [
        {"requestDeleteRange": {"key": "L2EvMQ=="}},
        {"requestPut": {"key": "L2EvMw==", "value": "eA=="}},
        {"requestPut": {"key": "L2EvNA==", "value": "eA=="}},
    ]});
    let _ = server.0.call("kv/txn", &transaction);
    let last = store.commit(Change::create("/a/5", "1")).await.unwrap();
    let found = store.range(KeyInterval::prefix("/a/"), None, None).await.unwrap();
    let keys: Vec<&str> = found.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!((keys, found.remaining), (vec!["/a/3", "/a/4", "/a/5"], 0));
    // A page has at least one record if there is one.
    let page = store.range(KeyInterval::prefix("/a/"), None, Some(1)).await.unwrap();
    assert_eq!((&*page.records[0].key, page.remaining), ("/a/3", 3));
    let mut changes = Vec::new();
    while feed.complete_to() < last {
        let batch = feed.next_batch().await.unwrap();
        let batch = batch.changes.into_iter().map(|change| (change.revision.get(), change.key, change.value.is_some()));
        changes.extend(batch);
    }
    changes.sort();
    let changes: Vec<_> = changes.iter().map(|(revision, key, is_put)| (*revision, key.as_str(), *is_put)).collect();
    assert_eq!(
        changes,
        [(2, "/a/1", true), (5, "/a/1", false), (5, "/a/3", true), (5, "/a/4", true), (6, "/a/5", true)]
    );
}
