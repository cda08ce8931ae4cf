//! A cluster for tests, in the test's own process and ready in milliseconds, with a small language to ask and expect:
//!
//! ```no_run
//! use pintle_testkit::Cluster;
//!
//! pintle_testkit::run(async {
//!     let cluster = Cluster::start().await;
//!     let object = r#"{"metadata": {"name": "a"}, "data": {"k": "v"}}"#;
//!     cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201);
//!     let found = cluster.get("/api/v1/namespaces/default/configmaps/a").await.expect(200).json();
//!     assert_eq!(found["data"]["k"], "v");
//! });
//! ```
//!
//! What goes wrong in here panics with what was asked and what came, since that is what a test wants to see.

mod client;
mod runtime;

pub use client::{Answer, Ask, Watch};
pub use runtime::run;

use std::path::PathBuf;

pub use pintle::{Component, Engine, Options};

use pintle::Server;

use client::Client;

/// A running cluster and an administrator's connection to it.
pub struct Cluster {
    server: Option<Server>,
    client: Client,
    folder: Option<tempfile::TempDir>,
}

impl Cluster {
    /// A cluster in memory.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start() -> Self {
        Self::with(Options::default(), None).await
    }

    /// A cluster that keeps its objects in a temporary folder, so that it can be restarted.
    ///
    /// # Panics
    /// It does not start.
    pub async fn durable() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            Options { data_dir: Some(folder.path().to_owned()), engine: Engine::Embedded, ..Options::default() };
        Self::with(options, Some(folder)).await
    }

    /// A cluster with static tokens, as `--token-auth-file` takes them.
    ///
    /// # Panics
    /// It does not start.
    pub async fn with_tokens(tokens: &str) -> Self {
        Self::with(Options { tokens: Some(tokens.to_owned()), ..Options::default() }, None).await
    }

    /// A cluster with options of its own, such as a small window.
    ///
    /// # Panics
    /// It does not start.
    pub async fn with_options(options: Options) -> Self {
        Self::with(options, None).await
    }

    async fn with(options: Options, folder: Option<tempfile::TempDir>) -> Self {
        let server = Server::start(options).await.expect("the server starts");
        let client = Client::new(&server.url, &server.certificates);
        Self { server: Some(server), client, folder }
    }

    /// Stops a durable cluster and starts it again from its folder.
    ///
    /// # Panics
    /// It keeps nothing, or does not stop or start.
    pub async fn restart(mut self) -> Self {
        let folder = self.folder.take().expect("only a durable cluster can be restarted");
        let server = self.server.take().expect("a running server");
        server.stop().await.expect("the server stops");
        let options =
            Options { data_dir: Some(folder.path().to_owned()), engine: Engine::Embedded, ..Options::default() };
        Self::with(options, Some(folder)).await
    }

    /// Stops the cluster.
    ///
    /// # Panics
    /// It does not stop cleanly.
    pub async fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("the server stops");
        }
    }

    /// The base of all URLs.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.url)
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.kubeconfig)
    }

    /// The kubeconfig as a file, for real clients.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn kubeconfig_file(&mut self) -> PathBuf {
        let folder = self.folder.get_or_insert_with(|| tempfile::tempdir().expect("a temporary folder"));
        let path = folder.path().join("kubeconfig");
        let text = self.server.as_ref().map_or("", |server| &server.kubeconfig);
        std::fs::write(&path, text).expect("the kubeconfig can be written");
        path
    }

    /// Asks anything.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str) -> Ask<'_> {
        self.client.ask(method, path)
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send().await
    }

    /// Posts JSON to a path.
    pub async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        self.ask("POST", path).json(body).send().await
    }

    /// Puts JSON to a path.
    pub async fn put(&self, path: &str, body: impl Into<String>) -> Answer {
        self.ask("PUT", path).json(body).send().await
    }

    /// Deletes a path.
    pub async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path).send().await
    }

    /// Patches a path: `kind` is `json`, `merge` or `strategic-merge`.
    pub async fn patch(&self, path: &str, kind: &str, body: impl Into<String>) -> Answer {
        let media_type = format!("application/{kind}-patch+json");
        self.ask("PATCH", path).body(&media_type, body.into()).send().await
    }

    /// Watches a path.
    ///
    /// # Panics
    /// The watch is refused.
    pub async fn watch(&self, path: &str) -> Watch {
        self.ask("GET", path).watch().await
    }
}
