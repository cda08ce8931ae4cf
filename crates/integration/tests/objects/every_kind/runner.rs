//! Runs a check for every kind that discovery lists. A failure for one kind does not skip the others.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, RuntimeConfig, manual_clock};

use super::served_kind::{NAMESPACE, ServedKind, samples_dir};

/// Returns the served kinds.
pub(crate) async fn discover(cluster: &Cluster) -> Vec<Arc<ServedKind>> {
    let mut kinds = Vec::new();
    for root in ["/api", "/apis"] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let found = cluster.request("GET", root).header("accept", accept).send().await.expect(200).json();
        assert_eq!(found["kind"], "APIGroupDiscoveryList", "{found}");
        for group in found["items"].as_array().expect("groups") {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().expect("versions") {
                let resources = version["resources"].as_array().expect("resources");
                let version = version["version"].as_str().expect("a version");
                kinds.extend(resources.iter().map(|entry| Arc::new(ServedKind::from_discovery(name, version, entry))));
            }
        }
    }
    assert!(kinds.len() > 50, "only {} kinds are served", kinds.len());
    kinds
}

/// Returns the served kinds without CRDs, whose status the server updates on its own. `tests/custom` tests those.
pub(crate) async fn discover_without_crds(cluster: &Cluster) -> Vec<Arc<ServedKind>> {
    let mut kinds = discover(cluster).await;
    kinds.retain(|kind| kind.to_string() != "apiextensions.k8s.io.v1.customresourcedefinitions");
    kinds
}

/// Creates the namespace of the samples.
pub(crate) async fn create_namespace(cluster: &Cluster) {
    let namespace = format!(r#"{{"metadata": {{"name": "{NAMESPACE}"}}}}"#);
    let _ = cluster.post("/api/v1/namespaces", namespace).await.expect(201);
}

/// The features that some resources need, and the features on which those features depend.
const FEATURES: [&str; 4] =
    ["ClusterTrustBundle", "GenericWorkload", "PodCertificateRequest", "StorageVersionMigrator"];

/// Options that enable all versions, including versions that are disabled by default.
fn with_all_versions(options: Options) -> Options {
    let runtime_config = RuntimeConfig::from_flags(Default::default(), &["api/all=true"]).expect("a valid value");
    let features = FEATURES.iter().map(|feature| ((*feature).to_owned(), true)).collect();
    let (gates, _) = Gates::with_overrides(&features).expect("known features");
    Options { runtime_config, gates, ..options }
}

/// Checks that there is one sample for each served resource, and no sample for other resources.
pub(crate) async fn check_samples_match_discovery() {
    let cluster = Cluster::with_options(with_all_versions(Options::default())).await;
    let served: BTreeSet<String> = discover(&cluster).await.iter().map(|kind| format!("{kind}.yaml")).collect();
    let files = std::fs::read_dir(samples_dir()).expect("the samples");
    let samples: BTreeSet<String> =
        files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    let missing: Vec<_> = served.difference(&samples).collect();
    assert!(missing.is_empty(), "these resources have no sample: {missing:?}");
    let known = pintle_catalog::shared().resources().iter().filter(|r| r.served).map(|r| {
        let group = if r.group.is_empty() { "core" } else { r.group };
        format!("{group}.{}.{}.yaml", r.version, r.plural)
    });
    let known: BTreeSet<String> = known.collect();
    let unknown: Vec<_> = samples.difference(&known).collect();
    assert!(unknown.is_empty(), "these samples belong to no resource: {unknown:?}");
    let unserved: Vec<_> = known.difference(&served).collect();
    assert!(unserved.is_empty(), "the gates of these resources are off: {unserved:?}");
    cluster.stop().await;
}

/// Runs a check for every kind, one after another in one cluster.
pub(crate) fn for_every_kind<T>(check: impl Fn(Arc<Cluster>, Arc<ServedKind>) -> T + Send + 'static)
where
    T: Future<Output = ()> + Send + 'static,
{
    run_for_every_kind(Options::default(), check);
}

/// Like [`for_every_kind`], with a clock that stands still. Managed fields are sorted by time, so whether an apply that
/// changes nothing is written depends on the seconds between the requests.
pub(crate) fn for_every_kind_at_one_time<T>(check: impl Fn(Arc<Cluster>, Arc<ServedKind>) -> T + Send + 'static)
where
    T: Future<Output = ()> + Send + 'static,
{
    run_for_every_kind(Options { clock: manual_clock(), ..Options::default() }, check);
}

fn run_for_every_kind<T>(options: Options, check: impl Fn(Arc<Cluster>, Arc<ServedKind>) -> T + Send + 'static)
where
    T: Future<Output = ()> + Send + 'static,
{
    pintle_integration::run(async move {
        let cluster = Arc::new(Cluster::with_options(with_all_versions(options)).await);
        create_namespace(&cluster).await;
        let mut failures = Vec::new();
        for kind in discover_without_crds(&cluster).await {
            let name = kind.to_string();
            if let Err(error) = tokio::spawn(check(cluster.clone(), kind)).await {
                failures.push(format!("{name}: {}", panic_message(error)));
            }
        }
        assert!(failures.is_empty(), "{} kinds fail:\n{}", failures.len(), failures.join("\n"));
        if let Some(cluster) = Arc::into_inner(cluster) {
            cluster.stop().await;
        }
    });
}

/// Returns the panic message of a failed check.
pub(crate) fn panic_message(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "the task was cancelled".to_owned() };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .map_or_else(|| "the check panicked without a message".to_owned(), |t| (*t).to_owned()),
    }
}
