//! One logical cluster: the state that requests, controllers and admission share. This module depends on neither
//! requests nor HTTP handlers.

mod api_services;
mod contended_keys;
pub(crate) mod conversion_cache;
mod corrupt;
pub(crate) mod flags;
mod followed;
mod indexers;
mod kubelets;
mod lazy;
mod memory;
mod metrics;
pub(crate) mod object_index;
mod objects;
mod records;
mod reserved_writes;
mod server_addresses;
mod service_accounts;
mod storage;
mod webhook_clients;

use std::fmt;
use std::mem::Discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pintle_admission::PluginChain;
use pintle_admission::webhook::{NoWebhooks, WebhookCaller};
use pintle_auth::node::NodeAuthorizer;
use pintle_auth::rbac::RbacIndex;
use pintle_cache::{Cache, WatchCache};
use pintle_catalog::{Catalog, ResourceFacts};
use pintle_controllers::{LeaderElection, StorageVersionManager};
use pintle_gates::{Feature, Gates};
use pintle_locks::{Mutex, RwLock};
use pintle_registry::{ApiError, GroupResource, Registry, Resource, StrategyContext};
use pintle_store::{Clock, Sleep, Store};
use pintle_supervisor::{BackgroundTasks, RecoveryTimes};
use pintle_value::Str;
use pintle_value::time::Time;
use tokio_util::task::TaskTracker;

use self::api_services::ApiServiceRegistration;
use self::contended_keys::ContendedKeys;
pub(crate) use self::contended_keys::Turn;
use self::conversion_cache::ConversionCache;
use self::flags::Flags;
use self::followed::{FollowedIndex, ObjectIndex, empty_node_authorizer};
pub(crate) use self::indexers::{Indexers, built_in_decode_error, custom_decode_error};
pub use self::kubelets::KubeletOptions;
pub(crate) use self::kubelets::{KubeletAddress, KubeletClient, join_host_port};
use self::lazy::Lazy;
use self::memory::MemoryGuard;
pub(crate) use self::memory::start_memory_task;
pub use self::memory::{MemoryBudget, MemoryUsage, ResidentMemory};
pub(crate) use self::metrics::{
    AuthenticationResult, AuthorizationResult, AuthorizerLabels, CollectionSeries, ConfigReloads, Decisions, DryRun,
    IssuerSeries, MatchOutcome, Metrics, Outcome, RecordedRequest, RequestSeries, RequestTarget, StorageOperation,
    WatchSeries,
};
pub(crate) use self::objects::{check_key, object_key, tree, tree_keeping_text};
pub use self::records::OWN_RECORDS_PREFIX;
pub(crate) use self::records::{RANGES_PREFIX, RECORD_PREFIXES};
pub(crate) use self::reserved_writes::{ReservedWrite, ReservedWrites};
pub use self::server_addresses::SERVER_ADDRESSES_PREFIX;
pub use self::service_accounts::ServiceAccountConfig;
pub(crate) use self::storage::{OverrideStorage, Storage};
pub use self::storage::{StorageOverride, TreeEncoder};
pub(crate) use self::webhook_clients::RecentClients;
use self::webhook_clients::WebhookClients;
use crate::http::{CpuPermits, UnresponsiveWatches};
use crate::request::body_budget::BodyBudget;
use crate::request::work_memory::WorkMemory;

/// The interval between log lines about an error of the store while the error lasts.
const STORE_ERROR_INTERVAL: Duration = Duration::from_secs(10);

/// A component outside of this server whose health `componentstatuses` reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The name of its `ComponentStatus`.
    pub name: String,
    /// The URL that answers with 200 while the component is healthy.
    pub health: String,
}

impl Component {
    /// The components that kube-apiserver probes, at their default ports on this host.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        [("controller-manager", 10257), ("scheduler", 10259)]
            .map(|(name, port)| Self { name: name.to_owned(), health: format!("https://127.0.0.1:{port}/healthz") })
            .into()
    }
}

/// The metrics of the store that are computed when metrics are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageMetrics {
    /// The number of objects of each resource (`--etcd-count-metric-poll-period` is not zero).
    pub objects: bool,
    /// The size of the database (`--etcd-db-metric-poll-interval` is not zero).
    pub size: bool,
}

impl Default for StorageMetrics {
    fn default() -> Self {
        Self { objects: true, size: true }
    }
}

/// A logical cluster.
pub struct Cluster {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) built_in: Vec<Arc<Resource>>,
    pub(crate) registry: RwLock<Arc<Registry>>,
    /// The part of the registry that discovery and OpenAPI show.
    published: RwLock<Arc<Registry>>,
    /// Notified each time that the set of served resources changes.
    pub(crate) registry_changed: tokio::sync::watch::Sender<()>,
    /// The store of records and of all collections without a store of their own.
    pub(crate) store: Arc<dyn Store>,
    /// Encodes objects from their trees as values of all stores; `None` if the stores have no such encoder.
    pub(crate) encoder: Option<Arc<dyn TreeEncoder>>,
    /// The cache of `store`.
    pub(crate) cache: Cache,
    /// The collections that are in other stores.
    pub(crate) overrides: Vec<OverrideStorage>,
    /// The selectable fields that the watch caches index.
    pub(crate) indexers: Arc<Indexers>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) min_request_timeout: Duration,
    pub(crate) admission: RwLock<Arc<PluginChain>>,
    /// Calls the webhooks of the plugins.
    pub(crate) webhook_caller: RwLock<Arc<dyn WebhookCaller>>,
    pub(crate) metrics: Metrics,
    pub(crate) gates: Arc<Gates>,
    pub(crate) allow_privileged: bool,
    /// True if CBOR is served; cached because every request asks.
    pub(crate) cbor: bool,
    /// True if clients without credentials do not keep connections of HTTP/2.
    pub(crate) limits_unauthenticated_http2: bool,
    pub(crate) event_ttl: Duration,
    pub(crate) storage_metrics: StorageMetrics,
    pub(crate) components: Vec<Component>,
    /// The flags of the process; `None` if it shows none.
    pub(crate) flags: Option<Flags>,
    pub(crate) service_accounts: ServiceAccountConfig,
    pub(crate) webhook_clients: WebhookClients,
    /// The connections to kubelets and to the backends of proxied requests.
    pub(crate) kubelets: KubeletClient,
    pub(crate) conversion_cache: ConversionCache,
    /// The bodies of requests that are held at present.
    pub(crate) bodies: Arc<BodyBudget>,
    /// The state of the memory budget.
    pub(crate) memory: MemoryGuard,
    /// The memory that writes may take.
    pub(crate) work_memory: Arc<WorkMemory>,
    /// The roles and bindings. The first decision that needs them fills the index.
    rbac: Lazy<FollowedIndex<RbacIndex>>,
    /// The graph of the node authorizer. The first decision that needs it builds the graph.
    nodes: Lazy<FollowedIndex<NodeAuthorizer>>,
    /// Limits how many large responses are encoded at the same time.
    pub(crate) cpu_permits: CpuPermits,
    /// The election among the servers that share the store. The elected server runs the controllers.
    pub(crate) election: Arc<LeaderElection>,
    /// The writes in progress for which admission plugins have reserved something.
    pub(crate) reserved_writes: ReservedWrites,
    /// The keys that several writes want to change at the same time.
    pub(crate) contended_keys: ContendedKeys,
    /// The background tasks, whose state health checks report.
    pub(crate) background_tasks: BackgroundTasks,
    /// The open watches. A watch whose client does not read ends.
    pub(crate) unresponsive_watches: UnresponsiveWatches,
    /// Turns true when the server begins to shut down: it still serves, but is no longer ready.
    pub(crate) terminating: AtomicBool,
    api_service_registration: ApiServiceRegistration,
    /// Records the storage versions of the server's resources; `None` if the server records none.
    pub(crate) storage_versions: Option<Arc<StorageVersionManager>>,
    /// Turns true when the server shuts down. Watches and background tasks end then.
    pub(crate) shutting_down: tokio::sync::watch::Sender<bool>,
    /// The writes of requests in progress.
    writes: TaskTracker,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// The arguments of [`Cluster::new`].
pub(crate) struct ClusterParts {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) built_in: Vec<Arc<Resource>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) encoder: Option<Arc<dyn TreeEncoder>>,
    pub(crate) cache: Cache,
    pub(crate) overrides: Vec<OverrideStorage>,
    pub(crate) indexers: Arc<Indexers>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) min_request_timeout: Duration,
    pub(crate) gates: Gates,
    pub(crate) allow_privileged: bool,
    pub(crate) event_ttl: Duration,
    pub(crate) storage_metrics: StorageMetrics,
    pub(crate) components: Vec<Component>,
    pub(crate) flags: Option<Flags>,
    pub(crate) service_accounts: ServiceAccountConfig,
    pub(crate) memory: Option<MemoryBudget>,
    pub(crate) bodies: Arc<BodyBudget>,
    pub(crate) recovery: RecoveryTimes,
    pub(crate) kubelets: KubeletOptions,
    pub(crate) election: Arc<LeaderElection>,
    pub(crate) storage_versions: Option<Arc<StorageVersionManager>>,
}

/// The catalog that a server with these feature gates publishes.
fn catalog(catalog: Arc<Catalog>, gates: &Gates) -> Arc<Catalog> {
    match gates.is_enabled(Feature::OPENAPI_ENUMS) {
        true => catalog,
        false => Arc::new(Catalog::clone(&catalog).without_published_enums()),
    }
}

impl Cluster {
    /// Creates a cluster without admission plugins.
    pub(crate) fn new(parts: ClusterParts) -> Self {
        let background_tasks = BackgroundTasks::new(parts.recovery);
        background_tasks.add(parts.cache.feed_task().clone());
        Self {
            background_tasks,
            catalog: catalog(parts.catalog, &parts.gates),
            built_in: parts.built_in,
            published: RwLock::new(parts.registry.clone()),
            registry: RwLock::new(parts.registry),
            registry_changed: tokio::sync::watch::Sender::new(()),
            store: parts.store,
            encoder: parts.encoder,
            cache: parts.cache,
            overrides: parts.overrides,
            indexers: parts.indexers,
            clock: parts.clock,
            min_request_timeout: parts.min_request_timeout,
            admission: RwLock::default(),
            webhook_caller: RwLock::new(Arc::new(NoWebhooks)),
            metrics: Metrics::new(&parts.gates),
            kubelets: KubeletClient::new(parts.kubelets, &parts.gates),
            cbor: parts.gates.is_enabled(Feature::CBOR),
            limits_unauthenticated_http2: parts.gates.is_enabled(Feature::UNAUTHENTICATED_HTTP2_DOS_MITIGATION),
            gates: Arc::new(parts.gates),
            allow_privileged: parts.allow_privileged,
            event_ttl: parts.event_ttl,
            storage_metrics: parts.storage_metrics,
            components: parts.components,
            flags: parts.flags,
            service_accounts: parts.service_accounts,
            webhook_clients: WebhookClients::default(),
            conversion_cache: ConversionCache::default(),
            work_memory: WorkMemory::new(parts.memory.as_ref().map(|budget| budget.limit)),
            memory: MemoryGuard::new(parts.memory),
            bodies: parts.bodies,
            rbac: Lazy::default(),
            nodes: Lazy::default(),
            cpu_permits: CpuPermits::default(),
            election: parts.election,
            reserved_writes: ReservedWrites::default(),
            contended_keys: ContendedKeys::default(),
            unresponsive_watches: UnresponsiveWatches::default(),
            terminating: AtomicBool::new(false),
            api_service_registration: ApiServiceRegistration::default(),
            storage_versions: parts.storage_versions,
            shutting_down: tokio::sync::watch::Sender::new(false),
            writes: TaskTracker::new(),
        }
    }

    /// The feature gates.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// The resources that are served now.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// The resources that discovery and OpenAPI show now.
    #[must_use]
    pub(crate) fn published_registry(&self) -> Arc<Registry> {
        self.published.read().clone()
    }

    /// The caller of webhooks for a new write.
    pub(crate) fn webhook_caller(&self) -> Arc<dyn WebhookCaller> {
        self.webhook_caller.read().clone()
    }

    /// The admission chain of a new write.
    pub(crate) fn admission(&self) -> Arc<PluginChain> {
        self.admission.read().clone()
    }

    /// Replaces the custom resources of groups.
    pub(crate) fn publish(&self, groups: impl IntoIterator<Item = (Str, Vec<Arc<Resource>>)>) {
        let mut registry = self.registry.write();
        *registry = Arc::new(registry.with_custom(groups));
        *self.published.write() = registry.established().map_or_else(|| registry.clone(), Arc::new);
        drop(registry);
        self.registry_changed.send_replace(());
    }

    /// True if a built-in kind stores its objects under a prefix. A CRD may name the same prefix, but never owns those
    /// objects.
    pub(crate) fn is_built_in(&self, prefix: &str) -> bool {
        self.built_in.iter().filter_map(|resource| resource.collection()).any(|c| c.prefix == prefix)
    }

    /// True if a group has built-in kinds.
    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        self.built_in.iter().any(|resource| resource.group == group)
    }

    /// The index of the roles and bindings that exist now.
    ///
    /// # Errors
    /// The group of roles is not served.
    pub(crate) fn rbac(&self) -> Result<&RbacIndex, ApiError> {
        self.current(&self.rbac, RbacIndex::default)
    }

    /// The node authorizer, updated to the objects that exist now.
    ///
    /// # Errors
    /// A kind that the authorizer follows is not served.
    pub(crate) fn node_authorizer(&self) -> Result<&NodeAuthorizer, ApiError> {
        self.current(&self.nodes, || empty_node_authorizer(&self.gates))
    }

    /// The node authorizer as it was at its last decision; `None` before the first.
    fn last_node_authorizer(&self) -> Option<&NodeAuthorizer> {
        self.nodes.get().map(FollowedIndex::last)
    }

    /// An index, updated to the objects that exist now. The first use builds it from an empty index.
    fn current<'a, I: ObjectIndex>(
        &'a self,
        index: &'a Lazy<FollowedIndex<I>>,
        empty: impl FnOnce() -> I,
    ) -> Result<&'a I, ApiError> {
        let followed = index.get_or_try_build(|| FollowedIndex::new(self, empty()))?;
        Ok(followed.current(&self.cache))
    }

    /// The current time.
    pub(crate) fn now(&self) -> Time {
        let millis = self.clock.now().0;
        Time { seconds: (millis / 1000) as i64, nanos: (millis % 1000) as u32 * 1_000_000 }
    }

    /// Completes after a duration on the cluster's clock.
    pub(crate) fn sleep(&self, duration: Duration) -> Sleep {
        self.clock.sleep(duration)
    }

    /// The strategy context of the server's own writes.
    pub(crate) fn own_context(&self) -> StrategyContext {
        StrategyContext {
            now: self.now(),
            user: "system:apiserver".into(),
            uid: Str::default(),
            groups: vec!["system:masters".into()],
            extra: Vec::new(),
            dry_run: false,
            gates: self.gates.clone(),
            allow_privileged: self.allow_privileged,
        }
    }

    /// The watch cache of a resource's collection.
    ///
    /// # Errors
    /// The resource stores no objects, or its watch cache is not open. A deleted CRD closes the watch cache of its
    /// custom resource. Requests that began before then get the error of a path that is not served.
    pub(crate) fn watch_cache(&self, resource: &Resource) -> Result<Arc<WatchCache>, ApiError> {
        let prefix = resource.collection().map(|c| c.prefix.as_str()).ok_or(ApiError::MethodNotAllowed)?;
        self.storage_of(prefix).cache.watch_cache(prefix).ok_or_else(|| {
            let registry = self.registry();
            match registry.resource(&resource.group, &resource.version, &resource.plural) {
                Some(_) => ApiError::Internal(format!("no watch cache for {}", resource.plural)),
                None => ApiError::NoSuchPath,
            }
        })
    }

    /// Returns the storage version (hub) of a resource.
    pub(crate) fn hub(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        if resource.is_hub() {
            return resource.clone();
        }
        resource.collection().and_then(|c| self.registry().hub(c).cloned()).unwrap_or_else(|| resource.clone())
    }

    /// Returns the storage version of a group and resource.
    ///
    /// # Errors
    /// The resource is not served.
    pub(crate) fn hub_of(&self, resource: &GroupResource) -> Result<Arc<Resource>, ApiError> {
        self.registry().hub_of(resource).cloned().ok_or(ApiError::NoSuchPath)
    }

    /// The storage version of a group and resource; `None` for a built-in resource that is turned off. Stored objects
    /// of such a resource do not count.
    ///
    /// # Errors
    /// The resource is unknown.
    pub(crate) fn readable_hub(&self, resource: &GroupResource) -> Result<Option<Arc<Resource>>, ApiError> {
        let found = self.registry().hub_of(resource).cloned();
        let is_it = |facts: &ResourceFacts| facts.group == resource.group && facts.plural == resource.resource;
        if found.is_none() && !self.catalog.resources().iter().any(is_it) {
            return Err(ApiError::NoSuchPath);
        }
        Ok(found)
    }

    /// Waits until the watch caches contain everything that was committed to the main store before the call. Returns
    /// the revision of the last of these commits.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn catch_up(&self) -> Result<u64, ApiError> {
        self.main_storage().catch_up().await
    }

    /// Reports why the store cannot serve requests, if it cannot.
    pub(crate) fn store_health(&self) -> Result<(), String> {
        self.store.health().map_err(|error| error.to_string())
    }

    /// Reports why clients should prefer another server that shares the store, if they should.
    pub(crate) fn store_readiness(&self) -> Result<(), String> {
        self.store.readiness().map_err(|error| error.to_string())
    }

    /// Completes when the server shuts down.
    pub(crate) fn shutdown(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut shutting_down = self.shutting_down.subscribe();
        async move {
            let _ = shutting_down.wait_for(|shutting_down| *shutting_down).await;
        }
    }

    /// Spawns a task that ends when the server shuts down.
    pub(crate) fn spawn_until_shutdown(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown();
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                () = shutdown => {}
            }
        });
    }

    /// Spawns a write that runs to its end, whatever happens to its request.
    pub(crate) fn spawn_write<T: Send + 'static>(
        &self,
        write: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.writes.spawn(write)
    }

    /// Waits until all writes have ended. The caller makes sure that no new write begins.
    pub(crate) async fn wait_for_writes(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// True once the server begins to shut down.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating.load(Ordering::Relaxed)
    }

    /// True once the server shuts down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.shutting_down.borrow()
    }
}

/// The client's error for a failure of the store. It describes the cause in words. Only the log contains paths of
/// files.
pub(crate) fn store_error(error: pintle_store::Error) -> ApiError {
    use pintle_store::Error;
    if matches!(error, Error::Closed) {
        return ApiError::Unavailable("the server is shutting down".to_owned());
    }
    log_store_error(&error);
    let unavailable = |message: &str| ApiError::StorageUnavailable { message: message.to_owned(), retry_after: 1 };
    match error {
        Error::DiskFull { .. } => unavailable("no space left on device"),
        Error::SyncFailed { detail, .. } => unavailable(&format!("an earlier sync failed ({detail})")),
        Error::ThreadEnded { thread } => unavailable(&format!("its {thread} thread has ended")),
        Error::Stalled { seconds, .. } => unavailable(&format!("a commit has not returned for {seconds} s")),
        Error::Io { detail, .. } | Error::Unavailable { detail } => unavailable(&detail),
        Error::OutcomeUnknown { detail } => ApiError::OutcomeUnknown(detail),
        _ => ApiError::Internal("the storage operation failed".to_owned()),
    }
}

/// Logs an error of the store. While the store cannot be written, every write fails. So only one line in
/// [`STORE_ERROR_INTERVAL`] is logged, with the number of errors of this sort since the last line. Corrupted values are
/// all logged.
fn log_store_error(error: &pintle_store::Error) {
    /// The sort of the last error, the time of its log line, and the number of errors since then that were not logged.
    static LAST: Mutex<Option<(Discriminant<pintle_store::Error>, Instant, u64)>> = Mutex::new(None);
    if matches!(error, pintle_store::Error::Corrupted { .. }) {
        return tracing::error!(%error, "Storage operation failed");
    }
    let sort = std::mem::discriminant(error);
    let mut last = LAST.lock();
    match &mut *last {
        Some((logged, at, unlogged)) if *logged == sort && at.elapsed() < STORE_ERROR_INTERVAL => *unlogged += 1,
        _ => {
            let unlogged = last.replace((sort, Instant::now(), 0)).map_or(0, |(_, _, unlogged)| unlogged);
            tracing::error!(%error, unlogged, "Storage operation failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn clients_learn_why_the_store_fails_but_no_path() {
        let path = PathBuf::from("/secret/store.db");
        let detail = "Input/output error (os error 5)".to_owned();
        for (error, expect) in [
            (
                pintle_store::Error::DiskFull { path: path.clone() },
                "the storage is unavailable: no space left on device",
            ),
            (
                pintle_store::Error::SyncFailed { path: path.clone(), detail: detail.clone() },
                "the storage is unavailable: an earlier sync failed (Input/output error (os error 5))",
            ),
            (
                pintle_store::Error::Stalled { path: path.clone(), seconds: 3 },
                "the storage is unavailable: a commit has not returned for 3 s",
            ),
            (pintle_store::Error::Io { path, detail }, "the storage is unavailable: Input/output error (os error 5)"),
        ] {
            assert_eq!(store_error(error).to_string(), expect);
        }
    }
}
