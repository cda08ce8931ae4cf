//! The view of clients when the store's change feed fails, which fills the watch caches. No write hangs, no
//! acknowledged change is lost, and the server recovers without a restart.

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{Cluster, Options, eventually};
use pintle_layered_store::{LayeredStore, StoreLayer};
use pintle_server::RecoveryTimes;
use pintle_store::{ChangeBatch, ChangeFeed, Error, KeyInterval, Revision, Store as _, StoreFuture};
use serde_json::{Value, json};
use tokio::sync::watch;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// How the feeds of a store fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedFault {
    None,
    /// The feeds cannot be read.
    Unreadable,
    /// Open feeds have lost changes.
    Lost,
}

/// Lets the feeds of a store fail.
#[derive(Clone, Debug)]
struct FaultyFeeds(watch::Sender<FeedFault>);

#[derive(Debug)]
struct FaultyFeed {
    feed: Box<dyn ChangeFeed>,
    fault: watch::Receiver<FeedFault>,
    is_new: bool,
}

impl ChangeFeed for FaultyFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(async {
            loop {
                match *self.fault.borrow_and_update() {
                    FeedFault::Unreadable => {
                        self.is_new = false;
                        return Err(Error::Io { path: "store".into(), detail: "no answer".to_owned() });
                    }
                    FeedFault::Lost if !self.is_new => return Err(Error::Compacted { oldest: Revision(u64::MAX) }),
                    FeedFault::Lost | FeedFault::None => {}
                }
                tokio::select! {
                    biased;
                    Ok(()) = self.fault.changed() => self.is_new = false,
                    batch = self.feed.next_batch() => return batch,
                }
            }
        })
    }

    fn complete_to(&self) -> Revision {
        self.feed.complete_to()
    }
}

impl StoreLayer for FaultyFeeds {
    fn feed(&self, feed: Box<dyn ChangeFeed>) -> Box<dyn ChangeFeed> {
        Box::new(FaultyFeed { feed, fault: self.0.subscribe(), is_new: true })
    }
}

type FaultyStore = LayeredStore<FaultyFeeds>;

async fn start() -> (Arc<Cluster>, Arc<FaultyStore>) {
    start_with_options(Options::default()).await
}

async fn start_with_options(options: Options) -> (Arc<Cluster>, Arc<FaultyStore>) {
    let store = Arc::new(LayeredStore::new(FaultyFeeds(watch::Sender::new(FeedFault::None))));
    let options = Options { store: Some(store.clone()), ..options };
    (Arc::new(Cluster::with_options(options).await), store)
}

async fn wait_for_health(cluster: &Cluster, code: u16) {
    cluster.get_until_status("/readyz/informer-sync", code).await;
}

fn configmap(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

/// Makes the feeds fail, creates an object during the fault, ends the fault, and expects the object. Returns a watch
/// that began before the fault.
async fn fail_and_recover(cluster: &Arc<Cluster>, store: &FaultyStore, end: FeedFault) -> pintle_integration::Watch {
    let _ = cluster.post(CONFIGMAPS, configmap("before")).await.expect(201);
    let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1")).await;
    watch.expect("ADDED", "before").await;
    store.layer.0.send_replace(FeedFault::Unreadable);
    wait_for_health(cluster, 500).await;
    // The server still serves objects from memory.
    let stale = cluster.get(&format!("{CONFIGMAPS}?resourceVersion=0")).await.expect(200).json();
    assert_eq!(names(&stale), ["before"]);
    let write = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.post(CONFIGMAPS, configmap("during")).await }
    });
    let written = || async {
        let interval = KeyInterval::prefix("/registry/configmaps/default/during");
        !store.range(interval, None, None).await.expect("a read").records.is_empty()
    };
    eventually("the store has the object", written).await;
    store.layer.0.send_replace(end);
    let _ = write.await.expect("a response").expect(201);
    wait_for_health(cluster, 200).await;
    let list = cluster.get(CONFIGMAPS).await.expect(200).json();
    assert_eq!(names(&list), ["before", "during"]);
    watch
}

#[test]
fn a_feed_that_cannot_be_read_for_a_while_loses_no_event() {
    pintle_integration::run(async {
        let (cluster, store) = start().await;
        let mut watch = fail_and_recover(&cluster, &store, FeedFault::None).await;
        watch.expect("ADDED", "during").await;
    });
}

#[test]
fn a_lost_feed_makes_watches_list_again() {
    pintle_integration::run(async {
        let (cluster, store) = start().await;
        let mut watch = fail_and_recover(&cluster, &store, FeedFault::Lost).await;
        let event = watch.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
        // Later events are complete, also for controllers.
        store.layer.0.send_replace(FeedFault::None);
        let mut namespaces = cluster.watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dn").await;
        let _ = cluster.post("/api/v1/namespaces", configmap("n")).await.expect(201);
        let _ = cluster.post("/api/v1/namespaces/n/configmaps", configmap("c")).await.expect(201);
        let _ = cluster.delete("/api/v1/namespaces/n").await.expect(200);
        while namespaces.next().await.expect("an event")["type"] != "DELETED" {}
    });
}

/// Waits until a health endpoint passes or fails.
async fn wait_for_endpoint(cluster: &Cluster, endpoint: &str, code: u16) -> String {
    cluster.get_until_status(&format!("/{endpoint}?verbose"), code).await.text()
}

#[test]
fn health_checks_fail_while_the_feed_cannot_be_read_and_pass_again_afterwards() {
    pintle_integration::run(async {
        let recovery =
            RecoveryTimes { recovered_after: Duration::from_millis(200), unrecoverable_after: Duration::from_secs(1) };
        let (cluster, store) = start_with_options(Options { recovery, ..Options::default() }).await;
        for endpoint in ["readyz", "livez", "healthz"] {
            let _ = wait_for_endpoint(&cluster, endpoint, 200).await;
        }
        store.layer.0.send_replace(FeedFault::Unreadable);
        // A server that is not ready is still alive. It needs a restart only if it does not recover.
        for (endpoint, check) in [
            ("readyz", "informer-sync"),
            ("readyz", "poststarthook/storage-readiness"),
            ("livez", "poststarthook/storage-readiness"),
            ("healthz", "poststarthook/storage-readiness"),
        ] {
            let text = wait_for_endpoint(&cluster, endpoint, 500).await;
            assert!(text.contains(&format!("[-]{check} failed: reason withheld\n")), "{endpoint}: {text}");
            assert!(text.ends_with(&format!("{endpoint} check failed\n")), "{text}");
            let single = cluster.get(&format!("/{endpoint}/{check}")).await.expect(500).text();
            assert!(single.starts_with("internal server error: ") && single.contains("no answer"), "{single}");
            // Without the failing checks, the endpoint passes.
            let failed = text.lines().filter_map(|line| line.strip_prefix("[-]")?.split(' ').next());
            let excluded: String = failed.map(|check| format!("&exclude={check}")).collect();
            let text = cluster.get(&format!("/{endpoint}?verbose{excluded}")).await.expect(200).text();
            assert!(text.contains(&format!("[+]{check} excluded: ok\n")), "{text}");
            let _ = cluster.get(&format!("/{endpoint}/etcd")).await.expect(200);
        }
        store.layer.0.send_replace(FeedFault::None);
        for endpoint in ["readyz", "livez", "healthz"] {
            let text = wait_for_endpoint(&cluster, endpoint, 200).await;
            assert!(!text.contains("[-]"), "{text}");
        }
        let _ = cluster.post(CONFIGMAPS, configmap("after")).await.expect(201);
    });
}
