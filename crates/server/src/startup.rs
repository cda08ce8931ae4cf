//! Starts a cluster: fills the watch caches from the store, creates the bootstrap objects, and starts the controllers.

mod bootstrap;
mod bootstrap_policy;
mod manifests;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pintle_admission::{AdmissionConfiguration, ConfigurationError, PluginChain};
use pintle_audit::Auditor;
use pintle_cache::{Cache, CacheError, EncodingCache, HistoryLimits};
use pintle_controllers::{CrdController, server_name};
use pintle_encryption::EncryptionAtRest;
use pintle_gates::{Feature, Gates};
use pintle_kinds::{RuntimeConfig, ServiceNetwork};
use pintle_locks::RwLock;
use pintle_registry::{ApiError, BoxFuture, GroupResource, Registry};
use pintle_store::{Clock, Store};
use pintle_supervisor::{BackgroundTask, RecoveryTimes};
use pintle_value::Str;

use self::bootstrap::bootstrap;
use self::manifests::load_manifests;
use crate::access::AccessControl;
use crate::cluster::flags::Flags;
use crate::cluster::{
    AggregationOptions, Cluster, Component, Indexers, KubeletOptions, Lifecycle, Limits, MemoryBudget, Outbound,
    OverrideStorage, RECORD_PREFIXES, ServedKinds, ServiceAccountConfig, Settings, StorageMetrics, StorageOverride,
    Stores, TreeEncoder, start_flow_control, start_memory_task,
};
use crate::controllers::{ControllerOptions, RunningControllers, start_crds};
use crate::egress::EgressSelector;
use crate::http::cors::Cors;
use crate::http::{Handler, Peer, Response, catch_panic, panic_response, panic_text};
use crate::observe::{Observers, RequestObserver};
use crate::pipeline::{self, HandlerChain, RequestLimits};
use crate::read::start_watch_terminator;
use crate::webhook::AdmissionWebhooks;

/// Builds the authenticators and authorizers of a running cluster. They follow the objects of the cluster.
pub type AccessBuilder = Box<dyn FnOnce(&Arc<Cluster>) -> Result<AccessControl, ApiError> + Send>;

/// The configuration of an [`ApiServer`].
pub struct ClusterConfig {
    /// The store of all objects, except the objects of `overrides`.
    pub store: Arc<dyn Store>,
    /// The prefix of all keys in the store (`--etcd-prefix`).
    pub key_prefix: String,
    /// Encodes objects for all stores; `None` if they keep JSON.
    pub encoder: Option<Arc<dyn TreeEncoder>>,
    /// The limits of the history that the watch caches keep.
    pub history: HistoryLimits,
    /// Maximum size of the cache of encodings other than JSON, in bytes.
    pub encoding_cache: usize,
    /// The clock for all times in the API.
    pub clock: Arc<dyn Clock>,
    /// Minimum lifetime of a watch without `timeoutSeconds`; the maximum is twice that (upstream:
    /// `--min-request-timeout`).
    pub min_request_timeout: Duration,
    /// Builds authentication and authorization.
    pub access: AccessBuilder,
    /// The admission plugins and their configuration.
    pub admission: AdmissionConfiguration,
    /// The stores of single resources.
    pub overrides: Vec<StorageOverride>,
    /// The metrics of the store that are computed.
    pub storage_metrics: StorageMetrics,
    /// The components whose health `componentstatuses` reports.
    pub components: Vec<Component>,
    /// The flags of the process with their values as Go prints them, which `/flagz` shows. `None` disables `/flagz`.
    pub flags: Option<BTreeMap<String, String>>,
    /// The configuration of tokens of service accounts.
    pub service_accounts: ServiceAccountConfig,
    /// The served versions of the built-in API.
    pub runtime_config: RuntimeConfig,
    /// The addresses and node ports of services.
    pub services: ServiceNetwork,
    /// The feature gates.
    pub gates: Gates,
    /// Whether pods may have privileged containers (`--allow-privileged`).
    pub allow_privileged: bool,
    /// The origins that CORS allows.
    pub cors: Cors,
    /// The limits of the duration and the number of requests.
    pub limits: RequestLimits,
    /// True to reconcile the roles and bindings of the RBAC bootstrap policy before the server is ready. Needed if the
    /// RBAC authorizer is used.
    pub rbac_bootstrap: bool,
    /// The configuration of the cluster's controllers.
    pub controllers: ControllerOptions,
    /// The times after which a failed background task counts as recovered, and after which it fails `/livez`.
    pub recovery: RecoveryTimes,
    /// The time for which events are kept after their last write; zero keeps them forever.
    pub event_ttl: Duration,
    /// The memory that the process may use; `None` for no limit.
    pub memory: Option<MemoryBudget>,
    /// The configuration of connections to kubelets.
    pub kubelets: KubeletOptions,
    /// The configuration of connections to the API servers of APIServices.
    pub aggregation: AggregationOptions,
    /// The dialers of the networks that the server calls.
    pub egress: EgressSelector,
    /// Records who requests what; `None` if nothing is recorded.
    pub audit: Option<Arc<Auditor>>,
    /// The encryption of stored values, for health checks and metrics. The stores encrypt by themselves.
    pub encryption: Arc<EncryptionAtRest>,
    /// The observers of requests and their answers.
    pub observers: Vec<Arc<dyn RequestObserver>>,
}

/// The reason why a cluster cannot start.
#[derive(Debug)]
pub enum ClusterError {
    /// The watch caches could not be filled from the store.
    Cache(CacheError),
    /// The bootstrap objects could not be created.
    Bootstrap(ApiError),
    /// The authenticators and authorizers could not be built.
    Access(ApiError),
    /// The configuration of the admission plugins is invalid.
    Admission(ConfigurationError),
    /// Leases are turned off. Servers that share a store need them to elect the server that runs the controllers.
    NoLeases,
    /// The configuration enables what the emulated version does not have.
    Emulation(String),
    /// A resource cannot have a store of its own.
    Override(String),
    /// A resource is turned off, but an admission plugin has to enforce its stored objects.
    DisabledRules {
        /// The resource's plural name.
        resource: &'static str,
        /// The number of stored objects.
        count: usize,
    },
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Cache(error) => write!(f, "failed to read the stored objects: {error}"),
            ClusterError::Bootstrap(error) => write!(f, "failed to create the bootstrap objects: {error}"),
            ClusterError::Access(error) => write!(f, "failed to build the authorizers: {error}"),
            ClusterError::Admission(error) => write!(f, "{error}"),
            ClusterError::Override(error) => write!(f, "--etcd-servers-overrides: {error}"),
            ClusterError::Emulation(why) => f.write_str(why),
            ClusterError::NoLeases => write!(
                f,
                "--runtime-config disables leases, which servers need that may share an etcd: one of them runs the controllers"
            ),
            ClusterError::DisabledRules { resource, count } => write!(
                f,
                "--runtime-config disables {resource}, of which {count} are stored and would not be enforced: delete them first"
            ),
        }
    }
}

impl std::error::Error for ClusterError {}

/// A running API server: a cluster, its access control and its controllers. It handles the requests of a
/// [`Listener`](crate::http::Listener).
pub struct ApiServer {
    cluster: Arc<Cluster>,
    access: RwLock<Arc<AccessControl>>,
    chain: HandlerChain,
    controllers: RunningControllers,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Starts a cluster. When this returns, the server is ready for requests.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn start(config: ClusterConfig) -> Result<Arc<Self>, ClusterError> {
        let plugins = PluginChain::assemble(&config.admission, &config.gates).map_err(ClusterError::Admission)?;
        let running = RunningControllers::new(&config.controllers, &config.services, &config.gates);
        let version = config.gates.version();
        let catalog = config.runtime_config.catalog(version.binary());
        config.runtime_config.check_emulation(catalog, version.emulation()).map_err(ClusterError::Emulation)?;
        let mut built_in = pintle_kinds::resources_in(catalog, &config.runtime_config, &config.gates, &config.services);
        pintle_extensions::install_crd_validation(&mut built_in, version);
        let unserved_hubs = pintle_kinds::unserved_hubs(catalog, &built_in, &config.gates, &config.services);
        let registry = Arc::new(Registry::new(built_in.clone()).with_unserved_hubs(unserved_hubs));
        if config.controllers.election_name.is_some()
            && registry.hub_of(&GroupResource::new("coordination.k8s.io", "leases")).is_none()
        {
            return Err(ClusterError::NoLeases);
        }
        let mut prefixes: HashSet<Str> =
            registry.resources().filter_map(|r| r.collection()).map(|c| c.prefix.clone()).collect();
        let mut overridden = Vec::with_capacity(config.overrides.len());
        for StorageOverride { resources, store } in config.overrides {
            let elsewhere = OverrideStorage::prefixes(&registry, &resources).map_err(ClusterError::Override)?;
            if let Some(twice) = elsewhere.iter().find(|prefix| !prefixes.contains(*prefix)) {
                return Err(ClusterError::Override(format!("{twice} is in two stores")));
            }
            prefixes.retain(|prefix| !elsewhere.contains(prefix));
            overridden.push((store, elsewhere));
        }
        let indexers = Arc::new(Indexers::new(config.encoder.is_some()));
        for hub in registry.hubs() {
            indexers.set(hub);
        }
        let (store, clock) = (config.store.clone(), config.clock.clone());
        let mut loaded =
            Cache::load(store, &config.key_prefix, prefixes.clone(), indexers.clone(), clock, config.history)
                .await
                .map_err(ClusterError::Cache)?
                .without(&RECORD_PREFIXES);
        let mut overrides = Vec::with_capacity(overridden.len());
        for (index, (store, elsewhere)) in overridden.into_iter().enumerate() {
            for prefix in &elsewhere {
                let count = loaded.count_unclaimed(prefix);
                if count > 0 {
                    tracing::warn!(%prefix, count, "Objects are stored where they are not served from: see --etcd-servers-overrides");
                }
            }
            let left: Vec<&str> = elsewhere.iter().map(|prefix| prefix.as_str()).collect();
            loaded = loaded.without(&left);
            let (indexer, clock) = (indexers.clone(), config.clock.clone());
            let loading =
                OverrideStorage::load(index, store, &config.key_prefix, elsewhere, indexer, clock, config.history);
            overrides.push(loading.await.map_err(ClusterError::Cache)?);
        }
        let disabled_rules = config.runtime_config.disabled_rules(catalog);
        for (resource, prefix) in disabled_rules.filter(|(resource, _)| plugins.enforces(resource)) {
            let count = loaded.count_unclaimed(prefix);
            if count > 0 {
                return Err(ClusterError::DisabledRules { resource, count });
            }
        }
        // The CRDs determine the watch caches of custom resources.
        let crds = CrdController::load(&loaded, version);
        for record in crds.collections().filter(|(prefix, _)| !prefixes.contains(*prefix)).filter_map(|(_, r)| r) {
            indexers.set(record);
        }
        let encodings = EncodingCache::new(config.encoding_cache);
        let cache = loaded.follow(crds.collections().map(|(prefix, _)| prefix.clone()), encodings);
        let storage_versions = running.storage_versions(catalog, &registry, &config.gates);
        let gates = Arc::new(config.gates);
        let settings = Settings {
            cbor: gates.is_enabled(Feature::CBOR),
            limits_unauthenticated_http2: gates.is_enabled(Feature::UNAUTHENTICATED_HTTP2_DOS_MITIGATION),
            gates: gates.clone(),
            min_request_timeout: config.min_request_timeout,
            allow_privileged: config.allow_privileged,
            event_ttl: config.event_ttl,
            storage_metrics: config.storage_metrics,
            components: config.components,
            flags: config.flags.map(Flags::new),
            service_accounts: config.service_accounts,
        };
        let cluster = Cluster::new(
            ServedKinds::new(catalog.clone(), built_in, registry, &gates),
            Stores { main: config.store, cache, overrides, encoder: config.encoder, indexers },
            settings,
            Outbound::new(config.kubelets, config.aggregation, config.egress, &gates),
            Limits::new(config.memory, config.limits.max_body_bytes_in_flight),
            Lifecycle::new(config.recovery, running.election.clone(), storage_versions),
            config.clock,
        );
        let cluster = cluster.with_audit(config.audit).with_encryption(config.encryption);
        let cluster = Arc::new(cluster.with_flow_control(config.limits.flow_control()));
        start_memory_task(&cluster);
        start_flow_control(&cluster);
        let webhooks = AdmissionWebhooks::load(&cluster, &plugins).map_err(|(name, error)| {
            ClusterError::Admission(ConfigurationError::UnreadablePlugin { name, error: error.to_string() })
        })?;
        *cluster.outbound.webhook_caller.write() = Arc::new(webhooks);
        let server = config.controllers.hostname.as_deref().map(server_name).unwrap_or_default();
        load_manifests(&cluster, &plugins, &server).map_err(ClusterError::Admission)?;
        *cluster.admission.write() = Arc::new(plugins);
        let has_roles = cluster.hub_of(&GroupResource::new("rbac.authorization.k8s.io", "clusterroles")).is_ok();
        let reconciles_policy = config.rbac_bootstrap && has_roles;
        bootstrap(&cluster, &config.services, reconciles_policy).await.map_err(ClusterError::Bootstrap)?;
        start_crds(crds, &cluster).await.map_err(ClusterError::Bootstrap)?;
        running.start(&cluster, &config.controllers).await;
        start_watch_terminator(&cluster);
        let access = (config.access)(&cluster).map_err(ClusterError::Access)?;
        let access = RwLock::new(Arc::new(access));
        let chain = HandlerChain::new(config.cors, &config.limits, Observers::new(config.observers));
        Ok(Arc::new(Self { cluster, access, chain, controllers: running }))
    }

    /// Replaces authentication and authorization. Requests in progress keep the old authenticators and authorizers.
    pub fn set_access(&self, access: AccessControl) {
        *self.access.write() = Arc::new(access);
    }

    /// The background task with this name, whose state health checks report.
    #[must_use]
    pub fn background_task(&self, name: &'static str) -> BackgroundTask {
        self.cluster.lifecycle.background_tasks.task(name)
    }

    /// Records a reload of the audit policy. `server` is the identity of the server in metrics. `text` is the policy that
    /// is in use now, or `None` if the reload has failed.
    pub fn record_audit_policy_reload(&self, server: &str, text: Option<&[u8]>) {
        self.cluster.metrics.audit_policy().record(server, text, self.cluster.now().seconds);
    }

    /// Begins to shut down: from now on the server is not ready, but it continues to serve.
    pub fn terminate(&self) {
        self.cluster.lifecycle.terminating.store(true, Ordering::Relaxed);
    }

    /// Removes the server's lease and its endpoints of the service `kubernetes` before it stops. The store must still
    /// be open.
    pub async fn deregister(&self) {
        self.controllers.stop(&self.cluster).await;
    }

    /// Waits until all writes have ended, including writes whose clients have disconnected. The listener must have
    /// stopped, and the store must still be open.
    pub async fn wait_for_writes(&self) {
        self.cluster.wait_for_writes().await;
    }
}

impl Handler for ApiServer {
    fn handle(
        self: Arc<Self>,
        peer: Peer,
        request: http::Request<hyper::body::Incoming>,
    ) -> BoxFuture<'static, Response> {
        Box::pin(async move {
            let access = self.access.read().clone();
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let handled = pin!(pipeline::handle(self.cluster.clone(), access, &self.chain, peer, request));
            catch_panic(handled).await.unwrap_or_else(|panic| {
                // This is a panic outside of the handler. The handler chain answers panics of handlers.
                tracing::error!(%method, %uri, panic = panic_text(&panic), "Request panicked");
                panic_response()
            })
        })
    }

    fn handshake_failed(&self) {
        self.cluster.metrics.tls_handshake_error();
    }

    fn drain(&self) {
        self.terminate();
        self.cluster.lifecycle.shutting_down.send_replace(true);
    }
}
