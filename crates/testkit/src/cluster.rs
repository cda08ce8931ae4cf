//! A Kubernetes control plane inside the process of a test.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kube::CustomResourceExt;
use kube::api::DynamicObject;
use pintle::Server;
use tempfile::TempDir;

use crate::access::Access;
use crate::builder::TestClusterBuilder;
use crate::clock::Clock;
use crate::dump::{self, Dump};
use crate::error::Error;
use crate::faults::Faults;
use crate::manifests;
use crate::observer::Observer;
use crate::requests::Requests;
use crate::user::{ServiceAccountUser, User};

/// A Kubernetes control plane in this process. It ends when it is dropped. If the test is failing then, it prints its
/// state (see [`TestCluster::dump`]).
#[must_use]
pub struct TestCluster {
    /// The server; `None` after a stop.
    server: Option<Server>,
    options: TestClusterBuilder,
    access: Access,
    clock: Clock,
    observer: Arc<Observer>,
    dump: Dump,
    folder: OnceLock<TempDir>,
}

impl fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCluster").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl TestCluster {
    /// Starts a cluster with the default options. It is ready when this returns.
    ///
    /// # Panics
    /// Panics with the reason if the cluster cannot be started.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// The options of a new cluster.
    pub fn builder() -> TestClusterBuilder {
        TestClusterBuilder::default()
    }

    pub(crate) async fn new(
        server: Server,
        options: TestClusterBuilder,
        access: Access,
        clock: Clock,
        observer: Arc<Observer>,
        start_revision: Option<u64>,
    ) -> Result<Self, Error> {
        let start_revision = match start_revision {
            Some(revision) => revision,
            None => {
                let current = server.store().current_revision().await;
                current.map_err(|error| Error::Start(error.to_string()))?.get()
            }
        };
        let dump = Dump::new(access.clone(), observer.clone(), start_revision);
        Ok(Self { server: Some(server), options, access, clock, observer, dump, folder: OnceLock::new() })
    }

    /// Starts another cluster with the objects, the options and the time of this one. From then on the two clusters are
    /// independent. So one costly preparation (CRDs, roles, objects) serves many tests.
    ///
    /// Credentials of users and tokens of service accounts are valid for both. The new cluster has no faults and no
    /// recorded requests.
    ///
    /// # Panics
    /// Panics with the reason if the new cluster cannot be started.
    pub async fn fork(&self) -> Self {
        match Box::pin(self.try_fork()).await {
            Ok(fork) => fork,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`TestCluster::fork`], but returns an error instead of a panic.
    ///
    /// # Errors
    /// The objects cannot be read, or the new cluster cannot be started.
    pub async fn try_fork(&self) -> Result<Self, Error> {
        let Some(server) = &self.server else { return Err(Error::Start("the cluster was stopped".to_owned())) };
        let snapshot = server.snapshot().await.map_err(|error| Error::Start(error.to_string()))?;
        let options = self.options.clone();
        Box::pin(options.start_server(self.clock.fork(), Some(snapshot), Some(self.dump.start()))).await
    }

    /// A client of the administrator, who may do everything. It uses the tokio runtime in which it was created.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.access.client(&self.access.administrator())
    }

    /// The configuration of the administrator's client, which the caller may change before it creates a client.
    #[must_use]
    pub fn config(&self) -> kube::Config {
        self.access.config(&self.access.administrator())
    }

    /// A user of any name, with a client certificate. It may do what roles and bindings allow.
    pub fn user(&self, name: impl AsRef<str>) -> User {
        User::new(&self.access, name.as_ref())
    }

    /// A service account, which has to exist when a token is requested. Each namespace has one named `default`.
    pub fn service_account(&self, namespace: impl AsRef<str>, name: impl AsRef<str>) -> ServiceAccountUser {
        ServiceAccountUser::new(&self.access, namespace.as_ref(), name.as_ref())
    }

    /// The base URL of the server, without a path.
    #[must_use]
    pub fn url(&self) -> &str {
        self.access.url()
    }

    /// The kubeconfig of the administrator, as text.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        self.access.kubeconfig()
    }

    /// The path of a file with the kubeconfig of the administrator, for programs such as kubectl. It is removed with
    /// the cluster.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig_file(&self) -> Result<PathBuf, Error> {
        let failed = |path: PathBuf| move |error| Error::File { path, error };
        let folder = match self.folder.get() {
            Some(folder) => folder,
            None => {
                let folder = TempDir::with_prefix("pintle-").map_err(failed(std::env::temp_dir()))?;
                self.folder.get_or_init(|| folder)
            }
        };
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, self.kubeconfig()).map_err(failed(path.clone()))?;
        Ok(path)
    }

    /// Applies the objects of a YAML text in order, and returns them. The text may have several documents, and lists.
    /// Objects without a namespace go to `default`. When this returns, the custom resources of applied CRDs are served.
    ///
    /// # Errors
    /// The text is malformed, or the server refuses an object.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>, Error> {
        manifests::apply(&self.access.own_client(), yaml).await
    }

    /// As [`TestCluster::apply`], from a file.
    ///
    /// # Errors
    /// The file cannot be read, or [`TestCluster::apply`] fails.
    pub async fn apply_file(&self, path: impl AsRef<Path>) -> Result<Vec<DynamicObject>, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
        self.apply(&text).await
    }

    /// Installs the CRD of a kind that was derived with `kube::CustomResource`. When this returns, the resource is
    /// served.
    ///
    /// # Errors
    /// The server refuses the CRD.
    pub async fn apply_crd<K: CustomResourceExt>(&self) -> Result<(), Error> {
        manifests::apply_crd(&self.access.own_client(), &K::crd()).await
    }

    pub(crate) async fn apply_untyped_crd(&self, crd: &serde_json::Value) -> Result<(), Error> {
        manifests::apply_crd(&self.access.own_client(), crd).await
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Injects faults.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(self.observer.clone())
    }

    /// The requests that clients have sent.
    #[must_use]
    pub fn requests(&self) -> Requests {
        Requests::new(self.observer.clone())
    }

    /// The state of the cluster, for people. It begins with missing features of this server for which objects seem to
    /// wait. Then come the last requests, the events, and the objects as YAML. It omits the objects with which a
    /// cluster starts, managed fields, and values of secrets.
    ///
    /// If the test fails, the drop of the cluster prints this to standard error. The environment variable
    /// `PINTLE_TESTKIT_DUMP_DIR` names a folder for files instead.
    ///
    /// # Errors
    /// The objects cannot be read.
    pub async fn dump(&self) -> Result<String, Error> {
        self.dump.text().await
    }

    /// Stops the cluster gracefully: watches end, and open requests are answered.
    ///
    /// # Errors
    /// The server has not stopped cleanly.
    pub async fn stop(mut self) -> Result<(), Error> {
        match self.server.take() {
            Some(server) => server.stop().await.map_err(|error| Error::Stop(error.to_string())),
            None => Ok(()),
        }
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if std::thread::panicking() && self.server.is_some() {
            dump::print(&self.dump);
        }
    }
}
