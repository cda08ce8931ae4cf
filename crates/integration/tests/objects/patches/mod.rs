//! JSON patches, merge patches and strategic merge patches over HTTP: their effects, errors and concurrency.

mod concurrency;
mod errors;
mod fields;
mod subresources;

use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

const CONFIGMAP: &str = "/api/v1/namespaces/default/configmaps/m";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";

/// Starts a cluster with a ConfigMap `m` and a Deployment `web` with two containers.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let metadata = json!({"name": "m", "labels": {"a": "1"}, "finalizers": ["x.io/a", "x.io/b"]});
    let map = json!({"metadata": metadata, "data": {"a": "1", "b": "2"}});
    let _ = cluster.post("/api/v1/namespaces/default/configmaps", map.to_string()).await.expect(201);
    let containers = json!([
        {"name": "a", "image": "i:1", "ports": [{"containerPort": 80}, {"containerPort": 443}]},
        {"name": "b", "image": "i:1"},
    ]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web = json!({"metadata": {"name": "web"}, "spec": spec}).to_string();
    let _ = cluster.post("/apis/apps/v1/namespaces/default/deployments", web).await.expect(201);
    cluster
}

async fn get(cluster: &Cluster, path: &str) -> Value {
    cluster.get(path).await.expect(200).json()
}

fn resource_version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// Returns the texts of the warnings of a response.
fn warnings(response: &Response) -> Vec<String> {
    let texts = response.headers.get_all("warning").iter().map(|warning| warning.to_str().expect("a text"));
    texts
        .map(|text| {
            let text = text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).expect(text);
            text.replace("\\\"", "\"")
        })
        .collect()
}
