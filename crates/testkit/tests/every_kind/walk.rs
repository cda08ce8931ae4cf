//! The walk over all kinds that discovery names. A kind that fails does not keep the others from being tried.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use pintle_testkit::Cluster;

use crate::kind::{Kind, NAMESPACE, folder};

/// The kinds that are served.
pub(crate) async fn discover(cluster: &Cluster) -> Vec<Arc<Kind>> {
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
                kinds.extend(resources.iter().map(|entry| Arc::new(Kind::of(name, version, entry))));
            }
        }
    }
    assert!(kinds.len() > 50, "only {} kinds are served", kinds.len());
    kinds
}

/// The kinds whose objects are as clients leave them. To definitions the server adds by itself what became of them;
/// `tests/custom` walks those.
pub(crate) async fn discover_quiet(cluster: &Cluster) -> Vec<Arc<Kind>> {
    let mut kinds = discover(cluster).await;
    kinds.retain(|kind| kind.to_string() != "apiextensions.k8s.io.v1.customresourcedefinitions");
    kinds
}

/// Makes the namespace of the samples.
pub(crate) async fn prepare(cluster: &Cluster) {
    let namespace = format!(r#"{{"metadata": {{"name": "{NAMESPACE}"}}}}"#);
    let _ = cluster.post("/api/v1/namespaces", namespace).await.expect(201);
}

/// Sees to it that there is one sample for each served resource, and none for others.
pub(crate) async fn samples_and_discovery_agree() {
    let cluster = Cluster::start().await;
    let served: BTreeSet<String> = discover(&cluster).await.iter().map(|kind| format!("{kind}.yaml")).collect();
    let files = std::fs::read_dir(folder()).expect("the samples");
    let samples: BTreeSet<String> =
        files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    let missing: Vec<_> = served.difference(&samples).collect();
    assert!(missing.is_empty(), "these resources have no sample: {missing:?}");
    let known = pintle_catalog::shared().resources().iter().map(|r| {
        let group = if r.group.is_empty() { "core" } else { r.group };
        format!("{group}.{}.{}.yaml", r.version, r.plural)
    });
    let known: BTreeSet<String> = known.collect();
    let strange: Vec<_> = samples.difference(&known).collect();
    assert!(strange.is_empty(), "these samples are of no resource: {strange:?}");
    cluster.stop().await;
}

/// Tries something with every kind, each after the other in one cluster.
pub(crate) fn every_kind<T>(theme: impl Fn(Arc<Cluster>, Arc<Kind>) -> T + Send + 'static)
where
    T: Future<Output = ()> + Send + 'static,
{
    pintle_testkit::run(async move {
        let cluster = Arc::new(Cluster::start().await);
        prepare(&cluster).await;
        let mut failures = Vec::new();
        for kind in discover_quiet(&cluster).await {
            let name = kind.to_string();
            if let Err(error) = tokio::spawn(theme(cluster.clone(), kind)).await {
                failures.push(format!("{name}: {}", message(error)));
            }
        }
        assert!(failures.is_empty(), "{} kinds fail:\n{}", failures.len(), failures.join("\n"));
        if let Some(cluster) = Arc::into_inner(cluster) {
            cluster.stop().await;
        }
    });
}

/// What a failed try said.
pub(crate) fn message(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().map_or_else(|| "it failed".to_owned(), |t| (*t).to_owned()),
    }
}
