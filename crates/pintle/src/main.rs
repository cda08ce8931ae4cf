//! The `pintle` binary: reads the command line, runs a server until it is told to stop.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use pintle::{Engine, Options, Server};
use pintle_cache::HistoryLimits;
use pintle_gates::FeatureGatesFlag;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Deeply nested objects are walked recursively; the nesting that is allowed (10,000) fits this stack.
const WORKER_STACK: usize = 64 << 20;

/// A Kubernetes API server in one binary.
#[derive(Parser)]
#[command(version, about, after_help = "Without a command, pintle serves with the defaults of 'pintle serve'.")]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the Kubernetes API.
    Serve(Serve),
}

#[derive(Clone, Copy, ValueEnum)]
enum Storage {
    /// One durable file in the data folder.
    Embedded,
    /// Nothing is kept when the server stops.
    Memory,
}

#[derive(clap::Args)]
struct Serve {
    /// Where objects, certificates and the kubeconfig are kept.
    #[arg(long, value_name = "DIR", default_value = "pintle-data")]
    data_dir: PathBuf,
    /// Where objects are stored.
    #[arg(long, value_enum, default_value = "embedded")]
    storage: Storage,
    /// The address to listen at.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port to listen at; 0 takes any that is free.
    #[arg(long, value_name = "N", default_value_t = 6443)]
    secure_port: u16,
    /// The address that clients in the cluster are told to reach the server at [default: the one to listen at, or that of
    /// the host].
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// Whether the endpoints of the service kubernetes lead to the server.
    #[arg(long, value_enum, default_value = "lease")]
    endpoint_reconciler_type: EndpointReconciler,
    /// Where to write the administrator's kubeconfig [default: DIR/admin.kubeconfig].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A file of static tokens, in CSV: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// How many MiB of history, of the last five minutes at most, are kept for watches and consistent lists, in memory
    /// and on disk.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    watch_window_mib: usize,
    /// Up to how many MiB the Protobuf of objects is kept that is asked for often.
    #[arg(long, value_name = "MIB", default_value_t = pintle::ENCODING_CACHE_MIB)]
    encoding_cache_mib: usize,
    /// How many seconds a watch lasts at least that has no timeout of its own; it ends at random before twice that.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    min_request_timeout: u32,
    /// Features to turn on or off, as NAME=true|false; separated by commas, or the flag more than once.
    #[arg(long, value_name = "[kube:]NAME=BOOL,...", long_help = feature_gates_help())]
    feature_gates: Vec<String>,
    /// Origins whose scripts browsers may let in, as regular expressions, separated by commas. Each has to say where the
    /// host starts, with '^' or '//', and where it ends, with '$' or ':', such as '//example\.com(:|$)'.
    #[arg(long, value_name = "REGEX,...", value_delimiter = ',')]
    cors_allowed_origins: Vec<String>,
    /// Whether to do what the API promises by itself: while no controller manager holds its lease, or never.
    #[arg(long, value_enum, default_value = "auto")]
    controllers: Controllers,
    /// How long events are kept, in hours, minutes and seconds.
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = event_ttl)]
    event_ttl: Duration,
}

/// A time as Go writes it, in whole seconds.
fn event_ttl(text: &str) -> Result<Duration, String> {
    let pintle_value::time::Duration(nanoseconds) =
        pintle_value::time::Duration::parse(text).map_err(|error| error.to_string())?;
    Ok(Duration::from_secs(u64::try_from(nanoseconds / 1_000_000_000).map_err(|_| "it is negative".to_owned())?))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Controllers {
    /// As long as no controller manager renews the lease kube-system/kube-controller-manager.
    Auto,
    /// Never.
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EndpointReconciler {
    /// While the server is there.
    Lease,
    /// Never.
    None,
}

fn feature_gates_help() -> String {
    let about = "Features to turn on or off, as NAME=true|false; separated by commas, or the flag more than once. \
                 A name may follow 'kube:'. AllAlpha and AllBeta stand for all of a stage that are not named.\n\
                 Options are:";
    pintle_gates::help_lines().fold(about.to_owned(), |text, line| text + "\n" + &line)
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("PINTLE_LOG").unwrap_or_else(|_| EnvFilter::new("warn,pintle::start=info"));
    tracing_subscriber::fmt().json().with_writer(std::io::stderr).with_env_filter(filter).init();
    allow_connections();
    let serve = match CommandLine::parse().command {
        Some(Command::Serve(serve)) => serve,
        None => Serve::parse_from_defaults(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(WORKER_STACK)
        .thread_name("pintle")
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    runtime.block_on(async {
        match runtime.spawn(run(serve)).await {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error)) => fail(&*error),
            Err(error) => fail(&error),
        }
    })
}

/// Lets the process have as many connections open as the system permits, not the few that programs get at first: watches
/// come by the thousand. Programs in Go do this on their own.
fn allow_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the number of connections stays limited");
        }
    }
}

impl Serve {
    fn parse_from_defaults() -> Self {
        /// The flags of `serve` alone.
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            serve: Serve,
        }
        Alone::parse_from(["pintle"]).serve
    }
}

/// Says on standard error why the server does not run.
fn fail(error: &(impl std::fmt::Display + ?Sized)) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "pintle: {error}");
    ExitCode::FAILURE
}

async fn run(serve: Serve) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let tokens = match &serve.token_auth_file {
        Some(path) => Some(std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => None,
    };
    let mut flag = FeatureGatesFlag::default();
    serve.feature_gates.iter().for_each(|value| flag.add(value));
    let (gates, warnings) = flag.gates()?;
    for warning in warnings {
        tracing::warn!(target: "pintle::start", feature_gate = warning.gate.name, value = warning.value, "{warning}");
    }
    for gate in gates.unsupported_overrides() {
        tracing::warn!(target: "pintle::start", feature_gate = gate.name, "nothing here depends on this feature gate");
    }
    let engine = match serve.storage {
        Storage::Embedded => Engine::Embedded,
        Storage::Memory => Engine::Memory,
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::start(Options {
        data_dir: Some(serve.data_dir.clone()),
        engine,
        bind_address: serve.bind_address,
        port: serve.secure_port,
        advertise_address: serve.advertise_address,
        announces: true,
        endpoints: serve.endpoint_reconciler_type == EndpointReconciler::Lease,
        kubeconfig: serve.kubeconfig,
        tokens,
        window: HistoryLimits { bytes: serve.watch_window_mib << 20, ..HistoryLimits::default() },
        encoding_cache: serve.encoding_cache_mib << 20,
        min_request_timeout: Duration::from_secs(serve.min_request_timeout.into()),
        gates,
        cors_allowed_origins: serve.cors_allowed_origins,
        controllers: serve.controllers == Controllers::Auto,
        fixtures: true,
        event_ttl: serve.event_ttl,
        ..Options::default()
    })
    .await?;
    greet(&server, engine, &serve.data_dir)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.stop().await?;
    Ok(())
}

/// What a person wants to know once the server is ready.
fn greet(server: &Server, engine: Engine, data_dir: &std::path::Path) -> std::io::Result<()> {
    let store = match engine {
        Engine::Embedded => format!("embedded, in {}", data_dir.display()),
        Engine::Memory => "memory (nothing is kept)".to_owned(),
    };
    let path = server.kubeconfig_path.as_deref().unwrap_or(data_dir).display();
    let mut out = std::io::stdout();
    writeln!(out, "pintle {} (Kubernetes API v1.36)", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "store:      {store}")?;
    writeln!(out, "url:        {}", server.url)?;
    writeln!(out, "ready in:   {:.1} ms", server.start_time.as_secs_f64() * 1000.0)?;
    writeln!(out, "kubeconfig: {path}")?;
    writeln!(out, "try:        kubectl --kubeconfig {path} get namespaces")?;
    out.flush()
}
