//! The program `etcd` of a test environment. It stores nothing itself. It tells the API server the directory of the
//! embedded store, answers health checks, and runs as long as etcd would.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use pintle_value::{Value, object};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use super::flags::{FlagTable, FlagValues};

/// The path under which the API server finds the store.
pub(super) const STORE_PATH: &str = "/pintle/store";
/// The version of etcd in the responses.
const VERSION: &str = "3.6.5";
/// The directory of the store within the data directory, where etcd has its own.
const MEMBER: &str = "member";

/// Runs the program with the arguments after its name.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let table = table();
    let flags = match table.parse(super::ETCD, arguments.map(with_two_dashes)) {
        Ok(flags) => flags,
        Err(error) => return fail(&error),
    };
    let printed = if flags.is_set("help") {
        format!("Usage:\n\n  etcd [flags]\n    Run the stand-in for etcd of pintle envtest.\n{}", table.help())
    } else if flags.is_set("version") {
        format!("etcd Version: {VERSION}\nGit SHA: pintle-{}\n", env!("CARGO_PKG_VERSION"))
    } else {
        return match serve(&flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        };
    };
    match std::io::stdout().write_all(printed.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Adds a second dash to a flag with one dash. etcd accepts both, as all programs that use Go's package `flag` do.
fn with_two_dashes(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => format!("-{text}").into(),
        _ => argument,
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "etcd: {error}");
    ExitCode::FAILURE
}

fn table() -> FlagTable {
    FlagTable::from_tsv(include_str!("etcd-flags.tsv"), pintle_versions::Minor::DEFAULT)
}

/// Answers requests until SIGTERM or SIGINT.
fn serve(flags: &FlagValues) -> Result<(), String> {
    let responses = Responses::new(&store_dir(flags)?, flags.is_set("unsafe-no-fsync"));
    let mut urls = flags.list("listen-client-urls");
    if urls.is_empty() {
        urls.push("http://localhost:2379".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let signals = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
        let (mut terminate, mut interrupt) = signals.map_err(|error| error.to_string())?;
        for url in urls {
            let listener = listen(&url).await?;
            tokio::spawn(accept(listener, responses.clone()));
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// Creates the directory of the store, and returns its absolute path.
fn store_dir(flags: &FlagValues) -> Result<PathBuf, String> {
    let data_dir = flags.value("data-dir").filter(|dir| !dir.is_empty()).unwrap_or("default.etcd");
    let path = Path::new(data_dir).join(MEMBER);
    let mut builder = std::fs::DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(&path).and_then(|()| std::path::absolute(&path));
    created.map_err(|error| format!("cannot create the data directory {}: {error}", path.display()))
}

async fn listen(url: &str) -> Result<TcpListener, String> {
    let Some(address) = url.strip_prefix("http://") else {
        return Err(format!("--listen-client-urls={url}: the stand-in for etcd serves HTTP only"));
    };
    let address = address.trim_end_matches('/');
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("--listen-client-urls={url}: listen tcp {address}: {error}"))
}

async fn accept(listener: TcpListener, responses: Responses) {
    loop {
        // An error concerns only this connection, or the process has no free file descriptors at the moment.
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_connection(stream, responses.clone()))),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, responses: Responses) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = responses.response(request.uri().path(), request.headers().get(CONTENT_TYPE));
        async move { Ok::<_, Infallible>(response) }
    });
    // A client that breaks its connection does not affect other clients.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// The responses of the program.
#[derive(Clone)]
struct Responses {
    version: Bytes,
    store: Bytes,
}

impl Responses {
    fn new(dir: &Path, unsynced: bool) -> Self {
        let version = object! { "etcdserver": VERSION, "etcdcluster": "3.6.0", "storage": "3.6.0" };
        let store = object! { "directory": dir.display().to_string(), "unsynced": unsynced };
        let json = |value: Value| Bytes::from(pintle_codec::json::encode(&value));
        Self { version: json(version), store: json(store) }
    }

    fn response(&self, path: &str, content_type: Option<&HeaderValue>) -> Response<Full<Bytes>> {
        let body = match path {
            "/health" => Bytes::from_static(b"{\"health\":\"true\",\"reason\":\"\"}"),
            "/livez" | "/readyz" => Bytes::from_static(b"ok\n"),
            "/version" => self.version.clone(),
            STORE_PATH => self.store.clone(),
            _ => return unsupported(content_type),
        };
        Response::new(Full::new(body))
    }
}

/// The answer to requests of etcd's own protocol.
fn unsupported(content_type: Option<&HeaderValue>) -> Response<Full<Bytes>> {
    const TEXT: &str = "this is pintle's stand-in for etcd, which serves pintle's kube-apiserver only";
    let is_grpc = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let mut response = Response::new(Full::new(Bytes::from_static(if is_grpc { b"" } else { TEXT.as_bytes() })));
    if is_grpc {
        // Errors of gRPC have status 200. 12 is UNIMPLEMENTED.
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static("12"));
        headers.insert("grpc-message", HeaderValue::from_static(TEXT));
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flags_of_etcd_are_known() {
        let text = include_str!("etcd-flags.tsv");
        assert_eq!(table().len(), text.lines().filter(|line| !line.starts_with('#')).count());
        let parse = |flag: &str| {
            let parsed = table().parse("etcd", [OsString::from(flag)].map(with_two_dashes));
            parsed.map(|flags| flags.ignored.len()).map_err(|error| error.to_string())
        };
        for (flag, expect) in [
            ("--peer-crl-file=f", Ok(1)),
            ("-experimental-compaction-batch-limit=0x10", Ok(1)),
            ("--enable-grpc-gateway", Ok(0)),
            ("-snapshot=yes", Ok(1)),
            ("--config-file=f", Err("--config-file is not supported: only flags are read")),
            ("--client-crl-file=f", Err("--client-crl-file is not supported: the stand-in for etcd serves HTTP only")),
            ("--no-such-flag", Err("unknown flag: --no-such-flag")),
        ] {
            assert_eq!(parse(flag), expect.map_err(str::to_owned), "{flag}");
        }
    }

    #[test]
    fn every_line_of_the_flags_is_read() {
        let lines = include_str!("etcd-flags.tsv").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(table().len(), lines);
    }

    #[test]
    fn flags_may_have_one_dash() {
        let parse = |flag: &str| table().parse("etcd", [with_two_dashes(flag.into())]).unwrap();
        assert_eq!(parse("-data-dir=x"), parse("--data-dir=x"));
        assert!(parse("-version").is_set("version"));
        assert!(parse("-h").is_set("help"));
    }

    #[test]
    fn help_has_the_flag_that_envtest_looks_for() {
        let is_flag = |line: &str| line.trim_start().starts_with("--unsafe-no-fsync ");
        assert!(table().help().lines().any(is_flag));
    }

    #[test]
    fn clients_of_etcd_are_told_what_this_is() {
        let responses = Responses::new(Path::new("/data/member"), true);
        let grpc = responses.response("/etcdserverpb.KV/Range", Some(&HeaderValue::from_static("application/grpc")));
        assert_eq!((grpc.status(), &grpc.headers()["grpc-status"]), (StatusCode::OK, &HeaderValue::from_static("12")));
        assert_eq!(responses.response("/v3/kv/range", None).status(), StatusCode::NOT_FOUND);
        assert_eq!(responses.store, r#"{"directory":"/data/member","unsynced":true}"#);
    }
}
