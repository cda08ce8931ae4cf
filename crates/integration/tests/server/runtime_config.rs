//! Versions of the built-in API that are turned on and off (`--runtime-config`).

use std::collections::BTreeSet;

use pintle_integration::{Cluster, Options, RuntimeConfig, run};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io";

async fn start(values: &[&str]) -> Cluster {
    let runtime_config = RuntimeConfig::from_flags(values).expect("valid values");
    Cluster::with_options(Options { runtime_config, ..Options::default() }).await
}

/// The versions of groups that discovery lists.
async fn versions(cluster: &Cluster) -> BTreeSet<String> {
    let groups = cluster.get("/apis").await.expect(200).json();
    let groups = groups["groups"].as_array().expect("groups");
    let versions = groups.iter().flat_map(|group| group["versions"].as_array().expect("versions"));
    versions.map(|version| version["groupVersion"].as_str().expect("a version").to_owned()).collect()
}

fn policy(api_version: &str, name: &str) -> String {
    let expression = r#"Object{data: {"from": "NAME"}}"#.replace("NAME", name);
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    json!({
        "apiVersion": format!("admissionregistration.k8s.io/{api_version}"),
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    })
    .to_string()
}

#[test]
fn a_version_that_is_disabled_by_default_is_served_on_request() {
    run(async {
        let cluster = start(&[]).await;
        let path = format!("{GROUP}/v1beta1/mutatingadmissionpolicies");
        let _ = cluster.get(&path).await.expect(404);
        assert!(!versions(&cluster).await.contains("admissionregistration.k8s.io/v1beta1"));
        cluster.stop().await;
        let cluster = start(&["admissionregistration.k8s.io/v1beta1=true"]).await;
        let group = cluster.get(GROUP).await.expect(200).json();
        let names: Vec<&Value> =
            group["versions"].as_array().expect("versions").iter().map(|it| &it["version"]).collect();
        assert_eq!(names, ["v1", "v1beta1"]);
        assert_eq!(group["preferredVersion"]["version"], "v1");
        let list = cluster.get(&format!("{GROUP}/v1beta1")).await.expect(200).json();
        let plurals: Vec<&Value> =
            list["resources"].as_array().expect("resources").iter().map(|it| &it["name"]).collect();
        assert_eq!(plurals, ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]);
        // An object of one version is one of the other, and works.
        let _ = cluster.post(&path, policy("v1beta1", "p")).await.expect(201);
        let found = cluster.get(&format!("{GROUP}/v1/mutatingadmissionpolicies/p")).await.expect(200).json();
        assert_eq!(found["apiVersion"], "admissionregistration.k8s.io/v1");
        assert_eq!(found["metadata"]["managedFields"][0]["apiVersion"], "admissionregistration.k8s.io/v1beta1");
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}}).to_string();
        let _ = cluster.post(&format!("{GROUP}/v1beta1/mutatingadmissionpolicybindings"), binding).await.expect(201);
        let object = r#"{"metadata": {"name": "c"}}"#;
        let created = cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201).json();
        assert_eq!(created["data"], json!({"from": "p"}));
        // The document of the version has its types.
        let document = cluster.get("/openapi/v3/apis/admissionregistration.k8s.io/v1beta1").await.expect(200).json();
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        assert!(schemas.contains_key("io.k8s.api.admissionregistration.v1beta1.MutatingAdmissionPolicy"));
        cluster.stop().await;
    });
}

#[test]
fn every_version_can_be_turned_off_that_the_server_does_not_need() {
    run(async {
        let cluster = start(&[]).await;
        let all = versions(&cluster).await;
        cluster.stop().await;
        let mut needed = Vec::new();
        for version in &all {
            let value = format!("{version}=false");
            let Ok(runtime_config) = RuntimeConfig::from_flags(&[value.as_str()]) else {
                needed.push(version.as_str());
                continue;
            };
            let cluster = Cluster::with_options(Options { runtime_config, ..Options::default() }).await;
            let rest: BTreeSet<String> = all.iter().filter(|other| *other != version).cloned().collect();
            assert_eq!(versions(&cluster).await, rest, "{version}");
            let _ = cluster.get(&format!("/apis/{version}")).await.expect(404);
            let _ = cluster.get(&format!("/openapi/v3/apis/{version}")).await.expect(404);
            let _ = cluster.get("/readyz").await.expect(200);
            let pod = r#"{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;
            let _ = cluster.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
            let _ = cluster.delete("/api/v1/namespaces/default/pods/p").await.expect(200);
            let service = r#"{"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}"#;
            let _ = cluster.post("/api/v1/namespaces/default/services", service).await.expect(201);
            cluster.stop().await;
        }
        // The objects of the other version are kept in the first, and services have their addresses in the second.
        assert_eq!(needed, ["autoscaling/v2", "networking.k8s.io/v1"]);
    });
}

#[test]
fn a_resource_can_be_turned_off() {
    run(async {
        let cluster = start(&["apps/v1/daemonsets=false"]).await;
        let list = cluster.get("/apis/apps/v1").await.expect(200).json();
        let names: Vec<&Value> =
            list["resources"].as_array().expect("resources").iter().map(|it| &it["name"]).collect();
        assert!(names.iter().any(|name| *name == "deployments") && names.iter().all(|name| *name != "daemonsets"));
        let message = "the server could not find the requested resource";
        cluster.get("/apis/apps/v1/daemonsets").await.expect_error(404, "NotFound", message);
        cluster.stop().await;
    });
}
