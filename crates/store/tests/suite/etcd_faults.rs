//! What the engine over etcd does while members, or the connections to them, fail.

use std::sync::Arc;

use pintle_etcd_process::{EtcdCluster, EtcdProcess, EtcdSettings, Link, Proxy};
use pintle_store::{Change, Error, EtcdOptions, EtcdStore, Key, KeyInterval, Revision, Store};
use serde_json::json;

/// Three members, and a store that reaches each through a proxy.
fn cluster() -> (EtcdCluster, Vec<Proxy>, Arc<EtcdStore>) {
    let cluster = EtcdCluster::start(3, &EtcdSettings::default());
    let links = cluster.client_proxies();
    let store = Arc::new(open(&links));
    (cluster, links, store)
}

fn open(links: &[Proxy]) -> EtcdStore {
    let servers = links.iter().map(Proxy::url).collect();
    EtcdStore::open(EtcdOptions { servers, ..EtcdOptions::default() }).unwrap()
}

/// Writes keys, and checks that reads and a feed of the store show each at once.
async fn check_all_works(store: &EtcdStore, prefix: &str) {
    let mut feed = store.changes(store.current_revision().await.unwrap()).await.unwrap();
    for number in 0..20 {
        let key = format!("/{prefix}/{number}");
        let committed = store.commit(Change::create(key.as_str(), "1")).await.unwrap().revision;
        assert!(store.current_revision().await.unwrap() >= committed);
        assert!(store.get(Key::from(key), None).await.unwrap().is_some());
        let mut changes = Vec::new();
        while feed.complete_to() < committed {
            changes.extend(feed.next_batch().await.unwrap().changes);
        }
        assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [committed]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_cannot_be_reached_are_left_out() {
    let (mut cluster, links, store) = cluster();
    links[0].set(Link::Closed);
    check_all_works(&store, "cut").await;
    links[0].set(Link::Open);
    cluster.member_mut(1).kill();
    check_all_works(&store, "killed").await;
    cluster.restart(&[1]);
    check_all_works(&store, "restarted").await;
    store.health().unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_hangs_stops_neither_reads_nor_feeds() {
    let (cluster, _links, store) = cluster();
    store.commit(Change::create("/a", "1")).await.unwrap();
    let mut feed = store.changes(Revision::EMPTY).await.unwrap();
    while feed.complete_to() < store.current_revision().await.unwrap() {
        feed.next_batch().await.unwrap();
    }
    for member in 0..3 {
        cluster.member(member).pause();
        // Other clients write, at members that work.
        let others = [(member + 1) % 3, (member + 2) % 3];
        let servers = others.iter().map(|member| cluster.member(*member).url()).collect();
        let other = EtcdStore::open(EtcdOptions { servers, ..EtcdOptions::default() }).unwrap();
        let written = loop {
            // There is no leader for a while, if it was the one.
            match other.commit(Change::put("/a", "2")).await {
                Ok(committed) => break committed.revision,
                Err(error) => {
                    assert!(matches!(error, Error::OutcomeUnknown { .. } | Error::Unavailable { .. }), "{error}")
                }
            }
        };
        assert!(store.current_revision().await.unwrap() >= written);
        while feed.complete_to() < written {
            feed.next_batch().await.unwrap();
        }
        cluster.member(member).resume();
        other.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    let (_cluster, links, store) = cluster();
    store.commit(Change::create("/a", "1")).await.unwrap();
    // The request arrives, and the answer is lost.
    links.iter().for_each(|link| link.set(Link::HalfOpen));
    let error = store.commit(Change::put("/a", "2")).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    links.iter().for_each(|link| link.set(Link::Open));
    let found = loop {
        if let Ok(found) = store.get(Key::from("/a"), None).await {
            break found.unwrap();
        }
    };
    // It was executed once.
    assert_eq!((&*found.value, found.mod_revision), (&b"2"[..], Revision(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_read_or_written() {
    let (cluster, _links, store) = cluster();
    store.commit(Change::create("/a", "1")).await.unwrap();
    cluster.member(0).pause();
    cluster.member(1).pause();
    assert!(store.current_revision().await.is_err());
    assert!(store.commit(Change::put("/a", "2")).await.is_err());
    while store.health().is_ok() {
        tokio::task::yield_now().await;
    }
    cluster.member(0).resume();
    cluster.member(1).resume();
    while store.health().is_err() {
        tokio::task::yield_now().await;
    }
    check_all_works(&store, "recovered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_space_can_be_read_and_recovers() {
    let etcd = EtcdProcess::with_settings(&EtcdSettings { quota: 24 << 20, ..EtcdSettings::default() });
    let store = EtcdStore::open(EtcdOptions { servers: vec![etcd.url()], ..EtcdOptions::default() }).unwrap();
    let mut last = Revision::EMPTY;
    let error = loop {
        match store.commit(Change::put("/a", vec![b'x'; 1 << 20])).await {
            Ok(committed) => last = committed.revision,
            Err(error) => break error,
        }
    };
    // etcd may notice it after it has executed the transaction.
    let expect = "whether the change is stored is not known: etcdserver: mvcc: database space exceeded";
    assert_eq!(error.to_string(), expect);
    store.health().unwrap();
    let stored = store.range(KeyInterval::all(), None, None).await.unwrap().records[0].mod_revision;
    assert!([last, last.next()].contains(&stored), "{stored} after {last}");
    // What `etcdctl` does for the operator.
    let compaction = json!({"revision": last.get().to_string(), "physical": true});
    let member = etcd.call("kv/compaction", &compaction)["header"]["member_id"].clone();
    let _ = etcd.call("maintenance/defragment", &json!({}));
    let disarm = json!({"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"});
    let _ = etcd.call("maintenance/alarm", &disarm);
    store.commit(Change::put("/a", "1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_opened_while_a_member_hangs() {
    for link in [Link::Silent, Link::Closed] {
        let (_cluster, links, store) = cluster();
        store.commit(Change::create("/a", "1")).await.unwrap();
        for member in &links {
            member.set(link);
            let store = open(&links);
            // Each of them is the first in turn for one.
            for _ in 0..3 {
                assert!(store.get(Key::from("/a"), None).await.unwrap().is_some());
            }
            member.set(Link::Open);
        }
    }
}
