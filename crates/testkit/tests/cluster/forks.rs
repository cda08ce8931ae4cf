//! Clusters that begin with the objects of another cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use pintle_testkit::TestCluster;
use serde_json::json;

use super::GADGETS;

/// The objects of a prepared cluster, in addition to [`GADGETS`].
const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: prepared}
data: {a: one}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

async fn names(cluster: &TestCluster) -> Vec<String> {
    let list = config_maps(cluster.client()).list(&kube::api::ListParams::default()).await.expect("config maps");
    let names = list.items.into_iter().filter_map(|object| object.metadata.name);
    names.filter(|name| name != "kube-root-ca.crt").collect()
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a config map")
}

#[tokio::test]
async fn a_fork_has_the_objects_and_goes_its_own_way() {
    let prepared = TestCluster::builder().manifests(GADGETS).manifests(OBJECTS).start().await;
    let fork = prepared.fork().await;
    assert_ne!(fork.url(), prepared.url());
    let object = config_maps(fork.client()).get("prepared").await.expect("the prepared object");
    let original = config_maps(prepared.client()).get("prepared").await.expect("the object");
    assert_eq!(object, original, "uid, resourceVersion and managed fields included");

    config_maps(fork.client()).create(&PostParams::default(), &config_map("in-fork")).await.expect("a create");
    config_maps(prepared.client()).create(&PostParams::default(), &config_map("in-original")).await.expect("a create");
    assert_eq!(names(&fork).await, ["in-fork", "prepared"]);
    assert_eq!(names(&prepared).await, ["in-original", "prepared"]);
}

#[tokio::test]
async fn crds_are_served_by_a_fork_at_once() {
    let prepared = TestCluster::builder().manifests(GADGETS).manifests(OBJECTS).start().await;
    let fork = prepared.fork().await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget"));
    let gadgets: Api<DynamicObject> = Api::default_namespaced_with(fork.client(), &resource);
    let gadget = DynamicObject::new("a", &resource);
    gadgets.create(&PostParams::default(), &gadget).await.expect("the resource is served");
}

#[tokio::test]
async fn credentials_are_valid_for_both() {
    let prepared = TestCluster::builder().manifests(GADGETS).manifests(OBJECTS).start().await;
    let mut jane = prepared.user("jane").config();
    let token = prepared.service_account("default", "default").token().await.expect("a token");
    let fork = prepared.fork().await;

    jane.cluster_url = fork.config().cluster_url;
    let client = Client::try_from(jane).expect("a client");
    config_maps(client).get("prepared").await.expect("jane may edit in the fork too");

    let mut config = fork.config();
    config.auth_info = kube::config::AuthInfo { token: Some(token.into()), ..Default::default() };
    let client = Client::try_from(config).expect("a client");
    let refused = config_maps(client).get("prepared").await.expect_err("no role allows it");
    assert!(refused.to_string().contains("system:serviceaccount:default:default"), "{refused}");
}

#[tokio::test]
async fn a_fork_has_the_options_and_the_time() {
    let prepared = TestCluster::builder().disable_admission_plugin("ServiceAccount").frozen_clock().start().await;
    prepared.clock().advance(Duration::from_secs(3600));
    let fork = prepared.fork().await;
    assert_eq!(fork.clock().now(), prepared.clock().now());
    fork.clock().advance(Duration::from_secs(1));
    assert_ne!(fork.clock().now(), prepared.clock().now());

    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let pods: Api<Pod> = Api::default_namespaced(fork.client());
    let made = pods.create(&PostParams::default(), &pod).await.expect("a pod");
    assert_eq!(made.spec.and_then(|spec| spec.service_account_name), None);
    let fork_of_fork = fork.fork().await;
    let pods: Api<Pod> = Api::default_namespaced(fork_of_fork.client());
    pods.get("a").await.expect("the pod of the fork");
}
