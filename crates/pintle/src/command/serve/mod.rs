//! `pintle serve`: its flags, the server that they describe, and how it runs until a signal ends it.

mod admission_flags;
mod aggregation_flags;
mod audit_flags;
mod authentication_flags;
mod authorization_flags;
mod encryption_flags;
mod etcd_flags;
mod flag_values;
mod flow_control_flags;
mod kubelet_flags;
mod service_account_flags;
mod service_flags;
mod version_flags;

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{ArgAction, Parser, ValueEnum};
use pintle::{
    AccessOptions, CertificateFiles, EgressSelector, Engine, EtcdConfig, MAX_STOP_TIME, MemoryBudget, MemoryUsage,
    NamedCertificate, Options, ResidentMemory, RuntimeConfig, Server, Snapshot, StoreEncryptionOptions, TlsOptions,
    cgroup,
};
use pintle_cache::HistoryLimits;
use pintle_encryption::EncryptionOptions;
use pintle_gates::{FeatureGatesFlag, Gates};
use pintle_server::RequestLimits;
use pintle_server::http::{ListenerOptions, TlsProtocols};
use pintle_store::Revision;
use pintle_value::names::dns1123_subdomain;
use pintle_versions::{EffectiveVersion, Minor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::admission_flags::AdmissionFlags;
use self::aggregation_flags::AggregationFlags;
use self::audit_flags::AuditFlags;
use self::authentication_flags::AuthenticationFlags;
use self::authorization_flags::AuthorizationFlags;
pub(super) use self::encryption_flags::{EncryptionFlags, StoreEncryptionFlags};
use self::etcd_flags::EtcdFlags;
pub(crate) use self::etcd_flags::EtcdStoreFlags;
pub(crate) use self::flag_values::ServeCommand;
use self::flow_control_flags::FlowControlFlags;
use self::kubelet_flags::KubeletFlags;
use self::service_account_flags::ServiceAccountFlags;
use self::service_flags::ServiceFlags;
use self::version_flags::VersionFlags;
use super::fail;
use super::logging::{self, LoggingFormat};
use crate::command::string_slice::StringSlice;

/// The number of open files that are not available for connections.
const RESERVED_FILES: usize = 128;

/// The environment variable for `--log-requests`, which the programs for envtest read too.
const LOG_REQUESTS_VARIABLE: &str = "PINTLE_LOG_REQUESTS";

#[derive(Clone, Copy, ValueEnum)]
enum StorageBackend {
    /// One durable file in the data directory.
    Embedded,
    /// Memory only; all objects are lost when the server stops.
    Memory,
    /// The etcd of --etcd-servers. Several servers may share its keys: one of them runs the controllers.
    Etcd3,
}

/// The flags of `pintle serve`.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The directory for the stored objects, the certificates and the kubeconfig.
    #[arg(long, value_name = "DIR", default_value = "pintle-data")]
    data_dir: PathBuf,
    /// The storage backend for persistence [default: etcd3 with --etcd-servers, or else embedded].
    #[arg(long, alias = "storage", value_enum)]
    storage_backend: Option<StorageBackend>,
    #[command(flatten)]
    etcd: EtcdFlags,
    #[command(flatten)]
    encryption: EncryptionFlags,
    #[command(flatten)]
    store_encryption: StoreEncryptionFlags,
    /// Start although the embedded store finds that acknowledged changes after this revision are lost, for example
    /// after a damaged or incomplete write-ahead log. No revision is given out twice.
    #[arg(long, value_name = "REVISION")]
    accept_data_loss_after: Option<u64>,
    /// Start with the objects and keys of a server that does not run, from its data directory. They are read into
    /// memory, so this needs --storage-backend memory.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Start although the cluster was served with another certificate authority or another service account key.
    /// Credentials that were signed with the other are refused.
    #[arg(long)]
    accept_key_change: bool,
    /// Issue certificates although the clock is behind the newest commit in the store, or more than a year ahead of it.
    #[arg(long)]
    accept_clock: bool,
    /// The IP address on which to listen for the --secure-port port.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port on which to serve HTTPS with authentication and authorization. 0 selects a free port.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,
    /// The IP address on which to advertise the apiserver to members of the cluster. [default: --bind-address, or the
    /// host's outbound address for a loopback or unspecified address]
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// How the endpoints of the service "kubernetes" are reconciled.
    #[arg(long, value_enum, default_value = "lease")]
    endpoint_reconciler_type: EndpointReconciler,
    /// The file to which the administrator's kubeconfig is written [default: admin.kubeconfig in --data-dir].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    authentication: AuthenticationFlags,
    #[command(flatten)]
    authorization: AuthorizationFlags,
    #[command(flatten)]
    service_accounts: ServiceAccountFlags,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    kubelets: KubeletFlags,
    /// The file with the proxies through which the server calls the cluster, the control plane and etcd
    /// (EgressSelectorConfiguration). Without it, the server calls them directly.
    #[arg(long, value_name = "FILE")]
    egress_selector_config_file: Option<PathBuf>,
    #[command(flatten)]
    aggregation: AggregationFlags,
    #[command(flatten)]
    admission: AdmissionFlags,
    #[command(flatten)]
    audit: AuditFlags,
    /// The file with the certificate for HTTPS, followed by its chain, in PEM. Without it the server uses its own
    /// certificate. It is read again when it changes, as are the files of the next three flags.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The file with the private key of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// A pair of certificate and key files, and optionally the domain patterns for which it is used, such as
    /// "foo.crt,foo.key:*.foo.com,foo.com". An IP address stands for clients that connect to it and ask for no name.
    /// Without patterns it is used for the names of the certificate. May be given more than once; the first that
    /// matches counts, and patterns count before names of certificates.
    #[arg(long, value_name = "CERT,KEY[:DOMAIN,...]", value_parser = NamedCertificate::parse)]
    tls_sni_cert_key: Vec<NamedCertificate>,
    /// Further host names and IP addresses, comma separated, for which the server's own certificate is valid. It is
    /// always valid for the bind and advertise addresses, the host name and the service "kubernetes".
    #[arg(long, value_name = "NAME,...", alias = "tls-extra-sans")]
    tls_san: Vec<StringSlice>,
    /// The lowest TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: String,
    /// The cipher suites of TLS 1.2, comma separated, by Go's names. Without it, all supported suites are used.
    #[arg(long, value_name = "NAME,...")]
    tls_cipher_suites: Vec<StringSlice>,
    /// Maximum size of the watch history, in MiB, both in memory and in storage. Events older than five minutes are
    /// dropped in any case.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    watch_window_mib: usize,
    /// Maximum size of the cache of encodings other than JSON, in MiB. 0 disables the cache.
    #[arg(long, value_name = "MIB", default_value_t = pintle::DEFAULT_ENCODING_CACHE_MIB)]
    encoding_cache_mib: usize,
    /// How much memory the process may use, in MiB; 0 for no limit. Close to the limit, the server caches no encodings,
    /// then shortens the watch history, then refuses writes that add or enlarge objects. [default: 90% of the limit of
    /// the control group, if it has one]
    #[arg(long, value_name = "MIB")]
    memory_limit_mib: Option<u64>,
    /// Minimum lifetime of a watch without timeoutSeconds, in seconds. The actual lifetime is chosen at random between
    /// this and twice this, to spread out load.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    min_request_timeout: u32,
    /// Time limit of requests that are not long-running, as a duration such as 1m0s. A request may ask for less with
    /// the parameter "timeout".
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = parse_positive_duration)]
    request_timeout: Duration,
    #[command(flatten)]
    flow_control: FlowControlFlags,
    /// Maximum number of streams that a client may have on one HTTP/2 connection. 0 selects the default of 100.
    #[arg(long, value_name = "N", default_value_t = 0)]
    http2_max_streams_per_connection: u32,
    /// The share of HTTP/2 requests, from 0 to 0.02, whose client is told to open a new connection (GOAWAY). Clients
    /// thereby spread over several servers.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_goaway_chance)]
    goaway_chance: f64,
    /// How long the server goes on serving after it was told to stop, as a duration such as 10s. Meanwhile /readyz
    /// fails, so that load balancers notice.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    shutdown_delay_duration: Duration,
    /// A set of KEY=true|false pairs, comma separated, that enable or disable built-in APIs. May be given more than
    /// once. Keys: GROUP/VERSION, GROUP/VERSION/RESOURCE, api/all, api/ga (versions such as v1), api/beta (v1beta1),
    /// api/alpha (v1alpha1).
    #[arg(long, value_name = "KEY=BOOL,...")]
    runtime_config: Vec<String>,
    #[command(flatten)]
    version: VersionFlags,
    /// If true, allow privileged containers. kubeadm sets it as well; the default of kube-apiserver is false.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    allow_privileged: bool,
    /// A set of NAME=true|false pairs, comma separated, that enable or disable features. May be given more than once.
    #[arg(long, value_name = "[kube:]NAME=BOOL,...", long_help = feature_gates_help())]
    feature_gates: Vec<String>,
    /// List of allowed origins for CORS, comma separated, as regular expressions. Each must be anchored to the start of
    /// the host with '^' or '//', and to its end with '$' or ':', such as '//example\.com(:|$)'. CORS is disabled if
    /// the list is empty.
    #[arg(long, value_name = "REGEX,...")]
    cors_allowed_origins: Vec<StringSlice>,
    /// Whether to run the controllers on which the API relies, such as the garbage collector.
    #[arg(long, value_enum, default_value = "auto")]
    controllers: Controllers,
    /// Amount of time to retain events, as a duration such as 1h30m. 0 retains them until they are deleted.
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = parse_event_ttl)]
    event_ttl: Duration,
    /// The file to which a line of JSON is appended for each request, with its user, answer and the bodies of writes.
    /// Values of secrets and tokens are replaced. Only for debugging: it holds everything else that clients write. It
    /// is also set by the environment variable PINTLE_LOG_REQUESTS, for programs that pass no flags.
    #[arg(long, value_name = "FILE")]
    log_requests: Option<PathBuf>,
    /// Number for the log level verbosity: 0 logs errors and warnings, 2 also slow requests, 3 also every request, 9
    /// everything.
    /// The environment variable PINTLE_LOG overrides it with a filter such as info,pintle_store=debug.
    #[arg(long = "v", short = 'v', value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
    /// The log format.
    #[arg(long, value_enum, default_value = "text")]
    logging_format: LoggingFormat,
}

/// Parses a duration in Go's syntax.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let pintle_value::time::Duration(nanoseconds) =
        pintle_value::time::Duration::parse(text).map_err(|error| error.to_string())?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| "the duration is negative".to_owned())
}

/// Parses a duration that is not zero.
pub(crate) fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("the duration is zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses a duration, and drops the fraction of a second.
fn parse_event_ttl(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs(parse_duration(text)?.as_secs()))
}

/// Parses a share of requests, with upstream's maximum.
fn parse_goaway_chance(text: &str) -> Result<f64, String> {
    let chance: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..=0.02).contains(&chance) { Ok(chance) } else { Err("must be from 0 to 0.02".to_owned()) }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Controllers {
    /// Run them while no kube-controller-manager holds the lease kube-system/kube-controller-manager.
    Auto,
    /// Do not run them.
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EndpointReconciler {
    /// Publish this server's address while it runs.
    Lease,
    /// Do not publish endpoints.
    None,
}

fn feature_gates_help() -> String {
    let about = "A set of NAME=true|false pairs, comma separated, that enable or disable features. May be given more \
                 than once. A name may have the prefix 'kube:'. AllAlpha and AllBeta set all features of that stage \
                 that are not set by name.\nOptions are:";
    pintle_gates::help_lines().fold(about.to_owned(), |text, line| text + "\n" + &line)
}

/// Raises the soft limit of open files to the hard limit, because clients may open thousands of connections. Go's
/// runtime does the same for kube-apiserver. Returns the limit.
fn raise_open_file_limit() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, ..limit };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(%error, "Failed to raise the limit of open files"),
        }
    }
    limit.current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Keeps the process from writing core files, because they would have keys. With the limit 1, Linux also starts no
/// program that receives core files. Failures are logged.
fn forbid_core_files() {
    let limit = Rlimit { current: Some(1), maximum: Some(1) };
    if let Err(error) = setrlimit(Resource::Core, limit) {
        tracing::warn!(%error, "Failed to turn core files off, which would have the keys of stored objects");
    }
}

/// The number of connections for a limit of open files. The rest is for the store, for calls to webhooks and for
/// reading configuration.
fn max_connections(open_files: usize) -> usize {
    open_files.saturating_sub(RESERVED_FILES).max(RESERVED_FILES)
}

/// An error that ends a command.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// A command line without subcommands.
#[derive(Parser)]
struct ServeOnly {
    #[command(flatten)]
    serve: ServeCommand,
}

impl ServeCommand {
    /// Runs the server until a signal ends it.
    pub(crate) fn run(self) -> ExitCode {
        let Self { serve, values } = self;
        serve.start_logging();
        let engine = match serve.engine() {
            Ok(engine) => engine,
            Err(error) => return fail(&error),
        };
        let data_dir = serve.data_dir.clone();
        let minor = serve.version.kubernetes_version;
        let announce = |server: &Server| print_banner(server, minor, &engine, &data_dir);
        let options = serve.options().map(|options| Options { flags: Some(values), ..options });
        match options.and_then(|options| run_until_signal(options, announce)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&*error),
        }
    }
}

impl Serve {
    /// Parses flags, without the name of the program before them.
    ///
    /// # Errors
    /// A flag is unknown, or its value is invalid.
    pub(crate) fn parse_flags(flags: impl IntoIterator<Item = String>) -> Result<Self, clap::Error> {
        ServeOnly::try_parse_from(std::iter::once("pintle".to_owned()).chain(flags)).map(|only| only.serve.serve)
    }

    /// The names of the flags.
    #[cfg(test)]
    pub(crate) fn flag_names() -> Vec<String> {
        use clap::CommandFactory;
        let command = ServeOnly::command();
        command.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect()
    }

    /// Starts to log as the flags say.
    pub(crate) fn start_logging(&self) {
        logging::init(self.verbosity, self.logging_format);
    }

    fn engine(&self) -> Result<Engine, String> {
        let names_etcd = self.etcd.names_servers() || self.etcd.names_overrides();
        match self.storage_backend {
            Some(StorageBackend::Etcd3) => Ok(Engine::Etcd(self.etcd.config()?)),
            None if names_etcd => Ok(Engine::Etcd(self.etcd.config()?)),
            Some(_) if self.etcd.names_servers() => Err("--etcd-servers needs --storage-backend etcd3".to_owned()),
            Some(_) if names_etcd => Err("--etcd-servers-overrides needs --storage-backend etcd3".to_owned()),
            None | Some(StorageBackend::Embedded) => Ok(Engine::Embedded),
            Some(StorageBackend::Memory) => Ok(Engine::Memory),
        }
    }

    /// The etcd with these servers and with the other options from the flags.
    ///
    /// # Errors
    /// No server is named, or a flag is invalid.
    pub(crate) fn etcd_of(&self, servers: Vec<String>) -> Result<EtcdConfig, String> {
        self.etcd.config_of(servers)
    }

    fn gates(&self, version: EffectiveVersion) -> Result<Gates, CommandError> {
        let mut flag = FeatureGatesFlag::default();
        self.feature_gates.iter().for_each(|value| flag.add(value));
        let (gates, warnings) = flag.gates(version)?;
        for warning in warnings {
            tracing::warn!(target: "pintle::start", feature_gate = warning.gate.name, value = warning.value, "{warning}");
        }
        for gate in gates.unsupported_overrides() {
            tracing::warn!(target: "pintle::start", feature_gate = gate.name, "Feature gate has no effect in this server");
        }
        Ok(gates)
    }

    /// The server that the flags describe. Raises the limit of open files.
    ///
    /// # Errors
    /// A flag contradicts another, or a file that it names cannot be read.
    pub(crate) fn options(self) -> Result<Options, CommandError> {
        let max_connections = max_connections(raise_open_file_limit());
        let tokens = match &self.authentication.token_auth_file {
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?),
            None => None,
        };
        let (engine, gates) = (self.engine()?, self.gates(self.version.effective_version()?)?);
        let egress = self.egress_selector_config_file.as_deref().map(read_egress_selector).transpose()?;
        let egress = egress.unwrap_or_default();
        let runtime_config = RuntimeConfig::from_flags(gates.version().binary(), &self.runtime_config);
        let runtime_config = runtime_config.map_err(|why| format!("--runtime-config: {why}"))?;
        let runtime_config = self.version.runtime_config(runtime_config);
        if self.accept_data_loss_after.is_some() && engine != Engine::Embedded {
            return Err("--accept-data-loss-after needs --storage-backend embedded".into());
        }
        let memory_limit = memory_limit(self.memory_limit_mib)?;
        let (authorization_modes, authorization) = self.authorization.options()?;
        let audit = self.audit.options()?;
        let (encryption, mut store_encryption) = (self.encryption.options()?, self.store_encryption.options()?);
        if encryption.config_file.is_some() || store_encryption.is_some() {
            forbid_core_files();
        }
        let from = match &self.from {
            // The flags name the keys of the store with the objects.
            Some(data_dir) => Some(read_snapshot(data_dir, &encryption, store_encryption.take().as_ref())?),
            None => None,
        };
        let access = AccessOptions {
            tokens,
            bootstrap_tokens: self.authentication.enable_bootstrap_token_auth,
            authentication: self.authentication.options(),
            request_headers: self.authentication.request_headers(&gates)?,
            authorization_modes,
            authorization,
        };
        Ok(Options {
            data_dir: Some(self.data_dir.clone()),
            engine,
            accepted_loss: self.accept_data_loss_after.map(Revision),
            from,
            accept_key_change: self.accept_key_change,
            accept_clock: self.accept_clock,
            bind_address: self.bind_address,
            port: self.secure_port,
            advertise_address: self.advertise_address,
            register: true,
            reconcile_endpoints: self.endpoint_reconciler_type == EndpointReconciler::Lease,
            kubeconfig: self.kubeconfig,
            rbac_bootstrap: None,
            access,
            service_accounts: self.service_accounts.options(),
            runtime_config,
            services: self.services.network()?,
            history: HistoryLimits { bytes: self.watch_window_mib << 20, ..HistoryLimits::default() },
            encoding_cache: self.encoding_cache_mib << 20,
            memory: memory_limit.map(|limit| MemoryBudget { limit, usage: Arc::new(ResidentMemory) }),
            storage_metrics: self.etcd.storage_metrics(),
            min_request_timeout: Duration::from_secs(self.min_request_timeout.into()),
            limits: self.flow_control.set(RequestLimits {
                request_timeout: self.request_timeout,
                max_body_bytes_in_flight: RequestLimits::body_bytes_in_flight(memory_limit),
                ..RequestLimits::default()
            })?,
            listener: ListenerOptions {
                max_streams: match self.http2_max_streams_per_connection {
                    0 => ListenerOptions::default().max_streams,
                    streams => streams,
                },
                goaway_chance: self.goaway_chance,
                max_connections,
                ..ListenerOptions::default()
            },
            shutdown_delay: self.shutdown_delay_duration,
            admission: self.admission.configuration()?,
            audit,
            encryption,
            store_encryption,
            tls: TlsOptions {
                certificate: self
                    .tls_cert_file
                    .zip(self.tls_private_key_file)
                    .map(|(certificate, key)| CertificateFiles { certificate, key }),
                names: certificate_names(StringSlice::concat(&self.tls_san))?,
                named_certificates: self.tls_sni_cert_key,
                client_ca: self.authentication.client_ca_file,
                request_header_ca: self.authentication.requestheader_client_ca_file,
                protocols: TlsProtocols::parse(&self.tls_min_version, &StringSlice::concat(&self.tls_cipher_suites))?,
            },
            gates,
            allow_privileged: self.allow_privileged,
            kubelets: self.kubelets.options(),
            egress,
            aggregation: self.aggregation.options(),
            cors_allowed_origins: StringSlice::concat(&self.cors_allowed_origins),
            controllers: self.controllers == Controllers::Auto,
            every_namespace_objects: true,
            resource_quotas: true,
            policy_type_checks: true,
            flow_control: true,
            service_cidr_protection: true,
            api_services: true,
            event_ttl: self.event_ttl,
            request_log: self.log_requests.or_else(|| std::env::var_os(LOG_REQUESTS_VARIABLE).map(PathBuf::from)),
            ..Options::default()
        })
    }
}

/// Reads the file of `--egress-selector-config-file`.
fn read_egress_selector(file: &Path) -> Result<EgressSelector, String> {
    if !file.exists() {
        return Err(format!("egress-selector-config-file {} does not exist", file.display()));
    }
    EgressSelector::read(file)
}

/// The host names and addresses of `--tls-san` in the form that certificates use.
fn certificate_names(names: Vec<String>) -> Result<Vec<String>, String> {
    let normal = |name: &String| {
        let name = name.trim().to_ascii_lowercase();
        let is_name = dns1123_subdomain(name.strip_prefix("*.").unwrap_or(&name)).is_empty();
        match name.parse::<IpAddr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) if is_name => Ok(name),
            Err(_) => Err(format!("--tls-san: {name:?} is neither a host name nor an IP address")),
        }
    };
    names.iter().map(normal).collect()
}

/// The memory limit in bytes, for a value of `--memory-limit-mib`. A part of the control group's limit is reserved for
/// memory that is not measured, such as kernel memory, and for allocations between two measurements.
///
/// # Errors
/// A limit is given, and memory cannot be measured.
fn memory_limit(flag: Option<u64>) -> Result<Option<u64>, String> {
    let limit = match flag {
        Some(0) => None,
        Some(mib) => Some(mib.saturating_mul(1 << 20)),
        None => cgroup::memory_limit().map(|limit| limit / 10 * 9),
    };
    match (limit, ResidentMemory.used_bytes()) {
        (Some(_), Err(error)) if flag.is_some() => Err(format!("--memory-limit-mib: {error}")),
        (Some(_), Err(error)) => {
            tracing::warn!(%error, "Memory cannot be measured, so the limit of the control group is not observed");
            Ok(None)
        }
        (limit, _) => Ok(limit),
    }
}

/// Runs a server until SIGTERM or SIGINT, and calls a function when it is ready. With an audit log in a file, SIGHUP opens
/// the file again; otherwise it ends the program, as it ends upstream's.
///
/// # Errors
/// The server cannot start, or its store cannot be closed cleanly.
pub(crate) fn run_until_signal(
    options: Options,
    announce: impl FnOnce(&Server) -> std::io::Result<()>,
) -> Result<(), CommandError> {
    // The server has threads of its own; this one waits for signals.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let shutdown_delay = options.shutdown_delay;
        let max_stop_time = shutdown_delay + MAX_STOP_TIME;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let has_audit_file = !matches!(&*options.audit.log.path, "" | "-");
        let mut hangup = has_audit_file.then(|| signal(SignalKind::hangup())).transpose()?;
        let server = Server::start(options).await?;
        announce(&server)?;
        let signal = loop {
            tokio::select! {
                _ = terminate.recv() => break "SIGTERM",
                _ = interrupt.recv() => break "SIGINT",
                () = received(hangup.as_mut()) => {
                    tracing::info!("Received SIGHUP, opening the audit log again");
                    server.reopen_audit_log();
                }
            }
        };
        let begun = Instant::now();
        tracing::info!(target: "pintle::stop", signal, ?shutdown_delay, "Received a signal, stopping");
        let why = tokio::select! {
            stopped = server.stop() => {
                stopped?;
                tracing::info!(target: "pintle::stop", took = ?begun.elapsed(), "Stopped");
                return Ok(());
            }
            // As upstream's programs do, this program ends at once at the second signal.
            _ = terminate.recv() => "a second signal was received",
            _ = interrupt.recv() => "a second signal was received",
            () = tokio::time::sleep(max_stop_time) => "it took too long, check the disk",
        };
        tracing::error!(why, "Ending without a clean stop");
        // Nothing is dropped: a drop would wait for a commit that does not return. Acknowledged changes are in the
        // store's files. They are synced, unless the store is configured not to sync.
        std::process::exit(1)
    })
}

/// Waits for a signal, forever if there is none to wait for.
async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Reads the snapshot of `--from`.
fn read_snapshot(
    data_dir: &Path,
    encryption: &EncryptionOptions,
    store_encryption: Option<&StoreEncryptionOptions>,
) -> Result<Arc<Snapshot>, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let snapshot = runtime.block_on(Snapshot::read_encrypted(data_dir, encryption, store_encryption));
    Ok(Arc::new(snapshot.map_err(|error| format!("--from: {error}"))?))
}

/// Prints where the server listens and how to connect to it.
fn print_banner(server: &Server, minor: Minor, engine: &Engine, data_dir: &Path) -> std::io::Result<()> {
    let store = match engine {
        Engine::Embedded => format!("embedded, in {}", data_dir.display()),
        Engine::EmbeddedIn(folder) => format!("embedded, in {}", folder.path.display()),
        Engine::Etcd(etcd) => format!("etcd, at {}", etcd.servers.join(",")),
        Engine::Memory => "memory (lost when the server stops)".to_owned(),
    };
    let path = server.kubeconfig_path.as_deref().unwrap_or(data_dir).display();
    let mut out = std::io::stdout();
    writeln!(out, "pintle {} (Kubernetes API v{})", env!("CARGO_PKG_VERSION"), minor)?;
    writeln!(out, "store:      {store}")?;
    writeln!(out, "url:        {}", server.url)?;
    if let Some(url) = &server.advertised_url {
        writeln!(out, "advertised: {url}")?;
    }
    writeln!(out, "ready in:   {:.1} ms", server.start_time.as_secs_f64() * 1000.0)?;
    writeln!(out, "kubeconfig: {path}")?;
    writeln!(out, "try:        kubectl --kubeconfig {path} get namespaces")?;
    out.flush()
}
