//! The options of a cluster.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::CustomResourceExt;
use pintle::{AccessOptions, AuthorizationMode, Options, Server, ServiceAccountOptions, Snapshot, TokenCacheTtl};
use pintle_gates::{FeatureGatesFlag, Gates};
use pintle_versions::{EffectiveVersion, Minor};

use crate::access::Access;
use crate::clock::Clock;
use crate::cluster::TestCluster;
use crate::error::Error;
use crate::observer::Observer;

/// The default number of requests that are kept.
const MAX_RECORDED: usize = 10_000;
/// Number of threads that serve requests. A test has many clusters rather than much load.
const WORKER_THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The options of a [`TestCluster`]. It has the defaults of `pintle serve`, with objects in memory.
///
/// ```no_run
/// # async fn start() -> Result<(), pintle_testkit::Error> {
/// use pintle_testkit::TestCluster;
///
/// let cluster = TestCluster::builder()
///     .feature_gates("MutatingAdmissionPolicy=true")
///     .disable_admission_plugin("ServiceAccount")
///     .manifests("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
///     .start()
///     .await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TestClusterBuilder {
    kubernetes_version: Option<String>,
    feature_gates: Vec<String>,
    enabled_plugins: Vec<String>,
    disabled_plugins: Vec<String>,
    no_controllers: bool,
    event_ttl: Option<Duration>,
    frozen_clock: bool,
    max_recorded: Option<usize>,
    request_log: Option<PathBuf>,
    prepared: Vec<Prepared>,
}

/// An object that the cluster has when it has started.
#[derive(Clone, Debug)]
enum Prepared {
    Crd(serde_json::Value),
    Manifests(String),
    File(PathBuf),
}

impl TestClusterBuilder {
    /// The minor version of Kubernetes that the cluster is, such as `1.35`: its API, defaults and features. The
    /// default is the one of `pintle serve`. Clusters of several versions can run in one test.
    pub fn kubernetes_version(mut self, version: impl Into<String>) -> Self {
        self.kubernetes_version = Some(version.into());
        self
    }

    /// Enables and disables features, in the form of `--feature-gates`: `A=true,B=false`.
    pub fn feature_gates(mut self, gates: impl Into<String>) -> Self {
        self.feature_gates.push(gates.into());
        self
    }

    /// Enables an admission plugin in addition to the default ones, such as `AlwaysPullImages`.
    pub fn enable_admission_plugin(mut self, name: impl Into<String>) -> Self {
        self.enabled_plugins.push(name.into());
        self
    }

    /// Disables an admission plugin. Without `ServiceAccount`, for example, pods get no volume with a token.
    pub fn disable_admission_plugin(mut self, name: impl Into<String>) -> Self {
        self.disabled_plugins.push(name.into());
        self
    }

    /// Whether the controllers on which the API relies run: namespaces, garbage collection, default service accounts,
    /// quotas and others. The default is true. envtest, for example, has none of them, so namespaces stay in
    /// `Terminating`. Without them the admission plugin `ServiceAccount` refuses pods in namespaces without a service
    /// account.
    pub fn controllers(mut self, run: bool) -> Self {
        self.no_controllers = !run;
        self
    }

    /// How long events are kept, in whole seconds. The default is an hour.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = Some(ttl);
        self
    }

    /// Lets the clock stand still from the start. See [`Clock::freeze`].
    pub fn frozen_clock(mut self) -> Self {
        self.frozen_clock = true;
        self
    }

    /// Maximum number of requests that are kept for [`TestCluster::requests`]. The oldest requests are dropped. The
    /// default is 10,000.
    pub fn max_recorded_requests(mut self, count: usize) -> Self {
        self.max_recorded = Some(count);
        self
    }

    /// Appends a line of JSON for each request to a file, as `pintle serve --log-requests` does.
    pub fn log_requests(mut self, file: impl Into<PathBuf>) -> Self {
        self.request_log = Some(file.into());
        self
    }

    /// Installs the CRD of a kind that was derived with `kube::CustomResource`.
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        // A CRD always serializes. If it does not, the start of the cluster fails.
        self.prepared.push(Prepared::Crd(serde_json::to_value(K::crd()).unwrap_or_default()));
        self
    }

    /// Applies objects from a YAML text when the cluster starts. See [`TestCluster::apply`].
    pub fn manifests(mut self, yaml: impl Into<String>) -> Self {
        self.prepared.push(Prepared::Manifests(yaml.into()));
        self
    }

    /// Applies objects from a YAML file when the cluster starts. See [`TestCluster::apply`].
    pub fn manifest_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.prepared.push(Prepared::File(path.into()));
        self
    }

    /// Starts the cluster.
    ///
    /// # Panics
    /// Panics with the reason if the cluster cannot be started.
    pub async fn start(self) -> TestCluster {
        // Futures of starts are large, and the stack of a test may be small.
        match Box::pin(self.try_start()).await {
            Ok(cluster) => cluster,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts the cluster.
    ///
    /// # Errors
    /// An option is not valid, or a manifest cannot be applied.
    pub async fn try_start(mut self) -> Result<TestCluster, Error> {
        let prepared = std::mem::take(&mut self.prepared);
        let clock = Clock::new();
        if self.frozen_clock {
            clock.freeze();
        }
        let cluster = Box::pin(self.start_server(clock, None, None)).await?;
        for prepared in prepared {
            match prepared {
                Prepared::Crd(crd) => cluster.apply_untyped_crd(&crd).await?,
                Prepared::Manifests(yaml) => drop(cluster.apply(&yaml).await?),
                Prepared::File(path) => drop(cluster.apply_file(path).await?),
            }
        }
        Ok(cluster)
    }

    /// Starts the server of a cluster, with the objects of a snapshot if there is one. `start_revision` is the revision
    /// of the objects with which the cluster starts; `None` selects the current revision.
    pub(crate) async fn start_server(
        self,
        clock: Clock,
        snapshot: Option<Snapshot>,
        start_revision: Option<u64>,
    ) -> Result<TestCluster, Error> {
        let observer = Arc::new(Observer::new(self.max_recorded.unwrap_or(MAX_RECORDED)));
        let options = Options { from: snapshot.map(Arc::new), ..self.clone().options(&clock, &observer)? };
        let server = Box::pin(Server::start(options)).await.map_err(|error| Error::Start(error.to_string()))?;
        let access = Access::new(&server.url, &server.kubeconfig, &server.certificates);
        TestCluster::new(server, self, access, clock, observer, start_revision).await
    }

    fn options(self, clock: &Clock, observer: &Arc<Observer>) -> Result<Options, Error> {
        let mut options = Options {
            register: true,
            // The server listens on a loopback address only, so endpoints would lead nowhere.
            reconcile_endpoints: false,
            rbac_bootstrap: None,
            access: AccessOptions {
                bootstrap_tokens: true,
                authorization_modes: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
                ..AccessOptions::default()
            },
            // A cached token would be valid although the clock has passed its expiry.
            service_accounts: ServiceAccountOptions {
                token_cache: TokenCacheTtl::DISABLED,
                ..ServiceAccountOptions::default()
            },
            gates: gates(self.kubernetes_version.as_deref(), &self.feature_gates)?,
            controllers: !self.no_controllers,
            every_namespace_objects: true,
            resource_quotas: true,
            policy_type_checks: true,
            flow_control: true,
            service_cidr_protection: true,
            api_services: true,
            clock: Arc::new(clock.clone()),
            observers: vec![observer.clone()],
            request_log: self.request_log,
            worker_threads: Some(WORKER_THREADS),
            ..Options::default()
        };
        options.admission.enabled = self.enabled_plugins;
        options.admission.disabled = self.disabled_plugins;
        options.event_ttl = self.event_ttl.unwrap_or(options.event_ttl);
        Ok(options)
    }
}

/// The gates of a version with the values of `--feature-gates`.
fn gates(version: Option<&str>, values: &[String]) -> Result<Gates, Error> {
    let minor = version.map_or(Ok(Minor::DEFAULT), Minor::parse_known).map_err(|why| Error::Start(why.to_string()))?;
    let mut flag = FeatureGatesFlag::default();
    values.iter().for_each(|value| flag.add(value));
    // The warnings are about gates that will be removed.
    flag.gates(EffectiveVersion::of(minor)).map(|(gates, _)| gates).map_err(|error| Error::Start(error.to_string()))
}
