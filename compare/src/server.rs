//! The two servers: Pintle in this process, and the Go API server (`tools/apiserver`) as a child process. Servers for
//! the sequences with other API servers behind both have the aggregation layer.

use std::path::PathBuf;
use std::process::Stdio;

use pintle_gates::{Feature, Gates};
use pintle_integration::{
    AccessOptions, AuditOptions, Client, Cluster, Options, Protocol, RequestBuilder, ServiceNetwork, generic_admission,
    tool_path,
};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::aggregation::{self, SERVICE_RANGE};
use crate::audit::{self, AuditLog};
use crate::sequence::Request;

/// The bearer token of an administrator of both servers.
pub(crate) const TOKEN: &str = "bench";

/// The Go API server and its etcd. Both end when this value is dropped.
struct GoServer {
    url: String,
    audit_log: AuditLog,
    authority: Vec<u8>,
    client: Client,
    /// The server ends when its standard input is closed.
    _child: Child,
    _folder: tempfile::TempDir,
}

impl GoServer {
    async fn start(cbor: bool, aggregates: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flags = if aggregates { aggregation_flags(&folder) } else { Vec::new() };
        let audit_log = AuditLog::new(folder.path());
        let mut child = Command::new(tool_path("apiserver"))
            .arg("--data-dir")
            .arg(folder.path())
            .arg("--fsync=false")
            .arg(format!("--feature-gates={}={cbor}", Feature::CBOR.name()))
            .arg(format!("--audit-policy-file={}", policy_file(&folder).display()))
            .arg(format!("--audit-log-path={}", audit_log.path().display()))
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("log")).expect("a log file"))
            .kill_on_drop(true)
            .spawn()
            .expect("the Go API server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a standard output")).lines();
        let line = lines.next_line().await.expect("a line");
        let Some(line) = line else {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            panic!("the Go API server did not start: {log}");
        };
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        let url = ready["url"].as_str().expect("a URL");
        let authority = std::fs::read(folder.path().join("server.crt")).expect("a certificate");
        let client = Client::trusting(url, &authority, Protocol::Any);
        Self { url: url.to_owned(), audit_log, authority, client, _child: child, _folder: folder }
    }
}

/// Writes the audit policy.
fn policy_file(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("audit-policy.yaml");
    std::fs::write(&path, audit::POLICY).expect("a file");
    path
}

/// The flags that turn the aggregation layer on. The API servers accept any client certificate.
fn aggregation_flags(folder: &tempfile::TempDir) -> Vec<String> {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["front-proxy-client".to_owned()]).expect("a name");
    let certificate = parameters.self_signed(&key).expect("a certificate").pem();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (certificate, key) = (write("proxy.crt", certificate), write("proxy.key", key.serialize_pem()));
    vec![
        format!("--proxy-client-cert-file={certificate}"),
        format!("--proxy-client-key-file={key}"),
        format!("--requestheader-client-ca-file={certificate}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ]
}

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This project's server.
    Pintle,
    /// The Go API server.
    Go,
}

/// Both servers, ready for requests.
pub(crate) struct Servers {
    pintle: Cluster,
    audit_log: AuditLog,
    go: GoServer,
    /// The folder of Pintle's audit log.
    _folder: tempfile::TempDir,
    /// The clients for the sequences with other API servers, if there are any.
    clients: Option<SameClients>,
}

/// Clients that use the same version of HTTP for both servers.
struct SameClients {
    pintle: [Client; 2],
    go: [Client; 2],
}

impl SameClients {
    fn new(pintle: &Cluster, go: &GoServer) -> Self {
        const PROTOCOLS: [Protocol; 2] = [Protocol::Http1, Protocol::Any];
        let authority = pintle.authority();
        Self {
            pintle: PROTOCOLS.map(|protocol| Client::trusting(pintle.url(), authority.as_bytes(), protocol)),
            go: PROTOCOLS.map(|protocol| Client::trusting(&go.url, &go.authority, protocol)),
        }
    }

    fn client(&self, side: Side, over_http2: bool) -> &Client {
        let clients = match side {
            Side::Pintle => &self.pintle,
            Side::Go => &self.go,
        };
        &clients[usize::from(over_http2)]
    }
}

impl Servers {
    /// Starts both servers with empty stores.
    ///
    /// # Panics
    /// Panics if a server does not start.
    pub(crate) async fn start(cbor: bool) -> Self {
        Self::start_with(cbor, false).await
    }

    /// Starts both servers with the same API servers behind them.
    ///
    /// # Panics
    /// Panics if a server does not start.
    pub(crate) async fn start_aggregating(cbor: bool) -> Self {
        let servers = Self::start_with(cbor, true).await;
        aggregation::register(&servers).await;
        servers
    }

    async fn start_with(cbor: bool, aggregates: bool) -> Self {
        let tokens = format!("{TOKEN},admin,1,\"system:masters\"\n");
        let settings = [(Feature::CBOR.name().to_owned(), cbor)].into();
        let (gates, _) = Gates::with_overrides(&settings).expect("a feature gate that can be set");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let audit_log = AuditLog::new(folder.path());
        let mut audit =
            AuditOptions { policy_file: policy_file(&folder).display().to_string(), ..AuditOptions::default() };
        audit.log.path = audit_log.path().display().to_string();
        let mut options = Options {
            access: AccessOptions { tokens: Some(tokens), ..AccessOptions::default() },
            gates,
            admission: generic_admission(),
            audit,
            api_services: aggregates,
            ..Options::default()
        };
        if aggregates {
            options.services = ServiceNetwork::from_flags(SERVICE_RANGE, "").expect("a range");
        }
        let (pintle, go) = tokio::join!(Cluster::with_options(options), GoServer::start(cbor, aggregates));
        let clients = aggregates.then(|| SameClients::new(&pintle, &go));
        Self { pintle, audit_log, go, clients, _folder: folder }
    }

    /// True if other API servers are behind both servers.
    pub(crate) fn aggregate(&self) -> bool {
        self.clients.is_some()
    }

    /// The audit log of a server.
    pub(crate) fn audit_log(&self, side: Side) -> &AuditLog {
        match side {
            Side::Pintle => &self.audit_log,
            Side::Go => &self.go.audit_log,
        }
    }

    /// A request with the credentials of an administrator unless it has its own, but without the headers and the body.
    pub(crate) fn request(&self, side: Side, request: &Request) -> RequestBuilder<'_> {
        let Request { method, path, .. } = request;
        let builder = match (&self.clients, side) {
            (Some(clients), side) => clients.client(side, request.over_http2).request(method, path),
            (None, Side::Pintle) => self.pintle.request(method, path).anonymous(),
            (None, Side::Go) => self.go.client.request(method, path),
        };
        let has_credentials = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if has_credentials { builder } else { builder.header("authorization", &format!("Bearer {TOKEN}")) }
    }

    /// Stops both servers.
    pub(crate) async fn stop(self) {
        self.pintle.stop().await;
    }
}
