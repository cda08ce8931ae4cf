//! CRDs, manifests, and the options of a cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, CustomResource};
use pintle_testkit::TestCluster;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::GADGETS;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    #[schemars(range(min = 1))]
    size: u8,
}

/// A namespace, [`GADGETS`], and two gadgets.
fn manifests() -> String {
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: team}}";
    let objects = "
apiVersion: example.com/v1
kind: Gadget
metadata: {name: a, namespace: team}
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: b}
";
    format!("{namespace}\n---{GADGETS}---{objects}")
}

#[tokio::test]
async fn derived_kinds_are_served_at_once() {
    let cluster = TestCluster::start().await;
    cluster.apply_crd::<Widget>().await.expect("the definition is applied");
    // A second apply changes nothing.
    cluster.apply_crd::<Widget>().await.expect("the definition is applied");
    let widgets: Api<Widget> = Api::default_namespaced(cluster.client());
    let made =
        widgets.create(&PostParams::default(), &Widget::new("a", WidgetSpec { size: 1 })).await.expect("a widget");
    assert_eq!(made.spec, WidgetSpec { size: 1 });
    let refused = widgets.create(&PostParams::default(), &Widget::new("b", WidgetSpec { size: 0 })).await;
    assert!(refused.expect_err("it is not valid").to_string().contains("should be greater than or equal to 1"));
}

#[tokio::test]
async fn manifests_are_applied_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gadget.yaml");
    std::fs::write(&path, manifests()).expect("a file");
    let cluster = TestCluster::builder().crd::<Widget>().manifest_file(&path).start().await;
    let again = cluster.apply(&manifests()).await.expect("they are applied again");
    let found: Vec<_> = again.iter().map(|o| (o.metadata.namespace.as_deref(), o.metadata.name.as_deref())).collect();
    let expect = [
        (None, Some("team")),
        (None, Some("gadgets.example.com")),
        (Some("team"), Some("a")),
        (Some("default"), Some("b")),
    ];
    assert_eq!(found, expect);
    let error = cluster.apply("{apiVersion: v1, kind: ConfigMap}").await.expect_err("no name").to_string();
    assert_eq!(error, "v1 ConfigMap \"\": an object needs an apiVersion, a kind and a name");
    let error = cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: A}}").await.expect_err("not valid");
    assert!(error.to_string().contains("Namespace \"A\" is invalid"), "{error}");
    let error = TestCluster::builder().manifest_file("/nowhere").try_start().await.expect_err("no file").to_string();
    assert_eq!(error, "/nowhere: No such file or directory (os error 2)");
}

fn pod() -> Pod {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test]
async fn admission_plugins_are_chosen_by_name() {
    let cluster = TestCluster::builder()
        .disable_admission_plugin("ServiceAccount")
        .enable_admission_plugin("AlwaysPullImages")
        .start()
        .await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let made = pods.create(&PostParams::default(), &pod()).await.expect("a pod").spec.expect("a spec");
    assert_eq!(made.containers[0].image_pull_policy.as_deref(), Some("Always"));
    assert_eq!(made.volumes, None);
    let cluster = TestCluster::start().await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let made = pods.create(&PostParams::default(), &pod()).await.expect("a pod").spec.expect("a spec");
    assert_eq!(made.volumes.map(|volumes| volumes.len()), Some(1), "a volume with a token");
    let unknown = TestCluster::builder().enable_admission_plugin("X").try_start().await.expect_err("an unknown plugin");
    assert!(unknown.to_string().starts_with("the cluster cannot start: "), "{unknown}");
}

#[tokio::test]
async fn feature_gates_are_text() {
    let cluster = TestCluster::builder().feature_gates("CBORServingAndStorage=true").start().await;
    let request = |accept: &str| {
        let request = http::Request::get("/api/v1/namespaces/default").header("Accept", accept);
        request.body(Vec::new()).expect("a request")
    };
    let text = cluster.client().request_text(request("application/json")).await.expect("JSON");
    assert!(text.contains("\"Namespace\""));
    // CBOR is not UTF-8, so this client refuses it.
    let error = cluster.client().request_text(request("application/cbor")).await.expect_err("not a text").to_string();
    assert!(error.to_lowercase().contains("utf-8"), "{error}");
    let error = TestCluster::builder().feature_gates("X=true").try_start().await.expect_err("an unknown gate");
    assert!(error.to_string().contains("unrecognized feature gate: X"), "{error}");
}

#[tokio::test]
async fn controllers_can_be_turned_off() {
    for run in [true, false] {
        let cluster = TestCluster::builder().controllers(run).start().await;
        let accounts: Api<ServiceAccount> = Api::default_namespaced(cluster.client());
        assert_eq!(accounts.list(&ListParams::default()).await.expect("a list").items.len(), usize::from(run));
        cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: a}}").await.expect("a namespace");
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        namespaces.delete("a", &DeleteParams::default()).await.expect("it terminates");
        let is_gone =
            kube::runtime::wait::await_condition(namespaces.clone(), "a", |n: Option<&Namespace>| n.is_none());
        match run {
            true => drop(
                tokio::time::timeout(Duration::from_secs(20), is_gone).await.expect("it is gone").expect("a watch"),
            ),
            false => {
                let found = namespaces.get("a").await.expect("it stays").status.and_then(|status| status.phase);
                assert_eq!(found.as_deref(), Some("Terminating"));
            }
        }
    }
}
