//! Tests of informers with a cache of pods and config maps.

use std::time::Duration;

use parking_lot::Mutex;
use pintle_cache::{Cache, EncodingCache, EventStream, HistoryLimits, Indexer, ObjectIndex};
use pintle_registry::{ApiError, BoxFuture, Registry, Resource};
use pintle_store::{Change, MemoryStore, Store, SystemClock};
use pintle_value::Value;
use pintle_value::time::Time;

use super::*;
use crate::{DeleteRequest, ObjectRef, UpdateFn};

/// More events than a watcher buffers.
const MANY: usize = 2000;

/// Indexes nothing.
struct NoIndexer;

impl Indexer for NoIndexer {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, String> {
        Ok(ObjectIndex::default())
    }
}

/// A cluster that serves the core group without strategies.
struct FakeCluster {
    store: Arc<MemoryStore>,
    cache: Cache,
    registry: Mutex<Arc<Registry>>,
    registry_changes: watch::Sender<()>,
}

impl FakeCluster {
    async fn new(limits: HistoryLimits) -> Arc<Self> {
        let store = Arc::new(MemoryStore::new());
        let prefixes = ["pods".into(), "configmaps".into()];
        let loaded =
            Cache::load(store.clone(), "/registry", prefixes, Arc::new(NoIndexer), Arc::new(SystemClock), limits);
        let cache = loaded.await.expect("a cache").follow([], EncodingCache::new(0));
        Arc::new(Self {
            store,
            cache,
            registry: Mutex::new(Arc::new(registry(&["pods", "configmaps"]))),
            registry_changes: watch::Sender::new(()),
        })
    }

    /// Writes objects and waits until the watch caches have them.
    async fn put(&self, keys: impl IntoIterator<Item = impl std::fmt::Display>) {
        let mut revision = 0;
        for key in keys {
            let change = Change::put(format!("/registry/{key}"), "{}".to_owned());
            revision = self.store.commit(change).await.expect("a commit").revision.get();
        }
        self.cache.wait_until_fresh(revision).await;
    }

    fn serve(&self, plurals: &[&str]) {
        *self.registry.lock() = Arc::new(registry(plurals));
        self.registry_changes.send_replace(());
    }
}

/// A registry of built-in core resources.
fn registry(plurals: &[&str]) -> Registry {
    let resources = pintle_kinds::resources(pintle_catalog::shared());
    let is_served = |r: &Arc<Resource>| r.group.is_empty() && plurals.contains(&r.plural.as_str());
    Registry::new(resources.into_iter().filter(is_served).collect())
}

impl ClusterClient for FakeCluster {
    fn registry(&self) -> Arc<Registry> {
        self.registry.lock().clone()
    }

    fn registry_changes(&self) -> watch::Receiver<()> {
        self.registry_changes.subscribe()
    }

    fn watch_cache(&self, resource: &Resource) -> Option<Arc<WatchCache>> {
        self.cache.watch_cache(&resource.collection()?.prefix)
    }

    fn event_stream(&self) -> EventStream {
        self.cache.event_stream()
    }

    fn now(&self) -> Time {
        Time::from_seconds(0)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>> {
        Box::pin(async move { Ok(self.cache.applied_revision()) })
    }

    fn wait_for_pending_creates(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn create(self: Arc<Self>, _: GroupResource, _: Value) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn delete_collection(self: Arc<Self>, _: Arc<Resource>, _: String) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn delete(self: Arc<Self>, _: ObjectRef, _: DeleteRequest) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn update(
        self: Arc<Self>,
        _: ObjectRef,
        _: &'static str,
        _: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }
}

fn as_client(cluster: &Arc<FakeCluster>) -> Arc<dyn ClusterClient> {
    cluster.clone()
}

/// An informer of some core resources, each identified by its plural.
fn informer(cluster: &Arc<FakeCluster>, plurals: &[&'static str]) -> Informer<&'static str> {
    let source = |plural: &&'static str| InformerSource::new(*plural, GroupResource::new("", *plural), WatchScope::All);
    Informer::new(&as_client(cluster), plurals.iter().map(source).collect())
}

/// Describes an event: `added pods n/a n/b`, `changed pods n/a`, `reset pods`.
fn describe<S>(event: InformerEvent<S>, name: impl Fn(&S) -> String) -> String {
    let keys = |keys: Vec<String>| keys.into_iter().map(|key| format!(" {key}")).collect::<String>();
    match event {
        InformerEvent::Added(source, objects) => {
            format!("added {}{}", name(&source), keys(objects.iter().map(|object| object.key.to_string()).collect()))
        }
        InformerEvent::Changed(events) => {
            let changes = events.iter().map(|(source, event)| format!("{}/{}", name(source), event.key));
            format!("changed{}", keys(changes.collect()))
        }
        InformerEvent::Reset(source) => format!("reset {}", name(&source)),
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("an event in time")
}

/// Checks the next events.
async fn expect(informer: &mut Informer<&'static str>, expected: &[&str]) {
    for expected in expected {
        let event = in_time(informer.next()).await.expect("the cluster exists");
        assert_eq!(describe(event, |source| (*source).to_owned()), *expected);
    }
}

#[tokio::test]
async fn existing_objects_are_listed_before_changes() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    let mut informer = informer(&cluster, &["pods", "configmaps"]);
    cluster.put(["pods/n/b"]).await;
    let expected = ["added pods n/a n/b", "added configmaps", "changed pods/n/b"];
    expect(&mut informer, &expected).await;
    cluster.put(["configmaps/n/c"]).await;
    expect(&mut informer, &["changed configmaps/n/c"]).await;
    drop(cluster);
    assert!(in_time(informer.next()).await.is_none(), "the cluster is gone");
}

#[tokio::test]
async fn sources_without_list_report_only_changes_in_their_scope() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    let source = InformerSource::new("pods", GroupResource::new("", "pods"), WatchScope::Key("n/b".into()));
    let mut informer = Informer::new(&as_client(&cluster), vec![source.without_list()]);
    cluster.put(["pods/n/a", "pods/n/b"]).await;
    expect(&mut informer, &["changed pods/n/b"]).await;
}

#[tokio::test]
async fn sources_are_listed_again_when_their_history_is_lost() {
    // No event fits into this history.
    let cluster = FakeCluster::new(HistoryLimits { bytes: 1, ..HistoryLimits::default() }).await;
    let mut informer = informer(&cluster, &["pods"]);
    expect(&mut informer, &["added pods"]).await;
    cluster.put(std::iter::repeat_n("pods/n/a", MANY)).await;
    expect(&mut informer, &["reset pods", "added pods n/a"]).await;
    cluster.put(["pods/n/b"]).await;
    expect(&mut informer, &["changed pods/n/b"]).await;
}

#[tokio::test]
async fn watch_caches_that_open_and_close_are_noticed() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    cluster.serve(&["configmaps"]);
    let mut informer = informer(&cluster, &["pods", "configmaps"]);
    expect(&mut informer, &["added configmaps"]).await;
    cluster.serve(&["pods", "configmaps"]);
    expect(&mut informer, &["added pods n/a"]).await;
    cluster.cache.close("pods");
    cluster.cache.open("pods").await.expect("a watch cache");
    cluster.serve(&["pods"]);
    expect(&mut informer, &["reset configmaps", "reset pods", "added pods n/a"]).await;
    cluster.put(["pods/n/b"]).await;
    expect(&mut informer, &["changed pods/n/b"]).await;
}

#[tokio::test]
async fn ordered_informer_reports_all_collections_in_the_order_of_revisions() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    let mut informer = OrderedInformer::new(&as_client(&cluster));
    assert!(!informer.has_synced());
    let mut listed = Vec::new();
    while !informer.has_synced() {
        let event = in_time(informer.next()).await;
        listed.push(describe(event, |watch_cache| watch_cache.prefix().to_string()));
    }
    listed.sort_unstable();
    assert_eq!(listed, ["added configmaps", "added pods n/a", "changed"]);
    cluster.put(["configmaps/n/b", "pods/n/c", "configmaps/n/d"]).await;
    let event = in_time(informer.next()).await;
    let name = |watch_cache: &Arc<WatchCache>| watch_cache.prefix().to_string();
    assert_eq!(describe(event, name), "changed configmaps/n/b pods/n/c configmaps/n/d");
    cluster.cache.close("pods");
    assert_eq!(describe(in_time(informer.next()).await, name), "reset pods");
    assert!(!informer.follows("pods") && informer.follows("configmaps"));
}
