//! The parts of a cluster, grouped by their purposes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pintle_admission::webhook::{NoWebhooks, WebhookCaller};
use pintle_auth::node::NodeAuthorizer;
use pintle_auth::rbac::RbacIndex;
use pintle_cache::Cache;
use pintle_catalog::Catalog;
use pintle_controllers::{LeaderElection, StorageVersionManager};
use pintle_gates::{Feature, Gates};
use pintle_locks::RwLock;
use pintle_outbound::Client;
use pintle_registry::{Registry, Resource};
use pintle_store::Store;
use pintle_supervisor::{BackgroundTasks, RecoveryTimes};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::aggregation::ApiServiceRegistration;
use super::contended_keys::ContendedKeys;
use super::conversion_cache::ConversionCache;
use super::followed::FollowedIndex;
use super::lazy::Lazy;
use super::memory::{MemoryBudget, MemoryGuard};
use super::webhook_clients::WebhookClients;
use super::{
    AggregationOptions, Indexers, KubeletClient, KubeletOptions, OverrideStorage, RemoteApi, ReservedWrites,
    TreeEncoder,
};
use crate::egress::{EgressSelector, EgressType};
use crate::http::{CpuPermits, UnresponsiveWatches};
use crate::request::body_budget::BodyBudget;
use crate::request::work_memory::WorkMemory;

/// The kinds that are served.
pub(crate) struct ServedKinds {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) built_in: Vec<Arc<Resource>>,
    pub(crate) registry: RwLock<Arc<Registry>>,
    /// The part of the registry that discovery and OpenAPI show.
    pub(super) published: RwLock<Arc<Registry>>,
    /// Notified each time that the set of served resources changes.
    pub(crate) changed: watch::Sender<()>,
}

impl ServedKinds {
    /// The built-in kinds. The feature gates decide which parts of the catalog are published.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        built_in: Vec<Arc<Resource>>,
        registry: Arc<Registry>,
        gates: &Gates,
    ) -> Self {
        let catalog = match gates.is_enabled(Feature::OPENAPI_ENUMS) {
            true => catalog,
            false => Arc::new(Catalog::clone(&catalog).without_published_enums()),
        };
        let catalog = match gates.version().is_emulating() {
            false => catalog,
            true => Arc::new(Catalog::clone(&catalog).emulating(gates.version().emulation())),
        };
        let published = RwLock::new(registry.clone());
        Self { catalog, built_in, registry: RwLock::new(registry), published, changed: watch::Sender::new(()) }
    }
}

/// The stores of objects and records, and the caches that follow them.
pub(crate) struct Stores {
    /// The store of records and of all collections without a store of their own.
    pub(crate) main: Arc<dyn Store>,
    /// The cache of `main`.
    pub(crate) cache: Cache,
    /// The collections that are in other stores.
    pub(crate) overrides: Vec<OverrideStorage>,
    /// Encodes objects from their trees as values of all stores; `None` if the stores have no such encoder.
    pub(crate) encoder: Option<Arc<dyn TreeEncoder>>,
    /// The selectable fields that the watch caches index.
    pub(crate) indexers: Arc<Indexers>,
}

/// Calls to webhooks, kubelets and other backends.
pub(crate) struct Outbound {
    /// Calls the webhooks of the plugins.
    pub(crate) webhook_caller: RwLock<Arc<dyn WebhookCaller>>,
    pub(crate) webhook_clients: WebhookClients,
    /// The objects that webhooks have converted.
    pub(crate) conversion_cache: ConversionCache,
    /// The connections to kubelets and to the backends of proxied requests.
    pub(crate) kubelets: KubeletClient,
    /// How the API servers of APIServices are reached.
    aggregation: AggregationOptions,
    /// The dialers of the networks that the server calls.
    pub(crate) egress: EgressSelector,
}

impl Outbound {
    /// Calls no webhook yet.
    pub(crate) fn new(
        kubelets: KubeletOptions,
        aggregation: AggregationOptions,
        egress: EgressSelector,
        gates: &Gates,
    ) -> Self {
        Self {
            webhook_caller: RwLock::new(Arc::new(NoWebhooks)),
            webhook_clients: WebhookClients::new(egress.clone()),
            conversion_cache: ConversionCache::default(),
            kubelets: KubeletClient::new(kubelets, gates, egress.dialer(EgressType::Cluster)),
            aggregation,
            egress,
        }
    }

    /// The client of an API server.
    ///
    /// # Errors
    /// See [`RemoteApi::client`].
    pub(crate) fn remote_client(&self, remote: &RemoteApi) -> Result<Client, String> {
        remote.client(&self.aggregation, self.egress.dialer(EgressType::Cluster))
    }

    /// True if clients get the redirects of the API servers of APIServices.
    pub(crate) fn forwards_redirects(&self) -> bool {
        self.aggregation.forwards_redirects
    }

    /// True to connect to an endpoint of the service of an API server instead of its cluster IP.
    pub(super) fn routes_to_endpoints(&self) -> bool {
        self.aggregation.routes_to_endpoints
    }
}

/// The limits of memory and processor time.
pub(crate) struct Limits {
    /// The bodies of requests that are held at present.
    pub(crate) bodies: Arc<BodyBudget>,
    /// The state of the memory budget.
    pub(crate) memory: MemoryGuard,
    /// The memory that writes may take.
    pub(crate) work_memory: Arc<WorkMemory>,
    /// Limits how many large responses are encoded at the same time.
    pub(crate) cpu_permits: CpuPermits,
    /// The open watches. A watch whose client does not read ends.
    pub(crate) unresponsive_watches: UnresponsiveWatches,
}

impl Limits {
    /// The limits of a process with this memory, which holds at most so many bytes of bodies.
    pub(crate) fn new(memory: Option<MemoryBudget>, max_body_bytes: usize) -> Self {
        Self {
            bodies: BodyBudget::new(max_body_bytes),
            work_memory: WorkMemory::new(memory.as_ref().map(|budget| budget.limit)),
            memory: MemoryGuard::new(memory),
            cpu_permits: CpuPermits::default(),
            unresponsive_watches: UnresponsiveWatches::default(),
        }
    }
}

/// The writes in progress.
#[derive(Default)]
pub(crate) struct Writes {
    /// The writes for which admission plugins have reserved something.
    pub(crate) reserved: ReservedWrites,
    /// The keys that several writes want to change at the same time.
    pub(crate) contended_keys: ContendedKeys,
    /// The tasks of the writes of requests.
    pub(super) in_progress: TaskTracker,
}

/// The indexes of the authorizers. The first decision that needs an index fills it.
#[derive(Default)]
pub(super) struct AuthorizerIndexes {
    /// The roles and bindings.
    pub(super) rbac: Lazy<FollowedIndex<RbacIndex>>,
    /// The graph of the node authorizer.
    pub(super) nodes: Lazy<FollowedIndex<NodeAuthorizer>>,
}

/// Background tasks, the election of a leader, and the end of the server.
pub(crate) struct Lifecycle {
    /// The background tasks, whose state health checks report.
    pub(crate) background_tasks: BackgroundTasks,
    /// The election among the servers that share the store. The elected server runs the controllers.
    pub(crate) election: Arc<LeaderElection>,
    /// Records the storage versions of the server's resources; `None` if the server records none.
    pub(crate) storage_versions: Option<Arc<StorageVersionManager>>,
    pub(super) api_service_registration: ApiServiceRegistration,
    /// Turns true when the server begins to shut down: it still serves, but is no longer ready.
    pub(crate) terminating: AtomicBool,
    /// Turns true when the server shuts down. Watches and background tasks end then.
    pub(crate) shutting_down: watch::Sender<bool>,
}

impl Lifecycle {
    /// The lifecycle of a server that starts.
    pub(crate) fn new(
        recovery: RecoveryTimes,
        election: Arc<LeaderElection>,
        storage_versions: Option<Arc<StorageVersionManager>>,
    ) -> Self {
        Self {
            background_tasks: BackgroundTasks::new(recovery),
            election,
            storage_versions,
            api_service_registration: ApiServiceRegistration::default(),
            terminating: AtomicBool::new(false),
            shutting_down: watch::Sender::new(false),
        }
    }
}
