//! A server from its options to its end.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_admission::AdmissionConfiguration;
use pintle_auth::{
    AlwaysAllow, Authenticator, ClientCertificateAuthenticator, TokenFileAuthenticator, TokenFileError,
    UnionAuthenticator,
};
use pintle_cache::HistoryLimits;
use pintle_gates::Gates;
use pintle_server::http::{Listener, TlsError, server_config, verifier};
use pintle_server::{
    AccessControl, ApiServer, ClusterConfig, ClusterError, Component, ControllerOptions, Cors, service_address,
};
use pintle_store::{Clock, EmbeddedOptions, EmbeddedStore, HistoryRetention, MemoryStore, Store, SystemClock};
use rustls::pki_types::UnixTime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::advertise;
use crate::certificates::{CertificateError, Certificates, write_private};
use crate::kubeconfig;

/// How long open requests get to finish when the server stops.
const GRACE: Duration = Duration::from_secs(10);
/// What kube-apiserver takes for `--event-ttl`.
const EVENT_TTL: Duration = Duration::from_secs(3600);
/// What kube-apiserver takes for `--min-request-timeout`.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1800);

/// Up to how many MiB encodings of objects are kept, unless something else is said: those of 64,000 pods of a kilobyte.
pub const ENCODING_CACHE_MIB: usize = 64;

/// Where objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// In a file of the data folder.
    Embedded,
    /// In memory; gone when the server stops.
    Memory,
}

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where certificates and objects are kept. `None` keeps nothing, for tests: the engine has to be
    /// [`Engine::Memory`].
    pub data_dir: Option<PathBuf>,
    /// Where objects are stored.
    pub engine: Engine,
    /// The address to listen at.
    pub bind_address: IpAddr,
    /// The port to listen at; 0 is any that is free.
    pub port: u16,
    /// The address that clients in the cluster are told to reach the server at; by default the one it listens at, or that
    /// of the host.
    pub advertise_address: Option<IpAddr>,
    /// True if the server says in the cluster that it is there: by a lease, and by where the service `kubernetes` leads.
    pub announces: bool,
    /// True if it says where that service leads when it says that it is there.
    pub endpoints: bool,
    /// Where the kubeconfig is written; beside the data by default.
    pub kubeconfig: Option<PathBuf>,
    /// The text of a token file.
    pub tokens: Option<String>,
    /// How much history is kept.
    pub window: HistoryLimits,
    /// Up to how many bytes encodings of objects are kept that are asked for beside JSON.
    pub encoding_cache: usize,
    /// The components whose health clients can ask for.
    pub components: Vec<Component>,
    /// How long a watch lasts at least that has no time of its own; it ends at random before twice that.
    pub min_request_timeout: Duration,
    /// Which features are on.
    pub gates: Gates,
    /// The origins, as regular expressions, whose scripts browsers may let in.
    pub cors_allowed_origins: Vec<String>,
    /// True if what a controller manager does for the API itself is done here while there is none.
    pub controllers: bool,
    /// True if every namespace gets a service account and the certificates that the server is known by, as one of the things
    /// that a controller manager does.
    pub fixtures: bool,
    /// How long events are kept after they were last written, in whole seconds; without end if that is no time.
    pub event_ttl: Duration,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    /// What tests want: nothing is in the cluster that they have not put there, but for what is there always.
    fn default() -> Self {
        Self {
            data_dir: None,
            engine: Engine::Memory,
            bind_address: IpAddr::from([127, 0, 0, 1]),
            port: 0,
            advertise_address: None,
            announces: false,
            endpoints: true,
            kubeconfig: None,
            tokens: None,
            window: HistoryLimits::default(),
            encoding_cache: ENCODING_CACHE_MIB << 20,
            components: Component::defaults(),
            min_request_timeout: MIN_REQUEST_TIMEOUT,
            gates: Gates::default(),
            cors_allowed_origins: Vec::new(),
            controllers: true,
            fixtures: false,
            event_ttl: EVENT_TTL,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
    /// Certificates cannot be had.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token file is malformed.
    #[error("--token-auth-file: {0}")]
    Tokens(#[from] TokenFileError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] pintle_store::Error),
    /// The cluster cannot be started.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// The base of all URLs.
    pub url: String,
    /// The certificates in use.
    pub certificates: Certificates,
    /// The administrator's kubeconfig.
    pub kubeconfig: String,
    /// Where the kubeconfig was written.
    pub kubeconfig_path: Option<PathBuf>,
    /// How long the start took.
    pub start_time: Duration,
    api_server: Arc<ApiServer>,
    store: Arc<dyn Store>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server. It serves when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let started = Instant::now();
        let hostname = gethostname::gethostname().to_string_lossy().into_owned();
        let advertised = advertise::address(options.advertise_address, options.bind_address);
        let mut names = vec![hostname.to_lowercase(), service_address()];
        names.extend(advertised.iter().map(ToString::to_string));
        let (certificates, store) = prepare(&options, &names)?;
        let judge = verifier(certificates.authority.certificate.as_bytes())?;
        let tls = server_config(
            certificates.serving.certificate.as_bytes(),
            certificates.serving.key.as_bytes(),
            judge.clone(),
        )?;
        let mut authenticators: Vec<Box<dyn Authenticator>> =
            vec![Box::new(ClientCertificateAuthenticator::new(Box::new(move |leaf, rest| {
                judge.verify_client_cert(leaf, rest, UnixTime::now()).map(drop).map_err(|error| error.to_string())
            })))];
        if let Some(tokens) = &options.tokens {
            authenticators.push(Box::new(TokenFileAuthenticator::parse(tokens)?));
        }
        let address = SocketAddr::new(options.bind_address, options.port);
        let bind = |error| StartError::Bind { address, error };
        let listener = Listener::bind(address, tls).await.map_err(bind)?;
        let address = listener.address().map_err(bind)?;
        let api_server = ApiServer::start(ClusterConfig {
            store: store.clone(),
            history: options.window,
            encoding_cache: options.encoding_cache,
            clock: options.clock.clone(),
            min_request_timeout: options.min_request_timeout,
            access: Box::new(|_| AccessControl {
                authenticator: Box::new(UnionAuthenticator(authenticators)),
                authorizer: Box::new(AlwaysAllow),
            }),
            admission: AdmissionConfiguration::default(),
            components: options.components,
            gates: options.gates,
            cors: Cors::of(&options.cors_allowed_origins).map_err(StartError::Options)?,
            controllers: ControllerOptions {
                controllers: options.controllers,
                fixtures: (options.controllers && options.fixtures).then(|| certificates.authority.certificate.clone()),
                port: address.port(),
                endpoint: (options.announces && options.endpoints)
                    .then(|| endpoint(advertised, address.port()))
                    .flatten(),
                hostname: options.announces.then_some(hostname),
            },
            event_ttl: options.event_ttl,
        })
        .await?;
        let url = url(address);
        let text = kubeconfig(&certificates, &url);
        let path = options.kubeconfig.or_else(|| options.data_dir.as_ref().map(|dir| dir.join("admin.kubeconfig")));
        if let Some(path) = &path {
            write_private(path, &text)?;
        }
        let stop = watch::Sender::new(false);
        let task = tokio::spawn(listener.serve(api_server.clone(), stop.subscribe(), GRACE));
        Ok(Self {
            url,
            certificates,
            kubeconfig: text,
            kubeconfig_path: path,
            start_time: started.elapsed(),
            api_server,
            store,
            stop,
            task,
        })
    }

    /// Where the server stores objects. Whoever writes there goes behind its back.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Stops: nothing in the cluster leads here any more, no new connections, watches end, open requests finish, then the
    /// store is closed.
    ///
    /// # Errors
    /// The store cannot be closed cleanly. Nothing that was acknowledged is lost.
    pub async fn stop(self) -> Result<(), pintle_store::Error> {
        if tokio::time::timeout(GRACE, self.api_server.deregister()).await.is_err() {
            tracing::warn!("the cluster is not told that the server goes");
        }
        self.stop.send_replace(true);
        let _ = self.task.await;
        self.store.close().await
    }
}

/// Certificates and the store, which do not need each other, at the same time: each takes milliseconds.
fn prepare(options: &Options, names: &[String]) -> Result<(Certificates, Arc<dyn Store>), StartError> {
    // What the store keeps is what the cache can have again after a restart.
    let retention = HistoryRetention { duration: options.window.duration, bytes: options.window.bytes as u64 };
    let Some(folder) = &options.data_dir else {
        if options.engine == Engine::Embedded {
            return Err(StartError::Options("the embedded store needs a data folder".to_owned()));
        }
        let store = MemoryStore::with(retention, options.clock.clone());
        return Ok((Certificates::generate(names)?, Arc::new(store)));
    };
    std::fs::create_dir_all(folder).map_err(|error| CertificateError::File { path: folder.clone(), error })?;
    std::thread::scope(|scope| {
        let certificates = scope.spawn(|| Certificates::load_or_generate(folder, names));
        let store: Arc<dyn Store> = match options.engine {
            Engine::Memory => Arc::new(MemoryStore::with(retention, options.clock.clone())),
            Engine::Embedded => {
                let clock = options.clock.clone();
                Arc::new(EmbeddedStore::open(folder, EmbeddedOptions { retention, clock, ..Default::default() })?)
            }
        };
        let certificates = certificates
            .join()
            .map_err(|_| StartError::Options("the thread that makes certificates ended early".to_owned()))??;
        Ok((certificates, store))
    })
}

/// Where the service `kubernetes` leads to.
fn endpoint(advertised: Result<IpAddr, String>, port: u16) -> Option<SocketAddr> {
    match advertised {
        Ok(ip) => Some(SocketAddr::new(ip, port)),
        Err(error) => {
            tracing::warn!(target: "pintle::start", %error, "the service kubernetes leads nowhere");
            None
        }
    }
}

/// The base URL of an address; what listens everywhere is reached at the loopback address.
fn url(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("https://127.0.0.1:{port}"),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("https://[::1]:{port}"),
        IpAddr::V4(ip) => format!("https://{ip}:{port}"),
        IpAddr::V6(ip) => format!("https://[{ip}]:{port}"),
    }
}
