//! Resource quotas from a client's view: the admission plugin's refusals and charges, and the controller's updates of
//! the status. Tests in `pintle-quota` cover the usage of each kind.

mod charging;
mod controller;
mod limits;

use pintle_integration::{Cluster, Options, Response};
use serde_json::{Value, json};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// The options of a cluster that counts quotas.
fn options() -> Options {
    Options { resource_quotas: true, ..Options::default() }
}

async fn create(cluster: &Cluster, path: &str, object: Value) -> Value {
    cluster.post(path, object.to_string()).await.expect(201).json()
}

async fn patch(cluster: &Cluster, path: &str, patch: Value) -> Value {
    cluster.patch(path, "merge", patch.to_string()).await.expect(200).json()
}

/// The status of a quota.
async fn status(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&format!("{QUOTAS}/{name}")).await.expect(200).json()["status"].take()
}

/// Waits until a quota has this usage.
async fn wait_for_used(cluster: &Cluster, name: &str, expect: Value) {
    let list = cluster.get(&format!("{QUOTAS}?fieldSelector=metadata.name%3D{name}")).await.expect(200).json();
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
    if list["items"][0]["status"]["used"] == expect {
        return;
    }
    let path = format!("{QUOTAS}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
    let mut watch = cluster.watch(&path).await;
    while watch.next().await.expect("an event")["object"]["status"]["used"] != expect {}
}

/// Creates a quota without usage, and waits until it is enforced.
async fn create_quota(cluster: &Cluster, name: &str, spec: Value) {
    let used: serde_json::Map<String, Value> =
        spec["hard"].as_object().expect("limits").keys().map(|limit| (limit.clone(), json!("0"))).collect();
    create(cluster, QUOTAS, json!({"metadata": {"name": name}, "spec": spec})).await;
    wait_for_used(cluster, name, Value::Object(used)).await;
}

/// A pod whose container has these resources.
fn pod(name: &str, resources: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Checks that a write was refused.
fn check_forbidden(response: Response, subject: &str, why: &str) {
    response.expect_error(403, "Forbidden", &format!("{subject} is forbidden: {why}"));
}
