//! The start of a server.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_admission::AdmissionConfiguration;
use pintle_encryption::{EncryptionAtRest, EncryptionEnvironment};
use pintle_server::http::Listener;
use pintle_server::{
    ApiServer, ClusterConfig, ControllerOptions, Cors, ENCRYPTION_RELOAD_TASK, EgressType, EncryptedForm,
    StorageOverride, TreeEncoder, server_name,
};
use pintle_store::{
    Durability, EmbeddedOptions, EmbeddedStore, HistoryRetention, IdentityTransformer, MemoryStore, Store,
    StoreSnapshot, ValueTransformer,
};
use pintle_supervisor::BackgroundTask;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::runtime::OwnRuntime;
use super::{Options, RunningServer, SHUTDOWN_GRACE_PERIOD, Server, StartError};
use crate::access::AccessReload;
use crate::advertise;
use crate::audit::{AuditPolicyReload, AuditSetup};
use crate::certificates::{CertificateError, Certificates, KeyFolder, KeyPlan, newest_commit};
use crate::cluster_keys::ServerKeys;
use crate::config_file::{self, FollowedConfiguration};
use crate::engine::{Engine, wait_until_readable};
use crate::front_proxy::FrontProxyIdentity;
use crate::migration;
use crate::renewal::{CertificateRenewal, time_of};
use crate::request_log::RequestLog;
use crate::service_accounts::ServiceAccountSetup;
use crate::serving::ServingTls;
use crate::store_encryption::StoreEncryptionOptions;

/// The name of the task that keeps the certificates of the server up to date.
const CERTIFICATES_TASK: &str = "certificates";
/// The names of the tasks that follow the configurations of authenticators and authorizers.
const AUTHENTICATION_TASK: &str = "authentication-config";
const AUTHORIZATION_TASK: &str = "authorization-config";
/// The name of the task that follows the audit policy.
const AUDIT_POLICY_TASK: &str = "audit-policy";
/// The name of the task that accepts connections.
const LISTENER_TASK: &str = "listener";
/// The name of the task that writes the log of requests.
const REQUEST_LOG_TASK: &str = "request-log";

/// The result of a start.
pub(super) struct StartedServer {
    url: String,
    advertised_url: Option<String>,
    certificates: Certificates,
    kubeconfig: String,
    kubeconfig_path: Option<PathBuf>,
    start_time: Duration,
    service_account_key: String,
    running: RunningServer,
}

impl StartedServer {
    pub(super) fn into_server(self, runtime: OwnRuntime) -> Server {
        Server {
            url: self.url,
            advertised_url: self.advertised_url,
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

/// Starts the parts of a server, on the server's runtime.
pub(super) async fn start(options: Options) -> Result<StartedServer, StartError> {
    let started = Instant::now();
    let hostname = gethostname::gethostname().to_string_lossy().into_owned();
    let advertised = advertise::advertised_address(options.advertise_address, options.bind_address);
    let mut names = vec![hostname.to_lowercase()];
    names.extend(options.services.kubernetes_address().map(|address| address.to_string()));
    names.extend(advertised.iter().map(ToString::to_string));
    names.extend(Some(options.bind_address).filter(|address| !address.is_unspecified()).map(|ip| ip.to_string()));
    names.extend(options.tls.names.iter().cloned());
    check_store(&options)?;
    let audit = AuditSetup::load(options.audit.clone()).map_err(StartError::Options)?;
    let server_name = server_name(&hostname);
    let encryption =
        EncryptionAtRest::start(options.encryption.clone(), &server_name, EncryptionEnvironment::default());
    let encryption = encryption.await.map_err(StartError::Options)?;
    // The server writes nothing before it knows that it can run with its options and on its port.
    let now = time_of(options.clock.now());
    let data_dir = options.data_dir.clone();
    let refused = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, "Refused to make or to replace keys and certificates");
    };
    let mut keys = plan_keys(&options, &names, now).inspect_err(|error| refused(error))?;
    let tls = ServingTls::load(options.tls.clone(), keys.certificates.clone())?;
    let front_proxy = FrontProxyIdentity::load(options.aggregation.clone(), &keys.certificates);
    let front_proxy = front_proxy.map_err(StartError::Options)?;
    front_proxy.warn_if_refused(&tls, now);
    let address = SocketAddr::new(options.bind_address, options.port);
    let bind = |error| StartError::Bind { address, error };
    let listener = Listener::bind(address, tls.config(), options.listener.clone()).await.map_err(bind)?;
    let address = listener.address().map_err(bind)?;
    // A server on a loopback address may advertise the host's outbound address, but it listens only on the loopback
    // address.
    let is_anywhere = address.ip().is_unspecified() || options.advertise_address.is_some();
    let external = advertised.as_ref().ok().filter(|_| is_anywhere).copied().unwrap_or(address.ip());
    let external = SocketAddr::new(external, address.port());
    let advertised_url = advertised_url(address, &advertised);
    let service_accounts = options.service_accounts.clone().load(&keys.service_account_key, &external.to_string());
    let ServiceAccountSetup { config: account_config, authentication } =
        service_accounts.map_err(StartError::Options)?;
    let server_keys =
        ServerKeys::new(&tls.client_authorities().0, account_config.issuer.public_key(), authentication.keys());
    let (access, reload) = options.access.clone().build(&tls, &options.gates, &hostname, authentication)?;
    let cors = Cors::of(&options.cors_allowed_origins).map_err(StartError::Options)?;
    let OpenedStores { store, overrides, encoder } = open_stores(&options, &encryption)?;
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
    if data_dir.is_some() {
        let (prefix, accepts_change) = (options.engine.key_prefix(), options.accept_key_change);
        server_keys.check(&*store, prefix, accepts_change).await?;
        if keys.issues() && !options.accept_clock {
            let bounds = newest_commit(&*store, prefix).await.map_err(StartError::Unreadable)?;
            keys.check_clock(now, bounds).inspect_err(|error| refused(error))?;
            tls.set_built_in(keys.certificates.clone(), |_| Ok(()))?;
            front_proxy.set_built_in(&keys.certificates);
        }
        keys.write()?;
        server_keys.record(&*store, prefix, accepts_change).await?;
    }
    let certificates = keys.certificates;
    let trust =
        options.register.then(|| options.access.authentication_trust(&tls, front_proxy.is_built_in(), &options.gates));
    let audit = audit.open(&options.egress).map_err(StartError::Options)?;
    let auditor = audit.as_ref().map(|audit| audit.auditor.clone());
    let mut observers = options.observers;
    let request_log = options.request_log.as_deref().map(RequestLog::open).transpose()?;
    observers.extend(request_log.iter().map(|log| log.observer()));
    let api_server = ApiServer::start(ClusterConfig {
        store: store.clone(),
        overrides,
        key_prefix: options.engine.key_prefix().to_owned(),
        encoder,
        history: options.history,
        encoding_cache: options.encoding_cache,
        clock: options.clock.clone(),
        min_request_timeout: options.min_request_timeout,
        limits: options.limits,
        recovery: options.recovery,
        access,
        service_accounts: account_config,
        runtime_config: options.runtime_config,
        services: options.services,
        admission: admission_configuration(options.admission, options.every_namespace_objects),
        storage_metrics: options.storage_metrics,
        components: options.components,
        flags: options.flags,
        gates: options.gates,
        allow_privileged: options.allow_privileged,
        rbac_bootstrap: options.rbac_bootstrap.unwrap_or_else(|| reload.authorization.uses_rbac()),
        cors,
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
        aggregation: front_proxy.aggregation(),
        egress: options.egress,
        audit: auditor.clone(),
        encryption: encryption.clone(),
        observers,
    })
    .await?;
    let url = base_url(address);
    let path = options.kubeconfig.or_else(|| options.data_dir.as_ref().map(|dir| dir.join("admin.kubeconfig")));
    let renewal = Arc::new(CertificateRenewal {
        tls,
        front_proxy,
        clock: options.clock,
        started: now,
        names,
        service_account_key: keys.service_account_key.clone(),
        data_dir,
        kubeconfig: path.clone(),
        url: url.clone(),
        advertised_url: advertised_url.clone(),
    });
    let text = renewal.write_kubeconfig()?;
    let mut background = JoinSet::new();
    background.spawn(follow_certificates(api_server.background_task(CERTIFICATES_TASK), renewal));
    let AccessReload { authentication, authorization } = reload;
    if authentication.has_file() {
        let task = api_server.background_task(AUTHENTICATION_TASK);
        background.spawn(follow_configuration(task, authentication));
    }
    if authorization.has_file() {
        let task = api_server.background_task(AUTHORIZATION_TASK);
        background.spawn(follow_configuration(task, authorization));
    }
    if let Some(audit) = audit {
        let reload = AuditPolicyReload::new(audit, &api_server, server_name);
        let task = api_server.background_task(AUDIT_POLICY_TASK);
        background.spawn(follow_configuration(task, reload));
    }
    if encryption.reloads() {
        let task = api_server.background_task(ENCRYPTION_RELOAD_TASK);
        background.spawn(follow_encryption(task, encryption));
    }
    if let Some(log) = &request_log {
        background.spawn(log.clone().run(api_server.background_task(REQUEST_LOG_TASK)));
    }
    let stop = watch::Sender::new(false);
    let accepting = api_server.background_task(LISTENER_TASK);
    let task = tokio::spawn(listener.serve(api_server.clone(), accepting, stop.subscribe(), SHUTDOWN_GRACE_PERIOD));
    Ok(StartedServer {
        url,
        advertised_url,
        certificates,
        kubeconfig: text,
        kubeconfig_path: path,
        start_time: started.elapsed(),
        service_account_key: keys.service_account_key,
        running: RunningServer {
            api_server,
            store,
            stores,
            stop,
            task,
            background,
            request_log,
            auditor,
            shutdown_delay: options.shutdown_delay,
        },
    })
}

/// The stores of a server.
struct OpenedStores {
    store: Arc<dyn Store>,
    overrides: Vec<StorageOverride>,
    /// Encodes objects for all of these stores; `None` if they keep JSON.
    encoder: Option<Arc<dyn TreeEncoder>>,
}

impl OpenedStores {
    /// A single store for all resources. It keeps JSON.
    fn only(store: Arc<dyn Store>) -> Self {
        Self { store, overrides: Vec::new(), encoder: None }
    }
}

/// Checks that the store can be encrypted as a whole, and can begin with the objects of the snapshot, if that is asked for.
fn check_store(options: &Options) -> Result<(), StartError> {
    let has_embedded_store =
        matches!(options.engine, Engine::Embedded | Engine::EmbeddedIn(_)) && options.store.is_none();
    if options.store_encryption.is_some() && !has_embedded_store {
        return Err(StartError::Options("only the embedded store can be encrypted as a whole".to_owned()));
    }
    if options.from.is_some() && (options.engine != Engine::Memory || options.store.is_some()) {
        let why = "only the memory store can begin with the objects of a snapshot";
        return Err(StartError::Options(why.to_owned()));
    }
    Ok(())
}

/// Decides with which certificates and keys the server runs. Nothing is written.
fn plan_keys(options: &Options, names: &[String], now: OffsetDateTime) -> Result<KeyPlan, StartError> {
    let stored = match &options.data_dir {
        Some(data_dir) => KeyFolder::read(data_dir)?,
        None => KeyFolder::default(),
    };
    let seed = options.from.as_ref().map(|snapshot| snapshot.keys_for(&stored)).transpose()?;
    Ok(KeyPlan::new(&stored, seed.as_ref(), names, now)?)
}

/// The transformer of a store, which encrypts the values that another transformer has encoded.
fn encrypted(
    options: &Options,
    inner: Arc<dyn ValueTransformer>,
    encryption: &Arc<EncryptionAtRest>,
) -> Arc<dyn ValueTransformer> {
    Arc::new(EncryptedForm::new(options.engine.key_prefix(), inner, encryption.clone()))
}

/// Opens the stores.
fn open_stores(options: &Options, encryption: &Arc<EncryptionAtRest>) -> Result<OpenedStores, StartError> {
    // The watch caches restore their history from the store after a restart.
    let retention = HistoryRetention { duration: options.history.duration, bytes: options.history.bytes as u64 };
    let open = |path: &Path, durability| -> Result<Arc<dyn Store>, StartError> {
        std::fs::create_dir_all(path).map_err(|error| CertificateError::File { path: path.to_owned(), error })?;
        let (clock, vfs) = (options.clock.clone(), options.vfs.clone());
        let accepted_loss = options.accepted_loss;
        let transformer = encrypted(options, Arc::new(IdentityTransformer), encryption);
        let encryption = options.store_encryption.as_ref().map(StoreEncryptionOptions::build).transpose();
        let encryption = encryption.map_err(StartError::Options)?;
        let embedded = EmbeddedOptions { retention, transformer, clock, vfs, durability, accepted_loss, encryption };
        Ok(Arc::new(EmbeddedStore::open(path, embedded)?))
    };
    Ok(match (&options.engine, &options.store, options.data_dir.as_deref()) {
        (_, Some(store), None) => OpenedStores::only(store.clone()),
        (Engine::Memory, ..) => {
            let empty = StoreSnapshot::default();
            let objects = options.from.as_ref().map_or(&empty, |snapshot| &snapshot.objects);
            let store = MemoryStore::from_snapshot(objects, retention, options.clock.clone());
            OpenedStores::only(Arc::new(store))
        }
        (Engine::Etcd(etcd), ..) => {
            let form = etcd.stored_form(&options.gates)?;
            let dialer = options.egress.dialer(EgressType::Etcd);
            let transformer = encrypted(options, form.clone(), encryption);
            OpenedStores {
                store: Arc::new(etcd.open(&options.history, transformer.clone(), &dialer)?),
                overrides: etcd.open_overrides(&options.history, &transformer, &dialer)?,
                encoder: Some(form),
            }
        }
        (Engine::EmbeddedIn(folder), ..) => OpenedStores::only(open(&folder.path, folder.durability)?),
        (Engine::Embedded, _, Some(path)) => OpenedStores::only(open(path, Durability::Synced)?),
        (Engine::Embedded, _, None) => {
            return Err(StartError::Options("the embedded store needs a data directory".to_owned()));
        }
    })
}

/// Keeps the certificates of the server up to date: reloads changed files, and renews the server's own certificates.
async fn follow_certificates(task: BackgroundTask, renewal: Arc<CertificateRenewal>) {
    let start = || {
        let (task, renewal) = (task.clone(), renewal.clone());
        async move {
            task.report_success();
            tokio::join!(
                renewal.tls.clone().reload_when_changed(),
                renewal.front_proxy.clone().reload_when_changed(),
                renewal.run()
            );
            Ok(())
        }
    };
    task.supervise(start, || false).await;
}

/// Reads a configuration when it changes.
async fn follow_configuration(task: BackgroundTask, configuration: Arc<impl FollowedConfiguration>) {
    let start = || {
        let (task, following) = (task.clone(), config_file::follow(configuration.clone()));
        async move {
            task.report_success();
            following.await;
            Ok(())
        }
    };
    task.supervise(start, || false).await;
}

/// Reads the configuration of encryption at rest when it changes.
async fn follow_encryption(task: BackgroundTask, encryption: Arc<EncryptionAtRest>) {
    let start = || {
        let (task, following) = (task.clone(), encryption.clone().follow());
        async move {
            task.report_success();
            following.await;
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

/// The base URL for clients on other machines, if it differs from the listen address.
fn advertised_url(address: SocketAddr, advertised: &Result<IpAddr, String>) -> Option<String> {
    let advertised = advertised.as_ref().ok().filter(|ip| !address.ip().is_loopback() && **ip != address.ip());
    advertised.map(|ip| base_url(SocketAddr::new(*ip, address.port())))
}

/// The base URL of a listen address. For a wildcard address, the URL has the loopback address.
fn base_url(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("https://127.0.0.1:{port}"),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("https://[::1]:{port}"),
        IpAddr::V4(ip) => format!("https://{ip}:{port}"),
        IpAddr::V6(ip) => format!("https://[{ip}]:{port}"),
    }
}
