//! Behaviour of the engine over etcd while members, or the connections to them, fail.

use std::sync::Arc;
use std::time::Duration;

use pintle_etcd_process::{EtcdCluster, EtcdProcess, EtcdSettings, EtcdTls, Link, Proxy};
use pintle_store::{Change, Error, EtcdCertificateFiles, EtcdOptions, EtcdStore, Key, KeyInterval, Revision, Store};
use serde_json::json;

use crate::until;

/// Three members, and a store that reaches each member through a proxy.
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

/// Writes keys, and checks that reads and a feed of the store show each key at once.
async fn check_all_works(store: &EtcdStore, prefix: &str) {
    let mut feed = store.changes(store.current_revision().await.unwrap()).await.unwrap();
    for number in 0..20 {
        let key = format!("/{prefix}/{number}");
        let committed = store.commit(Change::create(key.as_str(), "1")).await.unwrap();
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
        // Other clients write at members that work.
        let others = [(member + 1) % 3, (member + 2) % 3];
        let servers = others.iter().map(|member| cluster.member(*member).url()).collect();
        let other = EtcdStore::open(EtcdOptions { servers, ..EtcdOptions::default() }).unwrap();
        let written = loop {
            // If the paused member was the leader, there is no leader for a while.
            match other.commit(Change::put("/a", "2")).await {
                Ok(committed) => break committed,
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
    // The change was executed once.
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
    until(|| store.health().err()).await;
    cluster.member(0).resume();
    cluster.member(1).resume();
    until(|| store.health().ok()).await;
    check_all_works(&store, "recovered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_space_can_be_read_and_recovers() {
    let etcd = EtcdProcess::with_settings(&EtcdSettings { quota: 24 << 20, ..EtcdSettings::default() });
    let store = EtcdStore::open(EtcdOptions { servers: vec![etcd.url()], ..EtcdOptions::default() }).unwrap();
    let mut last = Revision::EMPTY;
    let error = loop {
        match store.commit(Change::put("/a", vec![b'x'; 1 << 20])).await {
            Ok(committed) => last = committed,
            Err(error) => break error,
        }
    };
    // etcd may notice that there is no space only after it has executed the transaction.
    let expect = "whether the change is stored is not known: etcdserver: mvcc: database space exceeded";
    assert_eq!(error.to_string(), expect);
    store.health().unwrap();
    let stored = store.range(KeyInterval::all(), None, None).await.unwrap().records[0].mod_revision;
    assert!([last, last.next()].contains(&stored), "{stored} after {last}");
    // The calls that an operator makes with `etcdctl`.
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
            // Each member is the first in turn for one read.
            for _ in 0..3 {
                assert!(store.get(Key::from("/a"), None).await.unwrap().is_some());
            }
            member.set(Link::Open);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_with_certificates_are_reached_unless_they_hang() {
    let tls = EtcdTls::generate();
    let cluster = EtcdCluster::start(3, &EtcdSettings { tls: Some(tls.clone()), ..EtcdSettings::default() });
    let links = cluster.client_proxies();
    let servers = links.iter().map(|link| link.url().replace("http:", "https:")).collect();
    let anonymous = EtcdOptions {
        servers,
        certificates: EtcdCertificateFiles {
            certificate_authority: Some(tls.certificate_authority()),
            ..EtcdCertificateFiles::default()
        },
        ..EtcdOptions::default()
    };
    let identity = Some((tls.certificate(), tls.key()));
    let certificates = EtcdCertificateFiles { identity, ..anonymous.certificates.clone() };
    // The handshakes of these members are not answered.
    links[0].set(Link::Silent);
    links[1].set(Link::Silent);
    let store = EtcdStore::open(EtcdOptions { certificates, ..anonymous.clone() }).unwrap();
    check_all_works(&store, "silent").await;
    links.iter().for_each(|link| link.set(Link::Open));
    check_all_works(&store, "open").await;
    store.close().await.unwrap();
    let store = EtcdStore::open(anonymous).unwrap();
    let error = store.commit(Change::create("/a", "1")).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. } | Error::OutcomeUnknown { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_change_are_used_by_new_connections() {
    let (tls, others) = (EtcdTls::generate(), EtcdTls::generate());
    let cluster = EtcdCluster::start(1, &EtcdSettings { tls: Some(tls.clone()), ..EtcdSettings::default() });
    let links = cluster.client_proxies();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let copy_from = |tls: &EtcdTls| {
        std::fs::copy(tls.certificate_authority(), file("ca")).unwrap();
        std::fs::copy(tls.certificate(), file("certificate")).unwrap();
        std::fs::copy(tls.key(), file("key")).unwrap();
    };
    copy_from(&others);
    let store = EtcdStore::open(EtcdOptions {
        servers: links.iter().map(|link| link.url().replace("http:", "https:")).collect(),
        certificates: EtcdCertificateFiles {
            certificate_authority: Some(file("ca")),
            identity: Some((file("certificate"), file("key"))),
        },
        ..EtcdOptions::default()
    })
    .unwrap();
    assert!(store.current_revision().await.is_err());
    // An incomplete file changes nothing.
    std::fs::write(file("certificate"), "-----BEGIN CERTIFICATE-----").unwrap();
    copy_from(&tls);
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    while let Err(error) = store.current_revision().await {
        assert!(std::time::Instant::now() < give_up, "{error}");
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_wait_for_a_lease_of_an_etcd_that_hangs_fail_together() {
    let etcd = EtcdProcess::start();
    let store = Arc::new(EtcdStore::open(EtcdOptions { servers: vec![etcd.url()], ..EtcdOptions::default() }).unwrap());
    store.commit(Change::create("/a", "1")).await.unwrap();
    etcd.pause();
    let began = std::time::Instant::now();
    let writes: Vec<_> = (0..20)
        .map(|number| {
            let store = store.clone();
            let change = Change::create(format!("/events/{number}"), "1").with_ttl(Duration::from_secs(60));
            tokio::spawn(async move { store.commit(change).await })
        })
        .collect();
    for write in writes {
        assert!(write.await.unwrap().is_err());
    }
    // One call takes 10 seconds.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    etcd.resume();
    let change = Change::create("/events/last", "1").with_ttl(Duration::from_secs(60));
    store.commit(change).await.unwrap();
}
