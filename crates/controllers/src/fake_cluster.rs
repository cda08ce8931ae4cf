//! A cluster for unit tests: a cache of pods and config maps over a store in memory. It refuses writes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Cache, CorruptReason, EncodingCache, EventStream, HistoryLimits, Indexer, ObjectIndex, WatchCache};
use pintle_gates::Gates;
use pintle_locks::Mutex;
use pintle_registry::{ApiError, BoxFuture, GroupResource, Registry, Resource};
use pintle_store::{Change, MemoryStore, Store, SystemClock};
use pintle_supervisor::BackgroundTask;
use pintle_value::time::Time;
use pintle_value::{Str, Value};
use tokio::sync::{mpsc, watch};

use crate::{
    ApiServiceOutages, CaughtUp, ClusterClient, DeleteRequest, LeaderElection, ObjectRef, RemoteEvent, RemoteOperation,
    RemoteResource, RemoteResources, UpdateFn, WorkQueues,
};

/// Indexes nothing.
struct NoIndexer;

impl Indexer for NoIndexer {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        Ok(ObjectIndex::default())
    }
}

/// A cluster that serves the core group without strategies.
pub(crate) struct FakeCluster {
    store: Arc<MemoryStore>,
    pub(crate) cache: Cache,
    registry: Mutex<Arc<Registry>>,
    registry_changes: watch::Sender<()>,
    work_queues: WorkQueues,
    outages: ApiServiceOutages,
    gates: Gates,
}

impl FakeCluster {
    pub(crate) async fn new(limits: HistoryLimits) -> Arc<Self> {
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
            work_queues: WorkQueues::default(),
            outages: ApiServiceOutages::default(),
            gates: Gates::default(),
        })
    }

    pub(crate) fn client(self: &Arc<Self>) -> Arc<dyn ClusterClient> {
        self.clone()
    }

    /// Writes empty objects and waits until the watch caches have them.
    pub(crate) async fn put(&self, keys: impl IntoIterator<Item = impl std::fmt::Display>) {
        let mut revision = 0;
        for key in keys {
            revision = self.commit(Change::put(format!("/registry/{key}"), "{}".to_owned())).await;
        }
        self.cache.wait_until_fresh(revision).await;
    }

    /// Commits a change and returns its revision.
    pub(crate) async fn commit(&self, change: Change) -> u64 {
        self.store.commit(change).await.expect("a commit").get()
    }

    pub(crate) fn serve(&self, plurals: &[&str]) {
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

    fn gates(&self) -> &Gates {
        &self.gates
    }

    fn now(&self) -> Time {
        Time::from_seconds(0)
    }

    fn work_queues(&self) -> &WorkQueues {
        &self.work_queues
    }

    fn api_service_outages(&self) -> &ApiServiceOutages {
        &self.outages
    }

    fn probe_api_service(self: Arc<Self>, _: Str) -> BoxFuture<'static, Result<Result<(), String>, ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn remote_resources(&self) -> Arc<RemoteResources> {
        Arc::default()
    }

    fn remote_changes(&self) -> watch::Receiver<()> {
        self.registry_changes.subscribe()
    }

    fn follow_remote(
        self: Arc<Self>,
        _: Arc<RemoteResource>,
        _: mpsc::Sender<(Str, RemoteEvent)>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn request_remote(
        self: Arc<Self>,
        _: RemoteResource,
        _: Str,
        _: RemoteOperation,
    ) -> BoxFuture<'static, Result<Vec<Value>, ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn background_task(&self, name: &'static str) -> BackgroundTask {
        BackgroundTask::new(name)
    }

    fn catch_up_all(self: Arc<Self>) -> BoxFuture<'static, Result<CaughtUp, ApiError>> {
        Box::pin(async move { Ok(CaughtUp::new(self.cache.applied_revision())) })
    }

    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>> {
        Box::pin(async move { Ok(self.cache.applied_revision()) })
    }

    fn leadership(&self) -> watch::Receiver<bool> {
        LeaderElection::alone().leadership()
    }

    fn record_server_address(
        self: Arc<Self>,
        address: IpAddr,
        _: Duration,
    ) -> BoxFuture<'static, Result<Vec<IpAddr>, ApiError>> {
        Box::pin(async move { Ok(vec![address]) })
    }

    fn remove_server_address(self: Arc<Self>, _: IpAddr) -> BoxFuture<'static, Result<Vec<IpAddr>, ApiError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn sync_allocations(self: Arc<Self>, _: Arc<Resource>) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    fn wait_for_reserved_writes(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn create(self: Arc<Self>, _: GroupResource, _: Value) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn create_as(
        self: Arc<Self>,
        _: GroupResource,
        _: &'static str,
        _: Value,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
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

    fn update_as(
        self: Arc<Self>,
        _: ObjectRef,
        _: &'static str,
        _: &'static str,
        _: UpdateFn,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }

    fn apply(
        self: Arc<Self>,
        _: ObjectRef,
        _: &'static str,
        _: &'static str,
        _: Value,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::MethodNotAllowed) })
    }
}
