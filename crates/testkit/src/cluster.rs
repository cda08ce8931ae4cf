//! A cluster as tests see it: where it is, how to ask it, and its server's comings and goings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pintle::certificates::Certificates;
use pintle::{Engine, Options};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::client::{Client, Protocol, RequestBuilder, Response, Watch};
use crate::instance::Instance;
use crate::port::Port;

/// A connection to a server.
pub type Socket = tokio_rustls::client::TlsStream<TcpStream>;

/// A running cluster and an administrator's connection to it.
pub struct Cluster {
    instance: Mutex<Option<Instance>>,
    client: Client,
    url: String,
    kubeconfig: String,
    certificates: Certificates,
    options: Options,
    port: Option<Port>,
    folder: Option<tempfile::TempDir>,
}

impl Cluster {
    /// A cluster in memory.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start() -> Self {
        Self::with_options(Options::default()).await
    }

    /// A cluster that keeps its objects in a temporary folder, so that it can be restarted.
    ///
    /// # Panics
    /// It does not start.
    pub async fn durable() -> Self {
        Self::durable_with_options(Options::default()).await
    }

    /// A durable cluster with options of its own, of which folder, engine and port are set here. It keeps its port, so
    /// that clients find it again.
    ///
    /// # Panics
    /// It does not start.
    pub async fn durable_with_options(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = Port::take();
        let options = Options {
            data_dir: Some(folder.path().to_owned()),
            engine: Engine::Embedded,
            port: port.number,
            ..options
        };
        let instance = Instance::start_apart(options.clone()).await;
        Self { port: Some(port), folder: Some(folder), ..Self::of(instance, options) }
    }

    /// A cluster with static tokens, as `--token-auth-file` takes them.
    ///
    /// # Panics
    /// It does not start.
    pub async fn with_tokens(tokens: &str) -> Self {
        Self::with_options(Options { tokens: Some(tokens.to_owned()), ..Options::default() }).await
    }

    /// A cluster with options of its own, such as a small window.
    ///
    /// # Panics
    /// It does not start.
    pub async fn with_options(options: Options) -> Self {
        Self::of(Instance::start(options.clone()).await, options)
    }

    fn of(instance: Instance, options: Options) -> Self {
        let server = instance.server.as_ref().expect("a running server");
        let (url, kubeconfig) = (server.url.clone(), server.kubeconfig.clone());
        let certificates = server.certificates.clone();
        Self {
            client: Client::new(&url, &certificates, Protocol::Any),
            instance: Mutex::new(Some(instance)),
            url,
            kubeconfig,
            certificates,
            options,
            port: None,
            folder: None,
        }
    }

    /// Stops a durable cluster and starts it again from its folder. Connections are new ones.
    ///
    /// # Panics
    /// It keeps nothing, or does not stop or start.
    pub async fn restart(mut self) -> Self {
        self.stop_server().await;
        self.start_server().await;
        self.client = self.client(Protocol::Any);
        self
    }

    /// Stops the server of a durable cluster as it should be stopped; clients are refused until it starts again.
    ///
    /// # Panics
    /// It does not run, or does not stop cleanly.
    pub async fn stop_server(&self) {
        self.instance.lock().await.take().expect("a running server").stop().await;
    }

    /// Ends the server of a durable cluster as a kill would.
    ///
    /// # Panics
    /// It does not run.
    pub async fn kill_server(&self) {
        self.instance.lock().await.take().expect("a running server").kill().await;
    }

    /// Starts the server of a durable cluster again, at the same port.
    ///
    /// # Panics
    /// It keeps nothing, runs, or does not start.
    pub async fn start_server(&self) {
        assert!(self.port.is_some(), "only a durable cluster can be started again");
        let mut instance = self.instance.lock().await;
        assert!(instance.is_none(), "the server runs");
        *instance = Some(Instance::start_apart(self.options.clone()).await);
    }

    /// The same objects at another port, where the clients of this cluster are not, while its server is stopped.
    ///
    /// # Panics
    /// The cluster keeps nothing, its server runs, or there is no start.
    pub async fn start_on_another_port(&self) -> Self {
        assert!(self.port.is_some(), "only a durable cluster can be started elsewhere");
        Self::with_options(Options { port: 0, ..self.options.clone() }).await
    }

    /// Stops the cluster.
    ///
    /// # Panics
    /// It does not stop cleanly.
    pub async fn stop(self) {
        if let Some(instance) = self.instance.lock().await.take() {
            instance.stop().await;
        }
    }

    /// The base of all URLs.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The kubeconfig as a file, for real clients.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn kubeconfig_file(&mut self) -> PathBuf {
        let folder = self.folder.get_or_insert_with(|| tempfile::tempdir().expect("a temporary folder"));
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, &self.kubeconfig).expect("the kubeconfig can be written");
        path
    }

    /// Where a durable cluster keeps its objects.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.options.data_dir.as_deref()
    }

    /// Connections that are shared with nobody else.
    #[must_use]
    pub fn client(&self, protocol: Protocol) -> Client {
        Client::new(&self.url, &self.certificates, protocol)
    }

    /// A connection to the server with the administrator's certificate, on which nothing has been said yet, for clients
    /// of HTTP/1.1 that are not ours.
    ///
    /// # Panics
    /// The server does not listen.
    pub async fn connect(&self) -> Socket {
        let config = Arc::new(crate::client::tls(&self.certificates, true));
        let address = self.url.trim_start_matches("https://");
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(config).connect(name, stream).await.expect("the server shakes hands")
    }

    /// Writes a value into the store behind the server's back, and says at which revision.
    ///
    /// # Panics
    /// There is no server, or its store fails.
    pub async fn write_to_store(&self, key: &str, value: impl Into<Bytes>) -> u64 {
        let instance = self.instance.lock().await;
        let server = instance.as_ref().and_then(|instance| instance.server.as_ref()).expect("a server");
        let change = pintle_store::Change::put(key, value);
        server.store().commit(change).await.expect("the store takes it").revision.get()
    }

    /// Asks anything.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder<'_> {
        self.client.request(method, path)
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Response {
        self.request("GET", path).send().await
    }

    /// Posts JSON to a path.
    pub async fn post(&self, path: &str, body: impl Into<String>) -> Response {
        self.request("POST", path).json(body).send().await
    }

    /// Puts JSON to a path.
    pub async fn put(&self, path: &str, body: impl Into<String>) -> Response {
        self.request("PUT", path).json(body).send().await
    }

    /// Deletes a path.
    pub async fn delete(&self, path: &str) -> Response {
        self.request("DELETE", path).send().await
    }

    /// Patches a path: `kind` is `json`, `merge` or `strategic-merge`.
    pub async fn patch(&self, path: &str, kind: &str, body: impl Into<String>) -> Response {
        let media_type = format!("application/{kind}-patch+json");
        self.request("PATCH", path).body(&media_type, body.into()).send().await
    }

    /// Watches a path.
    ///
    /// # Panics
    /// The watch is refused.
    pub async fn watch(&self, path: &str) -> Watch {
        self.request("GET", path).watch().await
    }
}
