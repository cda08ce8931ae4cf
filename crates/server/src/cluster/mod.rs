//! One logical cluster: the state that requests, controllers and admission share. This module depends on neither
//! requests nor HTTP handlers.

mod aggregation;
mod contended_keys;
pub(crate) mod conversion_cache;
mod corrupt;
pub(crate) mod flags;
mod flow_control;
mod followed;
mod front_proxy;
mod indexers;
mod kubelets;
mod lazy;
mod memory;
mod metrics;
pub(crate) mod object_index;
mod objects;
mod parts;
mod records;
mod reserved_writes;
mod server_addresses;
mod service_accounts;
pub(crate) mod service_resolver;
mod settings;
mod storage;
mod webhook_clients;

use std::fmt;
use std::mem::Discriminant;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pintle_admission::PluginChain;
use pintle_admission::webhook::WebhookCaller;
use pintle_audit::Auditor;
use pintle_auth::node::NodeAuthorizer;
use pintle_auth::rbac::RbacIndex;
use pintle_cache::WatchCache;
use pintle_catalog::ResourceFacts;
use pintle_encryption::EncryptionAtRest;
use pintle_flow_control::FlowControlOptions;
use pintle_gates::Gates;
use pintle_locks::{Mutex, RwLock};
use pintle_registry::{ApiError, GroupResource, Registry, Resource, StrategyContext};
use pintle_store::{Clock, Sleep};
use pintle_value::Str;
use pintle_value::time::Time;
use tokio::sync::watch;

use self::aggregation::ApiServiceIndex;
pub(crate) use self::aggregation::{
    ApiService, RemoteApi, RemoteDiscovery, RemoteOpenApi, RemoteV2, RemoteV3, RemoteVersion,
};
pub(crate) use self::contended_keys::Turn;
pub(crate) use self::corrupt::MAX_NAMED_CORRUPT_OBJECTS;
pub(crate) use self::flow_control::{FLOW_CONTROL_TASK, FlowControl, start_flow_control};
use self::followed::{FollowedIndex, ObjectIndex, empty_node_authorizer};
pub use self::front_proxy::{AggregationOptions, FrontProxyCertificate};
pub(crate) use self::indexers::{Indexers, built_in_decode_error, custom_decode_error};
pub use self::kubelets::KubeletOptions;
pub(crate) use self::kubelets::{KubeletAddress, KubeletClient, join_host_port};
use self::lazy::Lazy;
pub(crate) use self::memory::start_memory_task;
pub use self::memory::{MemoryBudget, MemoryUsage, ResidentMemory};
pub(crate) use self::metrics::{
    AuthenticationResult, AuthorizationResult, AuthorizerLabels, CollectionSeries, ConfigReloads, Decisions, DryRun,
    IssuerSeries, MatchOutcome, Metrics, Outcome, RecordedRequest, RequestSeries, RequestTarget, StorageOperation,
    WatchSeries,
};
pub(crate) use self::objects::{check_key, object_key, set_resource_version, tree, tree_keeping_text};
use self::parts::{AuthorizerIndexes, Writes};
pub(crate) use self::parts::{Lifecycle, Limits, Outbound, ServedKinds, Stores};
pub use self::records::OWN_RECORDS_PREFIX;
pub(crate) use self::records::{RANGES_PREFIX, RECORD_PREFIXES};
pub(crate) use self::reserved_writes::{ReservedWrite, ReservedWrites};
pub use self::server_addresses::SERVER_ADDRESSES_PREFIX;
pub use self::service_accounts::ServiceAccountConfig;
pub(crate) use self::settings::Settings;
pub use self::settings::{Component, StorageMetrics};
pub(crate) use self::storage::{OverrideStorage, Storage};
pub use self::storage::{StorageOverride, TreeEncoder};
pub(crate) use self::webhook_clients::RecentClients;

/// The interval between log lines about an error of the store while the error lasts.
const STORE_ERROR_INTERVAL: Duration = Duration::from_secs(10);

/// A logical cluster.
pub struct Cluster {
    /// The kinds that are served.
    pub(crate) served: ServedKinds,
    /// The stores of objects and records, and the caches that follow them.
    pub(crate) stores: Stores,
    /// The settings that flags and feature gates give.
    pub(crate) settings: Settings,
    /// Calls to webhooks, kubelets and other backends.
    pub(crate) outbound: Outbound,
    /// The limits of memory and processor time.
    pub(crate) limits: Limits,
    /// The writes in progress.
    pub(crate) writes: Writes,
    /// The indexes of the authorizers.
    authorizers: AuthorizerIndexes,
    /// The APIServices.
    api_services: Lazy<FollowedIndex<ApiServiceIndex>>,
    /// The versions that other API servers serve.
    remote_discovery: RwLock<Arc<RemoteDiscovery>>,
    remote_changed: watch::Sender<()>,
    /// The OpenAPI documents of other API servers.
    remote_openapi: RwLock<Arc<RemoteOpenApi>>,
    /// Records who requests what; `None` if nothing is recorded.
    pub(crate) audit: Option<Arc<Auditor>>,
    /// The encryption of stored values, whose plugins health checks ask for.
    pub(crate) encryption: Arc<EncryptionAtRest>,
    /// Lets requests wait for their turns; `None` if only the number of requests in flight is limited.
    pub(crate) flow_control: Option<FlowControl>,
    /// Background tasks, the election of a leader, and the end of the server.
    pub(crate) lifecycle: Lifecycle,
    /// The admission plugins; empty until the server has loaded them.
    pub(crate) admission: RwLock<Arc<PluginChain>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("cache", &self.stores.cache).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Creates a cluster without admission plugins.
    pub(crate) fn new(
        served: ServedKinds,
        stores: Stores,
        settings: Settings,
        outbound: Outbound,
        limits: Limits,
        lifecycle: Lifecycle,
        clock: Arc<dyn Clock>,
    ) -> Self {
        lifecycle.background_tasks.add(stores.cache.feed_task().clone());
        Self {
            served,
            stores,
            outbound,
            limits,
            writes: Writes::default(),
            authorizers: AuthorizerIndexes::default(),
            api_services: Lazy::default(),
            remote_discovery: RwLock::default(),
            remote_changed: watch::Sender::new(()),
            remote_openapi: RwLock::default(),
            audit: None,
            encryption: Arc::default(),
            flow_control: None,
            lifecycle,
            admission: RwLock::default(),
            clock,
            metrics: Metrics::new(&settings.gates),
            settings,
        }
    }

    /// Records requests, if there is an auditor.
    pub(crate) fn with_audit(self, audit: Option<Arc<Auditor>>) -> Self {
        Self { audit, ..self }
    }

    /// Shows the encryption of stored values in health checks and metrics.
    pub(crate) fn with_encryption(self, encryption: Arc<EncryptionAtRest>) -> Self {
        Self { encryption, ..self }
    }

    /// Lets requests wait for their turns, if there are options of flow control.
    pub(crate) fn with_flow_control(self, options: Option<FlowControlOptions>) -> Self {
        Self { flow_control: options.map(FlowControl::new), ..self }
    }

    /// The feature gates.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.settings.gates
    }

    /// The resources that are served now.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.served.registry.read().clone()
    }

    /// The resources that discovery and OpenAPI show now.
    #[must_use]
    pub(crate) fn published_registry(&self) -> Arc<Registry> {
        self.served.published.read().clone()
    }

    /// The caller of webhooks for a new write.
    pub(crate) fn webhook_caller(&self) -> Arc<dyn WebhookCaller> {
        self.outbound.webhook_caller.read().clone()
    }

    /// The admission chain of a new write.
    pub(crate) fn admission(&self) -> Arc<PluginChain> {
        self.admission.read().clone()
    }

    /// Replaces the custom resources of groups.
    pub(crate) fn publish(&self, groups: impl IntoIterator<Item = (Str, Vec<Arc<Resource>>)>) {
        let mut registry = self.served.registry.write();
        *registry = Arc::new(registry.with_custom(groups));
        *self.served.published.write() = registry.established().map_or_else(|| registry.clone(), Arc::new);
        drop(registry);
        self.served.changed.send_replace(());
    }

    /// True if a built-in kind stores its objects under a prefix. A CRD may name the same prefix, but never owns those
    /// objects.
    pub(crate) fn is_built_in(&self, prefix: &str) -> bool {
        self.served.built_in.iter().filter_map(|resource| resource.collection()).any(|c| c.prefix == prefix)
    }

    /// True if a group has built-in kinds.
    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        self.served.built_in.iter().any(|resource| resource.group == group)
    }

    /// The index of the roles and bindings that exist now.
    ///
    /// # Errors
    /// The group of roles is not served.
    pub(crate) fn rbac(&self) -> Result<&RbacIndex, ApiError> {
        self.current(&self.authorizers.rbac, RbacIndex::default)
    }

    /// The node authorizer, updated to the objects that exist now.
    ///
    /// # Errors
    /// A kind that the authorizer follows is not served.
    pub(crate) fn node_authorizer(&self) -> Result<&NodeAuthorizer, ApiError> {
        self.current(&self.authorizers.nodes, || empty_node_authorizer(&self.settings.gates))
    }

    /// The node authorizer as it was at its last decision; `None` before the first.
    fn last_node_authorizer(&self) -> Option<&NodeAuthorizer> {
        self.authorizers.nodes.get().map(FollowedIndex::last)
    }

    /// An index, updated to the objects that exist now. The first use builds it from an empty index.
    fn current<'a, I: ObjectIndex>(
        &'a self,
        index: &'a Lazy<FollowedIndex<I>>,
        empty: impl FnOnce() -> I,
    ) -> Result<&'a I, ApiError> {
        let followed = index.get_or_try_build(|| FollowedIndex::new(self, empty()))?;
        Ok(followed.current(&self.stores.cache))
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
            gates: self.settings.gates.clone(),
            allow_privileged: self.settings.allow_privileged,
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
        if found.is_none() && !self.served.catalog.resources().iter().any(is_it) {
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
        self.stores.main.health().map_err(|error| error.to_string())
    }

    /// Reports why clients should prefer another server that shares the store, if they should.
    pub(crate) fn store_readiness(&self) -> Result<(), String> {
        self.stores.main.readiness().map_err(|error| error.to_string())
    }

    /// Completes when the server shuts down.
    pub(crate) fn shutdown(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut shutting_down = self.lifecycle.shutting_down.subscribe();
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
        self.writes.in_progress.spawn(write)
    }

    /// Waits until all writes have ended. The caller makes sure that no new write begins.
    pub(crate) async fn wait_for_writes(&self) {
        self.writes.in_progress.close();
        self.writes.in_progress.wait().await;
    }

    /// True once the server begins to shut down.
    pub(crate) fn is_terminating(&self) -> bool {
        self.lifecycle.terminating.load(Ordering::Relaxed)
    }

    /// True once the server shuts down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.lifecycle.shutting_down.borrow()
    }
}

/// The client's error for a failure of the store. It describes the cause in words. Only the log contains paths of
/// files.
pub(crate) fn store_error(error: pintle_store::Error) -> ApiError {
    use pintle_store::{Error, TransformErrorKind};
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
        Error::Transform { detail, kind: TransformErrorKind::Encryption, .. } => ApiError::Internal(detail),
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
