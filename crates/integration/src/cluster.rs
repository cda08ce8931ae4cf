//! A cluster for tests: it starts, stops, kills and restarts the server, and sends requests to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pintle::certificates::Certificates;
use pintle::{AccessOptions, Engine, Options, Snapshot};
use pintle_etcd_process::ReservedPort;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::attacks::AttackTarget;
use crate::client::{Client, Protocol, RequestBuilder, Response, Watch};
use crate::instance::{ServerInstance, ServerProcess};

/// A TLS connection to the server.
pub type Socket = tokio_rustls::client::TlsStream<TcpStream>;

/// A cluster with one server, and the administrator's client.
pub struct Cluster {
    /// `None` while the server is stopped.
    instance: Mutex<Option<ServerInstance>>,
    client: Client,
    url: String,
    kubeconfig: String,
    certificates: Certificates,
    options: Options,
    /// The program whose processes are the server. `None` if the server runs within this process.
    program: Option<PathBuf>,
    /// The port of a durable cluster; `None` for other clusters.
    port: Option<ReservedPort>,
    temp_dir: Option<tempfile::TempDir>,
}

impl Cluster {
    /// Starts a cluster that stores its objects in memory.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn start() -> Self {
        Self::with_options(Options::default()).await
    }

    /// Starts a cluster that stores its objects in a temporary folder, so that it can be restarted.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn durable() -> Self {
        Self::durable_with_options(Options::default()).await
    }

    /// Starts a durable cluster with options. The data directory and the port are overwritten, and so is the engine
    /// unless it is etcd. The cluster keeps its port across restarts, so that clients can reconnect.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn durable_with_options(options: Options) -> Self {
        let temp_dir = tempfile::tempdir().expect("a temporary folder");
        let port = ReservedPort::reserve();
        let options = durable_options(&temp_dir, &port, options);
        let instance = ServerInstance::start(None, options.clone()).await;
        Self { port: Some(port), temp_dir: Some(temp_dir), ..Self::from_server(instance, options) }
    }

    /// Starts a durable cluster whose server is a process of the `pintle` binary, with the history size of these
    /// options. The server can be killed, but not stopped.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn of_process(program: &Path, options: Options) -> Self {
        let temp_dir = tempfile::tempdir().expect("a temporary folder");
        let port = ReservedPort::reserve();
        let options = durable_options(&temp_dir, &port, options);
        let instance = ServerInstance::start(Some(program), options.clone()).await;
        let certificates = Certificates::load(temp_dir.path()).expect("certificates");
        let kubeconfig = std::fs::read_to_string(temp_dir.path().join("admin.kubeconfig")).expect("a kubeconfig");
        let url = format!("https://127.0.0.1:{}", port.number);
        Self {
            port: Some(port),
            program: Some(program.to_owned()),
            temp_dir: Some(temp_dir),
            ..Self::from_instance(instance, url, kubeconfig, certificates, options)
        }
    }

    /// Starts a cluster in memory with static tokens, in the format of `--token-auth-file`.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn with_tokens(tokens: &str) -> Self {
        let access = AccessOptions { tokens: Some(tokens.to_owned()), ..AccessOptions::default() };
        Self::with_options(Options { access, ..Options::default() }).await
    }

    /// Starts a cluster with options.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn with_options(options: Options) -> Self {
        Self::from_server(ServerInstance::start(None, options.clone()).await, options)
    }

    fn from_server(instance: ServerInstance, options: Options) -> Self {
        let server = instance.server();
        let (url, kubeconfig) = (server.url.clone(), server.kubeconfig.clone());
        let certificates = server.certificates.clone();
        Self::from_instance(instance, url, kubeconfig, certificates, options)
    }

    fn from_instance(
        instance: ServerInstance,
        url: String,
        kubeconfig: String,
        certificates: Certificates,
        options: Options,
    ) -> Self {
        Self {
            client: Client::new(&url, &certificates, Protocol::Any),
            instance: Mutex::new(Some(instance)),
            url,
            kubeconfig,
            certificates,
            options,
            program: None,
            port: None,
            temp_dir: None,
        }
    }

    /// Stops the server of a durable cluster, starts it again, and opens new connections.
    ///
    /// # Panics
    /// Panics if the cluster is not durable or the server does not stop or start.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    /// Like [`Self::restart`], with changed options.
    ///
    /// # Panics
    /// Panics if the cluster is not durable or the server does not stop or start.
    pub async fn restart_with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        self.stop_server().await;
        change(&mut self.options);
        self.start_server().await;
        self.client = self.client(Protocol::Any);
        self
    }

    /// Stops the server of a durable cluster gracefully. Connections are refused until it starts again.
    ///
    /// # Panics
    /// Panics if the server is not running or does not stop cleanly.
    pub async fn stop_server(&self) {
        self.instance.lock().await.take().expect("a running server").stop().await;
    }

    /// Ends the server of a durable cluster abruptly, like SIGKILL.
    ///
    /// # Panics
    /// Panics if the server is not running.
    pub async fn kill_server(&self) {
        self.instance.lock().await.take().expect("a running server").kill().await;
    }

    /// Starts the server of a durable cluster again, on the same port.
    ///
    /// # Panics
    /// Panics if the cluster is not durable, the server is already running, or it does not start.
    pub async fn start_server(&self) {
        assert!(self.port.is_some(), "only a durable cluster can be restarted");
        let mut instance = self.instance.lock().await;
        assert!(instance.is_none(), "the server is already running");
        *instance = Some(ServerInstance::start(self.program.as_deref(), self.options.clone()).await);
    }

    /// The processor time that the server process ([`Self::of_process`]) has used so far. `None` if the system does not
    /// report it.
    ///
    /// # Panics
    /// Panics if the server is not a running process.
    pub async fn processor_time(&self) -> Option<std::time::Duration> {
        self.instance.lock().await.as_ref().expect("a running server").processor_time()
    }

    /// The ID of the server process ([`Self::of_process`]).
    ///
    /// # Panics
    /// Panics if the server is not a running process.
    pub async fn process_id(&self) -> u32 {
        self.instance.lock().await.as_ref().expect("a running server").process_id()
    }

    /// Starts a server process ([`Self::of_process`]), and kills it after a time, probably during its start.
    ///
    /// # Panics
    /// Panics if the server is not a process, is already running, or cannot be started.
    pub async fn start_and_kill_server(&self, after: std::time::Duration) {
        let instance = self.instance.lock().await;
        assert!(instance.is_none(), "the server is already running");
        let process = ServerProcess::spawn(self.program.as_deref().expect("a process"), &self.options);
        tokio::time::sleep(after).await;
        ServerInstance::Process(process).kill().await;
    }

    /// Starts a server with the same data on another port while this cluster's server is stopped. The clients of this
    /// cluster do not reach the new server.
    ///
    /// # Panics
    /// Panics if the cluster is not durable, its server is running, or the new server does not start.
    pub async fn start_on_another_port(&self) -> Self {
        assert!(self.port.is_some(), "only a durable cluster can be started on another port");
        Self::with_options(Options { port: 0, ..self.options.clone() }).await
    }

    /// Stops the cluster.
    ///
    /// # Panics
    /// Panics if the server does not stop cleanly.
    pub async fn stop(self) {
        if let Some(instance) = self.instance.lock().await.take() {
            instance.stop().await;
        }
    }

    /// The base URL of the server, without a path.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Writes the administrator's kubeconfig to a temporary file for external clients, and returns its path.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn kubeconfig_file(&mut self) -> PathBuf {
        let temp_dir = self.temp_dir.get_or_insert_with(|| tempfile::tempdir().expect("a temporary folder"));
        let path = temp_dir.path().join("kubeconfig");
        std::fs::write(&path, &self.kubeconfig).expect("the kubeconfig can be written");
        path
    }

    /// The data directory of a durable cluster.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.options.data_dir.as_deref()
    }

    /// A new administrator's client with connections of its own.
    #[must_use]
    pub fn client(&self, protocol: Protocol) -> Client {
        Client::new(&self.url, &self.certificates, protocol)
    }

    /// The certificate of the server's own authority, in PEM.
    #[must_use]
    pub fn authority(&self) -> String {
        self.certificates.authority.certificate.clone()
    }

    /// Opens a TLS connection with the administrator's certificate, for tests that write HTTP/1.1 themselves.
    ///
    /// # Panics
    /// Panics if the server does not listen.
    pub async fn connect(&self) -> Socket {
        self.connect_with(true).await
    }

    /// Like [`Cluster::connect`], without a certificate.
    ///
    /// # Panics
    /// Panics if the server does not listen.
    pub async fn connect_anonymously(&self) -> Socket {
        self.connect_with(false).await
    }

    async fn connect_with(&self, admin: bool) -> Socket {
        let config = Arc::new(crate::client::tls_config(&self.certificates, admin));
        let address = self.url.trim_start_matches("https://");
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("a server name");
        TlsConnector::from(config).connect(name, stream).await.expect("the TLS handshake succeeds")
    }

    /// The server as a target of attacks. `list` is the path of a large list, and `object` is the path of a large
    /// object.
    #[must_use]
    pub fn attack_target(&self, list: &str, object: &str) -> AttackTarget {
        let address = self.url.trim_start_matches("https://");
        AttackTarget::new(address, "localhost", crate::client::tls_config(&self.certificates, true), list, object)
    }

    /// Writes a value directly into the server's store, and returns the revision.
    ///
    /// # Panics
    /// Panics if the server is not running or the write fails.
    pub async fn write_to_store(&self, key: &str, value: impl Into<Bytes>) -> u64 {
        let instance = self.instance.lock().await;
        let server = instance.as_ref().expect("a running server").server();
        let change = pintle_store::Change::put(key, value);
        server.store().commit(change).await.expect("the store commits the write").get()
    }

    /// The objects and keys of the server.
    ///
    /// # Panics
    /// Panics if the server is not running, or its store cannot be read.
    pub async fn snapshot(&self) -> Snapshot {
        let instance = self.instance.lock().await;
        instance.as_ref().expect("a running server").server().snapshot().await.expect("the store can be read")
    }

    /// Builds a request as administrator.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder<'_> {
        self.client.request(method, path)
    }

    /// Sends a GET.
    pub async fn get(&self, path: &str) -> Response {
        self.request("GET", path).send().await
    }

    /// Sends a POST with a JSON body.
    pub async fn post(&self, path: &str, body: impl Into<String>) -> Response {
        self.request("POST", path).json(body).send().await
    }

    /// Sends a PUT with a JSON body.
    pub async fn put(&self, path: &str, body: impl Into<String>) -> Response {
        self.request("PUT", path).json(body).send().await
    }

    /// Sends a DELETE.
    pub async fn delete(&self, path: &str) -> Response {
        self.request("DELETE", path).send().await
    }

    /// Sends a PATCH. `patch_type` is `json`, `merge` or `strategic-merge`.
    pub async fn patch(&self, path: &str, patch_type: &str, body: impl Into<String>) -> Response {
        let media_type = format!("application/{patch_type}-patch+json");
        self.request("PATCH", path).body(&media_type, body.into()).send().await
    }

    /// Opens a watch. The path contains `watch=1`.
    ///
    /// # Panics
    /// Panics if the response is not 200 OK.
    pub async fn watch(&self, path: &str) -> Watch {
        self.request("GET", path).watch().await
    }
}

/// The options of a durable cluster.
fn durable_options(temp_dir: &tempfile::TempDir, port: &ReservedPort, options: Options) -> Options {
    let data_dir = Some(temp_dir.path().to_owned());
    let engine = match options.engine {
        Engine::Etcd(etcd) => Engine::Etcd(etcd),
        Engine::Embedded | Engine::EmbeddedIn(_) | Engine::Memory => Engine::Embedded,
    };
    Options { data_dir, engine, port: port.number, ..options }
}
