//! Starts a server with its options, and stops it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pintle_admission::AdmissionConfiguration;
use pintle_auth::TokenFileError;
use pintle_cache::HistoryLimits;
use pintle_gates::Gates;
use pintle_server::http::{Listener, ListenerOptions};
use pintle_server::{
    ApiServer, ClusterConfig, ClusterError, Component, ControllerOptions, Cors, KubeletOptions, MemoryBudget,
    RecoveryTimes, RequestLimits, RequestObserver, RuntimeConfig, ServiceNetwork, StorageMetrics,
};
use pintle_store::{
    Clock, Durability, EmbeddedOptions, EmbeddedStore, HistoryRetention, MemoryStore, Store, StoreSnapshot,
    SystemClock, Vfs,
};
use pintle_supervisor::BackgroundTask;
use pintle_value::threads::{TREE_STACK, thread_builder};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::access::{AccessOptions, AccessReload};
use crate::advertise;
use crate::certificates::{CertificateError, Certificates, service_account_key};
use crate::engine::{Engine, wait_until_readable};
use crate::migration;
use crate::renewal::{CertificateRenewal, time_of};
use crate::request_log::{RequestLog, RequestLogError};
use crate::service_accounts::ServiceAccountOptions;
use crate::serving::{ServingError, ServingTls, TlsOptions};
use crate::snapshot::Snapshot;

/// Maximum time for open requests to finish when the server stops.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// The name of the task that keeps the certificates of the server up to date.
const CERTIFICATES_TASK: &str = "certificates";
/// The names of the tasks that follow the configurations of authenticators and authorizers.
const AUTHENTICATION_TASK: &str = "authentication-config";
const AUTHORIZATION_TASK: &str = "authorization-config";
/// The name of the task that accepts connections.
const LISTENER_TASK: &str = "listener";
/// The name of the task that writes the log of requests.
const REQUEST_LOG_TASK: &str = "request-log";
/// kube-apiserver's default of `--event-ttl`.
const DEFAULT_EVENT_TTL: Duration = Duration::from_secs(3600);
/// kube-apiserver's default of `--min-request-timeout`.
const DEFAULT_MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1800);

/// Default size of the encoding cache, in MiB: enough for 64,000 pods of a kilobyte.
pub const DEFAULT_ENCODING_CACHE_MIB: usize = 64;

/// The configuration of a [`Server`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory for certificates and objects. `None` keeps certificates in memory, and needs another engine than
    /// [`Engine::Embedded`].
    pub data_dir: Option<PathBuf>,
    /// Where objects are stored.
    pub engine: Engine,
    /// The objects and keys that the server begins with. Needs [`Engine::Memory`].
    pub from: Option<Arc<Snapshot>>,
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
    /// Who may do what.
    pub access: AccessOptions,
    /// Whether the server creates and reconciles the roles and bindings of the RBAC bootstrap policy when it starts;
    /// `None` if roles and bindings decide who may do what.
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
    /// How much memory the process may use; `None` for no limit (`--memory-limit-mib`).
    pub memory: Option<MemoryBudget>,
    /// Which metrics of the store are computed.
    pub storage_metrics: StorageMetrics,
    /// The components whose health `componentstatuses` reports.
    pub components: Vec<Component>,
    /// Minimum lifetime of a watch without `timeoutSeconds`. The actual lifetime is chosen at random between this and
    /// twice this.
    pub min_request_timeout: Duration,
    /// How long and how many requests are handled.
    pub limits: RequestLimits,
    /// When a background task that fails has recovered, and when `/livez` fails because of it.
    pub recovery: RecoveryTimes,
    /// How connections are served.
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
    /// The feature gates.
    pub gates: Gates,
    /// Whether pods may have privileged containers (`--allow-privileged`).
    pub allow_privileged: bool,
    /// How kubelets are reached for logs, exec, attach, port forwarding and proxies.
    pub kubelets: KubeletOptions,
    /// The origins that CORS allows, as regular expressions.
    pub cors_allowed_origins: Vec<String>,
    /// Whether the server runs the controllers on which the API relies. They stand by while a controller manager is
    /// active.
    pub controllers: bool,
    /// Whether every namespace gets the objects that a controller manager creates there: the default service account,
    /// and the ConfigMap with the certificate authority. Needs [`Options::controllers`]. Without them the admission plugin
    /// `ServiceAccount` is disabled, as in envtest, because it would refuse all pods.
    pub every_namespace_objects: bool,
    /// Whether the server counts what is used of resource quotas, as a controller manager does. Needs
    /// [`Options::controllers`]. Without that, new quotas limit nothing, as in envtest.
    pub resource_quotas: bool,
    /// Whether the server type checks validating admission policies and writes the warnings into their status, as a
    /// controller manager does. Needs [`Options::controllers`].
    pub policy_type_checks: bool,
    /// Whether the server creates and reconciles the priority levels and flow schemas of the bootstrap configuration, and
    /// writes the status of flow schemas.
    pub flow_control: bool,
    /// Whether ServiceCIDRs whose addresses are in use are protected by a finalizer, and have a condition.
    pub service_cidr_protection: bool,
    /// Whether the server creates the APIServices of the versions that it serves, and keeps them.
    pub api_services: bool,
    /// How long events are kept after their last write, in whole seconds; zero keeps them forever.
    pub event_ttl: Duration,
    /// The clock of everything that the API shows.
    pub clock: Arc<dyn Clock>,
    /// The store to use instead of an engine's, without a data directory. Tests let it fail.
    pub store: Option<Arc<dyn Store>>,
    /// What sees requests and their answers, and may interfere with them.
    pub observers: Vec<Arc<dyn RequestObserver>>,
    /// The file to which a line is appended for each request (`--log-requests`).
    pub request_log: Option<PathBuf>,
    /// Number of threads that serve requests; `None` for one per processor.
    pub worker_threads: Option<NonZeroUsize>,
    /// How the embedded store accesses its files, instead of the operating system's way. Tests let disks fail with it.
    pub vfs: Option<Vfs>,
}

impl Default for Options {
    /// The options for tests: the cluster has only the objects without which no server starts.
    fn default() -> Self {
        Self {
            data_dir: None,
            engine: Engine::Memory,
            from: None,
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
            min_request_timeout: DEFAULT_MIN_REQUEST_TIMEOUT,
            limits: RequestLimits::default(),
            recovery: RecoveryTimes::default(),
            listener: ListenerOptions::default(),
            tls: TlsOptions::default(),
            root_ca: None,
            shutdown_delay: Duration::ZERO,
            admission: AdmissionConfiguration::default(),
            gates: Gates::default(),
            allow_privileged: true,
            kubelets: KubeletOptions::default(),
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

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options are invalid.
    #[error("{0}")]
    Options(String),
    /// The certificates cannot be loaded or created.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// The certificates cannot be used for TLS.
    #[error(transparent)]
    Tls(#[from] ServingError),
    /// The token file is malformed.
    #[error("--token-auth-file: {0}")]
    Tokens(#[from] TokenFileError),
    /// The threads of the server cannot be started.
    #[error("failed to start the server's threads: {0}")]
    Runtime(io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] pintle_store::Error),
    /// The store cannot be read.
    #[error("failed to read the stored objects: {0}")]
    Unreadable(pintle_store::Error),
    /// The cluster cannot be started.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The log of requests cannot be opened.
    #[error(transparent)]
    RequestLog(#[from] RequestLogError),
    /// The server cannot listen on its address.
    #[error("failed to listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        error: std::io::Error,
    },
}

/// A running server. It runs on threads of its own, because those of the caller may have stacks that are too small for
/// nested objects. Dropping it ends it abruptly.
pub struct Server {
    /// The base URL.
    pub url: String,
    /// The certificates in use.
    pub certificates: Certificates,
    /// The administrator's kubeconfig.
    pub kubeconfig: String,
    /// The file with the kubeconfig, if one was written.
    pub kubeconfig_path: Option<PathBuf>,
    /// The duration of the start.
    pub start_time: Duration,
    /// The private key of service accounts, in PEM.
    service_account_key: String,
    store: Arc<dyn Store>,
    /// `None` once it was stopped.
    running: Option<RunningServer>,
    runtime: OwnRuntime,
}

/// The parts of a server that run until it stops.
#[derive(Debug)]
struct RunningServer {
    api_server: Arc<ApiServer>,
    store: Arc<dyn Store>,
    /// That store, and those of single resources.
    stores: Vec<Arc<dyn Store>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// Reads changed certificates, and renews the server's own.
    background: JoinSet<()>,
    request_log: Option<RequestLog>,
    shutdown_delay: Duration,
}

/// How many tasks a worker runs before it looks for network events and timers. Tokio's default is 61: beside floods of
/// small frames, which make each task take its longest, a request would wait tens of milliseconds to be noticed.
const EVENT_INTERVAL: u32 = 16;

/// The runtime on which a server runs. Its workers walk trees (`pintle_value::threads`), and so does the thread that
/// owns it, which drops what its tasks hold.
#[derive(Debug)]
struct OwnRuntime {
    handle: Handle,
    /// Ends the runtime when it is dropped, or with what it sends, which is dropped afterwards.
    end: mpsc::Sender<Option<RunningServer>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl OwnRuntime {
    fn start(worker_threads: Option<NonZeroUsize>) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let (sender, built) = mpsc::channel();
        let own = move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.thread_name("pintle").thread_stack_size(TREE_STACK).event_interval(EVENT_INTERVAL).enable_all();
            if let Some(threads) = worker_threads {
                builder.worker_threads(threads.get());
            }
            match builder.build() {
                Ok(runtime) => {
                    // If the receiver is gone, so is the sender of the end.
                    let _ = sender.send(Ok(runtime.handle().clone()));
                    let rest = ended.recv();
                    runtime.shutdown_timeout(SHUTDOWN_GRACE_PERIOD);
                    drop(rest);
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        };
        let thread = thread_builder("pintle-runtime").spawn(own)?;
        let handle = built.recv().map_err(io::Error::other)??;
        Ok(Self { handle, end, thread: Some(thread) })
    }

    /// Runs a future on the workers of this runtime. Propagates its panic; `None` if the runtime ends before it.
    async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        match self.handle.spawn(future).await {
            Ok(result) => Some(result),
            Err(error) => error.try_into_panic().map_or(None, |panic| std::panic::resume_unwind(panic)),
        }
    }
}

impl fmt::Debug for Server {
    /// Does not print the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server. It accepts connections when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let runtime = OwnRuntime::start(options.worker_threads).map_err(StartError::Runtime)?;
        match runtime.run(Self::start_parts(options)).await {
            Some(parts) => Ok(parts?.into_server(runtime)),
            None => Err(StartError::Runtime(io::Error::other("the runtime ended while the server started"))),
        }
    }

    async fn start_parts(options: Options) -> Result<StartedServer, StartError> {
        let started = Instant::now();
        let hostname = gethostname::gethostname().to_string_lossy().into_owned();
        let advertised = advertise::advertised_address(options.advertise_address, options.bind_address);
        let mut names = vec![hostname.to_lowercase()];
        names.extend(options.services.kubernetes_address().map(|address| address.to_string()));
        names.extend(advertised.iter().map(ToString::to_string));
        let (certificates, account_key, store) = load_certificates_and_open_store(&options, &names)?;
        let overrides = match &options.engine {
            Engine::Etcd(etcd) => etcd.open_overrides(&options.history, &options.gates)?,
            Engine::Embedded | Engine::EmbeddedIn(_) | Engine::Memory => Vec::new(),
        };
        let stores: Vec<Arc<dyn Store>> =
            std::iter::once(&store).chain(overrides.iter().map(|other| &other.store)).cloned().collect();
        for store in &stores {
            wait_until_readable(&**store).await.map_err(StartError::Unreadable)?;
            if let Some(why) =
                migration::unfinished(&**store, options.engine.key_prefix()).await.map_err(StartError::Unreadable)?
            {
                return Err(StartError::Options(why));
            }
        }
        let tls = ServingTls::load(options.tls, certificates.clone())?;
        let address = SocketAddr::new(options.bind_address, options.port);
        let bind = |error| StartError::Bind { address, error };
        let listener = Listener::bind(address, tls.config(), options.listener).await.map_err(bind)?;
        let address = listener.address().map_err(bind)?;
        // A loopback address is advertised to nobody, but only there the server listens.
        let is_anywhere = address.ip().is_unspecified() || options.advertise_address.is_some();
        let external = advertised.as_ref().ok().filter(|_| is_anywhere).copied().unwrap_or(address.ip());
        let external = SocketAddr::new(external, address.port());
        let service_accounts = options.service_accounts.load(&account_key, &external.to_string());
        let service_accounts = service_accounts.map_err(StartError::Options)?;
        let trust = options.register.then(|| options.access.authentication_trust(&tls));
        let (access, reload) =
            options.access.build(&tls, &options.gates, &hostname, service_accounts.authentication)?;
        let mut observers = options.observers;
        let request_log = options.request_log.as_deref().map(RequestLog::open).transpose()?;
        observers.extend(request_log.iter().map(|log| log.observer()));
        let api_server = ApiServer::start(ClusterConfig {
            store: store.clone(),
            overrides,
            key_prefix: options.engine.key_prefix().to_owned(),
            history: options.history,
            encoding_cache: options.encoding_cache,
            clock: options.clock.clone(),
            min_request_timeout: options.min_request_timeout,
            limits: options.limits,
            recovery: options.recovery,
            access,
            service_accounts: service_accounts.config,
            runtime_config: options.runtime_config,
            services: options.services,
            admission: admission_configuration(options.admission, options.every_namespace_objects),
            storage_metrics: options.storage_metrics,
            components: options.components,
            gates: options.gates,
            allow_privileged: options.allow_privileged,
            rbac_bootstrap: options.rbac_bootstrap.unwrap_or_else(|| reload.authorization.uses_rbac()),
            cors: Cors::of(&options.cors_allowed_origins).map_err(StartError::Options)?,
            controllers: ControllerOptions {
                controllers: options.controllers,
                root_ca: options.root_ca.unwrap_or_else(|| certificates.authority.certificate.clone()),
                every_namespace_objects: options.controllers && options.every_namespace_objects,
                resource_quotas: options.controllers && options.resource_quotas,
                policy_type_checks: options.controllers && options.policy_type_checks,
                flow_control: options.flow_control,
                service_cidr_protection: options.controllers && options.service_cidr_protection,
                api_services: options.api_services,
                authentication_trust: trust,
                port: address.port(),
                endpoint: (options.register && options.reconcile_endpoints)
                    .then(|| advertised_endpoint(advertised, address.port()))
                    .flatten(),
                election_name: options.engine.is_shared().then(|| hostname.clone()),
                hostname: options.register.then_some(hostname),
            },
            event_ttl: options.event_ttl,
            memory: options.memory,
            kubelets: options.kubelets,
            observers,
        })
        .await?;
        let url = base_url(address);
        let path = options.kubeconfig.or_else(|| options.data_dir.as_ref().map(|dir| dir.join("admin.kubeconfig")));
        let renewal = Arc::new(CertificateRenewal {
            tls,
            clock: options.clock,
            names,
            data_dir: options.data_dir,
            kubeconfig: path.clone(),
            url: url.clone(),
        });
        let text = renewal.write_kubeconfig()?;
        let mut background = JoinSet::new();
        background.spawn(follow_certificates(api_server.background_task(CERTIFICATES_TASK), renewal));
        let AccessReload { authentication, authorization } = reload;
        if authentication.has_file() {
            let task = api_server.background_task(AUTHENTICATION_TASK);
            background.spawn(follow_configuration(task, move || authentication.clone().run()));
        }
        if authorization.has_file() {
            let task = api_server.background_task(AUTHORIZATION_TASK);
            background.spawn(follow_configuration(task, move || authorization.clone().run()));
        }
        if let Some(log) = &request_log {
            background.spawn(log.clone().run(api_server.background_task(REQUEST_LOG_TASK)));
        }
        let stop = watch::Sender::new(false);
        let accepting = api_server.background_task(LISTENER_TASK);
        let task = tokio::spawn(listener.serve(api_server.clone(), accepting, stop.subscribe(), SHUTDOWN_GRACE_PERIOD));
        Ok(StartedServer {
            url,
            certificates,
            kubeconfig: text,
            kubeconfig_path: path,
            start_time: started.elapsed(),
            service_account_key: account_key,
            running: RunningServer {
                api_server,
                store,
                stores,
                stop,
                task,
                background,
                request_log,
                shutdown_delay: options.shutdown_delay,
            },
        })
    }

    /// The server's store. A write to it bypasses the server's caches and validation.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// The objects that the server has now, and its keys.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn snapshot(&self) -> Result<Snapshot, pintle_store::Error> {
        Snapshot::of(&self.store, &self.certificates, &self.service_account_key).await
    }

    /// Stops the server: removes its registration from the cluster, lets it be not ready for
    /// [`Options::shutdown_delay`], stops listening, ends watches, waits for open requests and writes, and closes the store.
    ///
    /// # Errors
    /// The store cannot be closed cleanly. No acknowledged write is lost.
    pub async fn stop(mut self) -> Result<(), pintle_store::Error> {
        let Some(running) = self.running.take() else { return Ok(()) };
        self.runtime.run(running.stop()).await.unwrap_or(Err(pintle_store::Error::Closed))
    }

    /// Ends the server abruptly: its tasks end at their next await, connections break, and requests remain unfinished.
    /// Blocks until its tasks have ended and its store is released.
    pub fn kill(mut self) {
        let thread = self.runtime.thread.take();
        drop(self);
        // The panic hook has reported a panic of the thread.
        let _ = thread.map(std::thread::JoinHandle::join);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread has ended only if it panicked.
        let _ = self.runtime.end.send(self.running.take());
    }
}

/// What a start results in.
struct StartedServer {
    url: String,
    certificates: Certificates,
    kubeconfig: String,
    kubeconfig_path: Option<PathBuf>,
    start_time: Duration,
    service_account_key: String,
    running: RunningServer,
}

impl StartedServer {
    fn into_server(self, runtime: OwnRuntime) -> Server {
        Server {
            url: self.url,
            certificates: self.certificates,
            kubeconfig: self.kubeconfig,
            kubeconfig_path: self.kubeconfig_path,
            start_time: self.start_time,
            service_account_key: self.service_account_key,
            store: self.running.store.clone(),
            running: Some(self.running),
            runtime,
        }
    }
}

impl RunningServer {
    async fn stop(mut self) -> Result<(), pintle_store::Error> {
        self.api_server.terminate();
        // As upstream, the cluster is told at once, so that its clients choose another server during the delay.
        let deregister = tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, self.api_server.deregister());
        let (deregistered, ()) = tokio::join!(deregister, tokio::time::sleep(self.shutdown_delay));
        if deregistered.is_err() {
            tracing::warn!("Failed to remove the server's registration from the cluster: timed out");
        }
        self.stop.send_replace(true);
        let _ = self.task.await;
        if let Some(log) = self.request_log
            && tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, log.finish()).await.is_err()
        {
            tracing::warn!("Failed to write the end of the request log: timed out");
        }
        self.background.shutdown().await;
        if tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, self.api_server.wait_for_writes()).await.is_err() {
            tracing::warn!("Closing the store although some writes have not ended: timed out");
        }
        let mut closed = Ok(());
        for store in &self.stores {
            closed = closed.and(store.close().await);
        }
        closed
    }
}

/// Loads the certificates and the key of service accounts, and opens the store, in parallel, because each takes
/// milliseconds.
fn load_certificates_and_open_store(
    options: &Options,
    names: &[String],
) -> Result<(Certificates, String, Arc<dyn Store>), StartError> {
    // The watch caches restore their history from the store after a restart.
    let now = time_of(options.clock.now());
    let retention = HistoryRetention { duration: options.history.duration, bytes: options.history.bytes as u64 };
    let data_dir = options.data_dir.as_deref();
    if let Some(path) = data_dir {
        std::fs::create_dir_all(path).map_err(|error| CertificateError::File { path: path.to_owned(), error })?;
    }
    let open = |path: &Path, durability| -> Result<Arc<dyn Store>, StartError> {
        let (clock, vfs) = (options.clock.clone(), options.vfs.clone());
        let embedded = EmbeddedOptions { retention, clock, vfs, durability, ..EmbeddedOptions::default() };
        Ok(Arc::new(EmbeddedStore::open(path, embedded)?))
    };
    if let Some(snapshot) = &options.from {
        if options.engine != Engine::Memory || options.store.is_some() {
            return Err(StartError::Options(
                "only the memory store can begin with the objects of a snapshot".to_owned(),
            ));
        }
        if let Some(data_dir) = data_dir {
            snapshot.write_keys(data_dir)?;
        }
    }
    std::thread::scope(|scope| {
        let certificates = scope.spawn(|| -> Result<_, CertificateError> {
            if let Some(snapshot) = options.from.as_ref().filter(|_| data_dir.is_none()) {
                let mut certificates = snapshot.certificates.clone();
                certificates.renew(names, now)?;
                return Ok((certificates, snapshot.service_account_key.clone()));
            }
            let certificates = match data_dir {
                Some(path) => Certificates::load_or_generate(path, names, now)?,
                None => Certificates::generate(names, now)?,
            };
            Ok((certificates, service_account_key(data_dir)?))
        });
        let store = match (&options.engine, &options.store, data_dir) {
            (_, Some(store), None) => store.clone(),
            (Engine::Memory, ..) => {
                let empty = StoreSnapshot::default();
                let objects = options.from.as_ref().map_or(&empty, |snapshot| &snapshot.objects);
                Arc::new(MemoryStore::from_snapshot(objects, retention, options.clock.clone()))
            }
            (Engine::Etcd(etcd), ..) => Arc::new(etcd.open(&options.history, &options.gates)?),
            (Engine::EmbeddedIn(folder), ..) => open(&folder.path, folder.durability)?,
            (Engine::Embedded, _, Some(path)) => open(path, Durability::Synced)?,
            (Engine::Embedded, _, None) => {
                return Err(StartError::Options("the embedded store needs a data directory".to_owned()));
            }
        };
        let (certificates, account_key) = certificates
            .join()
            .map_err(|_| StartError::Options("the thread that loads the certificates panicked".to_owned()))??;
        Ok((certificates, account_key, store))
    })
}

/// Keeps the certificates of the server up to date: reads files that change, and renews its own.
async fn follow_certificates(task: BackgroundTask, renewal: Arc<CertificateRenewal>) {
    let start = || {
        let (task, renewal) = (task.clone(), renewal.clone());
        async move {
            task.report_success();
            tokio::join!(renewal.tls.clone().reload_when_changed(), renewal.run());
            Ok(())
        }
    };
    task.supervise(start, || false).await;
}

/// Reads a configuration when it changes.
async fn follow_configuration<F>(task: BackgroundTask, run: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = || {
        let (task, running) = (task.clone(), run());
        async move {
            task.report_success();
            running.await;
            Ok(())
        }
    };
    task.supervise(start, || false).await;
}

/// The admission plugins of a server, given whether every namespace has a service account.
fn admission_configuration(mut admission: AdmissionConfiguration, has_accounts: bool) -> AdmissionConfiguration {
    const SERVICE_ACCOUNT: &str = "ServiceAccount";
    let is_named = |names: &[String]| names.iter().any(|name| name == SERVICE_ACCOUNT);
    if !has_accounts && !is_named(&admission.enabled) && !is_named(&admission.disabled) {
        admission.disabled.push(SERVICE_ACCOUNT.to_owned());
    }
    admission
}

/// The endpoint of the service `kubernetes`; `None` if no address can be advertised.
fn advertised_endpoint(advertised: Result<IpAddr, String>, port: u16) -> Option<SocketAddr> {
    match advertised {
        Ok(ip) => Some(SocketAddr::new(ip, port)),
        Err(error) => {
            tracing::warn!(
                target: "pintle::start",
                %error,
                "No address to advertise: not publishing endpoints of the service kubernetes"
            );
            None
        }
    }
}

/// The base URL of a listen address. The loopback address stands for a wildcard address.
fn base_url(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("https://127.0.0.1:{port}"),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("https://[::1]:{port}"),
        IpAddr::V4(ip) => format!("https://{ip}:{port}"),
        IpAddr::V6(ip) => format!("https://[{ip}]:{port}"),
    }
}
