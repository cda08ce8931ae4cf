//! The two servers: Pintle in this process, and the Go API server (`tools/apiserver`) as a child process.

use std::process::Stdio;

use pintle_gates::{Feature, Gates};
use pintle_integration::{AccessOptions, Client, Cluster, Options, Protocol, generic_admission, tool_path};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The bearer token of an administrator of both servers.
pub(crate) const TOKEN: &str = "bench";

/// The Go API server and its etcd. Both end when this value is dropped.
struct GoServer {
    client: Client,
    /// The server ends when its standard input is closed.
    _child: Child,
    _folder: tempfile::TempDir,
}

impl GoServer {
    async fn start(cbor: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = Command::new(tool_path("apiserver"))
            .arg("--data-dir")
            .arg(folder.path())
            .arg("--fsync=false")
            .arg(format!("--feature-gates={}={cbor}", Feature::CBOR.name()))
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
        Self { client: Client::trusting(url, &authority, Protocol::Any), _child: child, _folder: folder }
    }
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
    go: GoServer,
}

impl Servers {
    /// Starts both servers with empty stores.
    ///
    /// # Panics
    /// Panics if a server does not start.
    pub(crate) async fn start(cbor: bool) -> Self {
        let tokens = format!("{TOKEN},admin,1,\"system:masters\"\n");
        let settings = [(Feature::CBOR.name().to_owned(), cbor)].into();
        let (gates, _) = Gates::with_overrides(&settings).expect("a feature gate that can be set");
        let (pintle, go) = tokio::join!(
            Cluster::with_options(Options {
                access: AccessOptions { tokens: Some(tokens), ..AccessOptions::default() },
                gates,
                admission: generic_admission(),
                ..Options::default()
            }),
            GoServer::start(cbor)
        );
        Self { pintle, go }
    }

    pub(crate) fn request(&self, side: Side, method: &str, path: &str) -> pintle_integration::RequestBuilder<'_> {
        let builder = match side {
            Side::Pintle => self.pintle.request(method, path).anonymous(),
            Side::Go => self.go.client.request(method, path),
        };
        builder.header("authorization", &format!("Bearer {TOKEN}"))
    }

    /// Stops both servers.
    pub(crate) async fn stop(self) {
        self.pintle.stop().await;
    }
}
