//! Versions of the built-in API that are turned on and off (`--runtime-config`).

use std::collections::BTreeSet;

use pintle_integration::{Cluster, Options, RuntimeConfig, run};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io";

async fn start(values: &[&str]) -> Cluster {
    let runtime_config = RuntimeConfig::from_flags(Default::default(), values).expect("valid values");
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
        // An object of one version is also served at the other version, and takes effect.
        let _ = cluster.post(&path, policy("v1beta1", "p")).await.expect(201);
        let found = cluster.get(&format!("{GROUP}/v1/mutatingadmissionpolicies/p")).await.expect(200).json();
        assert_eq!(found["apiVersion"], "admissionregistration.k8s.io/v1");
        assert_eq!(found["metadata"]["managedFields"][0]["apiVersion"], "admissionregistration.k8s.io/v1beta1");
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}}).to_string();
        let _ = cluster.post(&format!("{GROUP}/v1beta1/mutatingadmissionpolicybindings"), binding).await.expect(201);
        let object = r#"{"metadata": {"name": "c"}}"#;
        let created = cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201).json();
        assert_eq!(created["data"], json!({"from": "p"}));
        // The OpenAPI document of the version has its types.
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
            let Ok(runtime_config) = RuntimeConfig::from_flags(Default::default(), &[value.as_str()]) else {
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
        // Services store their addresses in this group.
        assert_eq!(needed, ["networking.k8s.io/v1"]);
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

/// A version works without its storage version.
#[test]
fn a_version_is_served_without_its_hub() {
    run(async {
        let cluster = start(&["coordination.k8s.io/v1alpha2=true", "autoscaling/v2=false"]).await;
        let served = versions(&cluster).await;
        assert!(served.contains("coordination.k8s.io/v1alpha2") && !served.contains("coordination.k8s.io/v1beta1"));
        assert!(served.contains("autoscaling/v1") && !served.contains("autoscaling/v2"));
        let path = "/apis/coordination.k8s.io/v1alpha2/namespaces/default/leasecandidates";
        let candidate = json!({
            "metadata": {"name": "c", "labels": {"app": "a"}},
            "spec": {"leaseName": "l", "binaryVersion": "1.36.0", "strategy": "example.com/own"},
        });
        let created = cluster.post(path, candidate.to_string()).await.expect(201);
        assert_eq!(
            created.headers["warning"],
            "299 - \"coordination.k8s.io/v1alpha2 LeaseCandidate is deprecated in v1.35+, unavailable in v1.38+\""
        );
        let mut watch = cluster.watch(&format!("{path}?watch=true&fieldSelector=spec.leaseName%3Dl")).await;
        assert_eq!(watch.expect("ADDED", "c").await, created.json());
        let changed = cluster.patch(&format!("{path}/c"), "merge", r#"{"spec": {"binaryVersion": "1.37.0"}}"#).await;
        assert_eq!(changed.expect(200).json()["spec"]["binaryVersion"], "1.37.0");
        let list = cluster.get(&format!("{path}?labelSelector=app%3Da")).await.expect(200).json();
        assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&json!("LeaseCandidateList"), Some(1)));
        let invalid = cluster.patch(&format!("{path}/c"), "merge", r#"{"spec": {"leaseName": "m"}}"#).await;
        let message = "LeaseCandidate.coordination.k8s.io \"c\" is invalid: spec.leaseName: Invalid value: \"m\": field is \
                       immutable";
        invalid.expect_error(422, "Invalid", message);
        let _ = cluster.get("/apis/coordination.k8s.io/v1beta1/leasecandidates").await.expect(404);
        let scaler = json!({
            "metadata": {"name": "s"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 2},
        });
        let scalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
        let _ = cluster.post(scalers, scaler.to_string()).await.expect(201);
        // The deletion of a namespace deletes objects of such a resource, too.
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        let in_namespace = path.replace("default", "n");
        let _ = cluster.post(&in_namespace, candidate.to_string()).await.expect(201);
        let _ = cluster.delete("/api/v1/namespaces/n").await.expect(200);
        cluster.get_until_status("/api/v1/namespaces/n", 404).await;
        assert_eq!(cluster.get(&in_namespace).await.expect(200).json()["items"], json!([]));
        cluster.stop().await;
    });
}

/// The resource of a feature is served only with the feature, whatever `--runtime-config` says.
#[test]
fn resources_of_features_need_them() {
    run(async {
        let cluster = start(&["api/all=true"]).await;
        let served = versions(&cluster).await;
        assert!(!served.contains("scheduling.k8s.io/v1alpha2") && !served.contains("certificates.k8s.io/v1beta1"));
        for (path, hash) in [
            ("coordination.k8s.io/v1alpha2", "lvME0iHWE20="),
            ("coordination.k8s.io/v1beta1", "lvME0iHWE20="),
            ("networking.k8s.io/v1beta1", "3f/plJFChNE="),
            ("internal.apiserver.k8s.io/v1alpha1", "c8YZt5U0nPk="),
            ("resource.k8s.io/v1alpha3", "DJ3UJ0fj8MI="),
        ] {
            let list = cluster.get(&format!("/apis/{path}")).await.expect(200).json();
            assert_eq!(list["resources"][0]["storageVersionHash"], hash, "{path}");
        }
        let group = cluster.get("/apis/resource.k8s.io").await.expect(200).json();
        let names: Vec<&Value> =
            group["versions"].as_array().expect("versions").iter().map(|it| &it["version"]).collect();
        assert_eq!(names, ["v1", "v1beta2", "v1beta1", "v1alpha3"]);
        // The last default groups come before groups with only alpha versions.
        let groups = cluster.get("/apis").await.expect(200).json();
        let groups: Vec<&str> =
            groups["groups"].as_array().expect("groups").iter().filter_map(|group| group["name"].as_str()).collect();
        assert_eq!(groups.last(), Some(&"internal.apiserver.k8s.io"));
        cluster.stop().await;
    });
}
