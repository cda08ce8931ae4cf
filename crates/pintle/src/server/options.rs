//! The options of a server.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pintle_admission::AdmissionConfiguration;
use pintle_audit::AuditOptions;
use pintle_cache::HistoryLimits;
use pintle_encryption::EncryptionOptions;
use pintle_gates::Gates;
use pintle_server::http::ListenerOptions;
use pintle_server::{
    Component, EgressSelector, KubeletOptions, MemoryBudget, RecoveryTimes, RequestLimits, RequestObserver,
    RuntimeConfig, ServiceNetwork, StorageMetrics,
};
use pintle_store::{Clock, Revision, Store, SystemClock, Vfs};

use crate::access::AccessOptions;
use crate::engine::Engine;
use crate::front_proxy::AggregatorOptions;
use crate::service_accounts::ServiceAccountOptions;
use crate::serving::TlsOptions;
use crate::snapshot::Snapshot;
use crate::store_encryption::StoreEncryptionOptions;

/// kube-apiserver's default of `--event-ttl`.
const DEFAULT_EVENT_TTL: Duration = Duration::from_secs(3600);
/// kube-apiserver's default of `--min-request-timeout`.
const DEFAULT_MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1800);

/// Default size of the encoding cache, in MiB: enough for 64,000 pods of one kilobyte each.
pub const DEFAULT_ENCODING_CACHE_MIB: usize = 64;

/// The configuration of a [`Server`](super::Server).
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory for certificates and objects. `None` keeps certificates in memory, and needs another engine than
    /// [`Engine::Embedded`].
    pub data_dir: Option<PathBuf>,
    /// Where objects are stored.
    pub engine: Engine,
    /// The server starts although the embedded store finds that acknowledged changes after this revision are lost
    /// (`--accept-data-loss-after`).
    pub accepted_loss: Option<Revision>,
    /// The objects and keys that the server begins with. Needs [`Engine::Memory`].
    pub from: Option<Arc<Snapshot>>,
    /// Whether the server starts although the cluster was served with another authority or another key of service
    /// accounts (`--accept-key-change`).
    pub accept_key_change: bool,
    /// Whether certificates are issued although the clock contradicts the store (`--accept-clock`).
    pub accept_clock: bool,
    /// The IP address to listen on.
    pub bind_address: IpAddr,
    /// The port to listen on; 0 selects a free port.
    pub port: u16,
    /// The address that the server advertises to members of the cluster. `None` selects the bind address or, if that is
    /// a loopback or wildcard address, the host's outbound address.
    pub advertise_address: Option<IpAddr>,
    /// Whether the server registers itself in the cluster, with an identity lease and the endpoints of the service
    /// `kubernetes`.
    pub register: bool,
    /// Whether the registration includes these endpoints (`--endpoint-reconciler-type`).
    pub reconcile_endpoints: bool,
    /// The file to write the kubeconfig to; `None` selects `admin.kubeconfig` in the data directory.
    pub kubeconfig: Option<PathBuf>,
    /// The authenticators and authorizers.
    pub access: AccessOptions,
    /// Whether the server creates and reconciles the roles and bindings of the RBAC bootstrap policy when it starts.
    /// `None` lets it do so if it has the RBAC authorizer.
    pub rbac_bootstrap: Option<bool>,
    /// How tokens of service accounts are issued and validated.
    pub service_accounts: ServiceAccountOptions,
    /// Which versions of the built-in API are served (`--runtime-config`).
    pub runtime_config: RuntimeConfig,
    /// The addresses and node ports of services (`--service-cluster-ip-range`, `--service-node-port-range`).
    pub services: ServiceNetwork,
    /// How much history watches and consistent lists can use.
    pub history: HistoryLimits,
    /// Maximum size of the cache of encodings other than JSON, in bytes.
    pub encoding_cache: usize,
    /// The memory budget of the process; `None` for no limit (`--memory-limit-mib`).
    pub memory: Option<MemoryBudget>,
    /// Which metrics of the store are computed.
    pub storage_metrics: StorageMetrics,
    /// The components whose health `componentstatuses` reports.
    pub components: Vec<Component>,
    /// The flags of the process, by name, with their values as Go prints them. `/flagz` shows them; `None` for no
    /// `/flagz`.
    pub flags: Option<BTreeMap<String, String>>,
    /// Minimum lifetime of a watch without `timeoutSeconds`. The actual lifetime is chosen at random between this and
    /// twice this.
    pub min_request_timeout: Duration,
    /// The maximum duration of requests and the maximum number of requests in flight.
    pub limits: RequestLimits,
    /// When a failing background task counts as recovered, and when it makes `/livez` fail.
    pub recovery: RecoveryTimes,
    /// How the listener serves connections.
    pub listener: ListenerOptions,
    /// The certificates of the server and of its clients.
    pub tls: TlsOptions,
    /// The certificates, in PEM, by which clients in the cluster verify the server; `None` for its own authority.
    pub root_ca: Option<String>,
    /// How long the server goes on serving after it was told to stop, while it is not ready, so that load balancers
    /// notice (`--shutdown-delay-duration`).
    pub shutdown_delay: Duration,
    /// Which admission plugins run.
    pub admission: AdmissionConfiguration,
    /// Which requests are recorded, and where (`--audit-*`). The options have to be valid.
    pub audit: AuditOptions,
    /// How stored values are encrypted (`--encryption-provider-config`). The options have to be valid.
    pub encryption: EncryptionOptions,
    /// How the embedded store is encrypted as a whole; `None` if it is not (`--encrypt-store`).
    pub store_encryption: Option<StoreEncryptionOptions>,
    /// The feature gates.
    pub gates: Gates,
    /// Whether pods may have privileged containers (`--allow-privileged`).
    pub allow_privileged: bool,
    /// How kubelets are reached for logs, exec, attach, port forwarding and proxies.
    pub kubelets: KubeletOptions,
    /// How the API servers of APIServices are called.
    pub aggregation: AggregatorOptions,
    /// The dialers of the networks that the server calls (`--egress-selector-config-file`).
    pub egress: EgressSelector,
    /// The origins that CORS allows, as regular expressions.
    pub cors_allowed_origins: Vec<String>,
    /// Whether the server runs the controllers on which the API relies. They stand by while a controller manager is
    /// active.
    pub controllers: bool,
    /// Whether every namespace gets the objects that a controller manager creates there: the default service account,
    /// and the ConfigMap with the certificate authority. Needs [`Options::controllers`]. Without them the admission
    /// plugin `ServiceAccount` is disabled, as in envtest, because it would refuse all pods.
    pub every_namespace_objects: bool,
    /// Whether the server counts the usage of resource quotas, as a controller manager does. Needs
    /// [`Options::controllers`]. Without a count, new quotas limit nothing, as in envtest.
    pub resource_quotas: bool,
    /// Whether the server type checks validating admission policies and writes the warnings into their status, as a
    /// controller manager does. Needs [`Options::controllers`].
    pub policy_type_checks: bool,
    /// Whether the server creates and reconciles the priority levels and flow schemas of the bootstrap configuration,
    /// and writes the status of flow schemas.
    pub flow_control: bool,
    /// Whether ServiceCIDRs whose addresses are in use are protected by a finalizer, and have a condition.
    pub service_cidr_protection: bool,
    /// Whether the server creates the APIServices of the versions that it serves, and keeps them.
    pub api_services: bool,
    /// How long events are kept after their last write, in whole seconds; zero keeps them forever.
    pub event_ttl: Duration,
    /// The clock of all times in the API.
    pub clock: Arc<dyn Clock>,
    /// The store to use instead of the engine's store, without a data directory. Tests pass stores that fail.
    pub store: Option<Arc<dyn Store>>,
    /// The observers of requests and their answers, which may interfere with them.
    pub observers: Vec<Arc<dyn RequestObserver>>,
    /// The file to which a line is appended for each request (`--log-requests`).
    pub request_log: Option<PathBuf>,
    /// Number of threads that serve requests; `None` for one per processor.
    pub worker_threads: Option<NonZeroUsize>,
    /// The file system of the embedded store, instead of the operating system's. Tests simulate disk failures with it.
    pub vfs: Option<Vfs>,
}

impl Default for Options {
    /// The options for tests: the cluster has only the objects without which no server starts.
    fn default() -> Self {
        Self {
            data_dir: None,
            engine: Engine::Memory,
            accepted_loss: None,
            from: None,
            accept_key_change: false,
            accept_clock: false,
            bind_address: IpAddr::from([127, 0, 0, 1]),
            port: 0,
            advertise_address: None,
            register: false,
            reconcile_endpoints: true,
            kubeconfig: None,
            access: AccessOptions::default(),
            rbac_bootstrap: Some(false),
            service_accounts: ServiceAccountOptions::default(),
            runtime_config: RuntimeConfig::default(),
            services: ServiceNetwork::default(),
            history: HistoryLimits::default(),
            encoding_cache: DEFAULT_ENCODING_CACHE_MIB << 20,
            memory: None,
            storage_metrics: StorageMetrics::default(),
            components: Component::defaults(),
            flags: None,
            min_request_timeout: DEFAULT_MIN_REQUEST_TIMEOUT,
            limits: RequestLimits::default(),
            recovery: RecoveryTimes::default(),
            listener: ListenerOptions::default(),
            tls: TlsOptions::default(),
            root_ca: None,
            shutdown_delay: Duration::ZERO,
            admission: AdmissionConfiguration::default(),
            audit: AuditOptions::default(),
            encryption: EncryptionOptions::default(),
            store_encryption: None,
            gates: Gates::default(),
            allow_privileged: true,
            kubelets: KubeletOptions::default(),
            aggregation: AggregatorOptions::default(),
            egress: EgressSelector::default(),
            cors_allowed_origins: Vec::new(),
            controllers: true,
            every_namespace_objects: false,
            resource_quotas: false,
            policy_type_checks: false,
            flow_control: false,
            service_cidr_protection: false,
            api_services: false,
            event_ttl: DEFAULT_EVENT_TTL,
            clock: Arc::new(SystemClock),
            store: None,
            observers: Vec::new(),
            request_log: None,
            worker_threads: None,
            vfs: None,
        }
    }
}
