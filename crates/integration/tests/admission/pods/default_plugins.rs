//! The plugins that are enabled by default.

use pintle::Options;
use pintle_admission::{AdmissionConfiguration, TolerationSeconds};
use pintle_integration::{Cluster, bootstrapped, run};
use serde_json::{Value, json};

use super::{PODS, forbidden, pod, start_with};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn toleration(key: &str, seconds: i64) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

#[test]
fn a_pod_gets_its_account_its_token_its_priority_and_tolerations() {
    run(async {
        let cluster = start_with(&[]).await;
        let created = cluster.post(PODS, pod("p", json!({}))).await.expect(201).json();
        let spec = &created["spec"];
        assert_eq!(spec["serviceAccountName"], "default");
        assert_eq!(spec["serviceAccount"], "default");
        assert_eq!(spec["priority"], 0);
        assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
        assert_eq!(spec["tolerations"], json!([toleration(NOT_READY, 300), toleration(UNREACHABLE, 300)]));
        let volume = spec["volumes"][0]["name"].as_str().expect("a volume");
        assert!(volume.starts_with("kube-api-access-") && volume.len() == 21, "{volume}");
        let mount = json!({
            "name": volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        });
        assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
        let sources = json!([
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]);
        assert_eq!(spec["volumes"], json!([{"name": volume, "projected": {"sources": sources, "defaultMode": 420}}]));
        // The client that creates the pod owns the fields that it sent. No manager owns fields that plugins add.
        let owned = created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].as_object().expect("fields");
        let added = ["f:priority", "f:tolerations", "f:volumes", "f:serviceAccountName"];
        assert!(added.iter().all(|field| !owned.contains_key(*field)), "{owned:?}");
        cluster.stop().await;
    });
}

#[test]
fn a_new_namespace_has_its_account_before_pods_are_refused() {
    run(async {
        let cluster = start_with(&[]).await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata":{"name":"new"}}"#).await.expect(201);
        // The controller creates the account a little later; and the plugin waits for it.
        let _ = cluster.post("/api/v1/namespaces/new/pods", pod("p", json!({}))).await.expect(201);
        forbidden(
            cluster.post("/api/v1/namespaces/new/pods", pod("q", json!({"serviceAccountName": "gone"}))).await,
            "pods \"q\" is forbidden: error looking up service account new/gone: serviceaccount \"gone\" not found",
        );
        cluster.stop().await;
    });
}

#[test]
fn without_default_accounts_the_plugin_is_disabled_unless_it_is_named() {
    run(async {
        let cluster = Cluster::start().await;
        let created = cluster.post(PODS, pod("p", json!({}))).await.expect(201).json();
        assert_eq!(created["spec"].get("serviceAccountName"), None);
        assert_eq!(created["spec"]["priority"], 0);
        cluster.stop().await;
        let enabled = vec!["ServiceAccount".to_owned()];
        let admission = AdmissionConfiguration { enabled, ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..Options::default() }).await;
        forbidden(
            cluster.post(PODS, pod("p", json!({"serviceAccountName": "gone"}))).await,
            "pods \"p\" is forbidden: error looking up service account default/gone: serviceaccount \"gone\" not found",
        );
        cluster.stop().await;
    });
}

#[test]
fn priority_classes_decide_the_priority_of_pods() {
    run(async {
        let cluster = start_with(&[]).await;
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        let class = |name: &str, value: i64| {
            json!({"metadata": {"name": name}, "value": value, "globalDefault": true}).to_string()
        };
        let created = cluster.post(PODS, pod("before", json!({}))).await.expect(201).json();
        assert_eq!(created["spec"]["priority"], 0);
        let _ = cluster.post(classes, class("first", 5)).await.expect(201);
        forbidden(
            cluster.post(classes, class("second", 6)).await,
            "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass first is already marked as default. \
             Only one default can exist",
        );
        let created = cluster.post(PODS, pod("after", json!({}))).await.expect(201).json();
        assert_eq!(created["spec"]["priority"], 5);
        assert_eq!(created["spec"]["priorityClassName"], "first");
        let system = pod("system", json!({"priorityClassName": "system-node-critical"}));
        let created = cluster.post(PODS, system).await.expect(201).json();
        assert_eq!(created["spec"]["priority"], 2_000_001_000);
        forbidden(
            cluster.post(PODS, pod("p", json!({"priorityClassName": "gone"}))).await,
            "pods \"p\" is forbidden: no PriorityClass with name gone was found",
        );
        // An update that omits the fields keeps them.
        let path = format!("{PODS}/after");
        let mut sent: Value = serde_json::from_str(&pod("after", json!({}))).expect("JSON");
        for field in ["serviceAccountName", "volumes", "containers", "tolerations", "priorityClassName"] {
            sent["spec"][field] = cluster.get(&path).await.expect(200).json()["spec"][field].clone();
        }
        sent["spec"]["containers"][0]["image"] = "other".into();
        let updated = cluster.put(&path, sent.to_string()).await.expect(200).json();
        assert_eq!(updated["spec"]["priority"], 5);
        assert_eq!(updated["spec"]["preemptionPolicy"], "PreemptLowerPriority");
        cluster.stop().await;
    });
}

#[test]
fn a_runtime_class_has_overhead_and_scheduling() {
    run(async {
        let cluster = start_with(&[]).await;
        let class = json!({
            "metadata": {"name": "sandbox"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
        });
        let _ = cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class.to_string()).await.expect(201);
        let sandboxed = pod("p", json!({"runtimeClassName": "sandbox"}));
        let spec = &cluster.post(PODS, sandboxed).await.expect(201).json()["spec"];
        assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
        assert_eq!(spec["nodeSelector"], json!({"sandbox": "yes"}));
        // The tolerations of the runtime class follow the pod's, to which `DefaultTolerationSeconds` has added its own.
        assert_eq!(spec["tolerations"][2], json!({"key": "sandbox", "operator": "Exists"}));
        forbidden(
            cluster.post(PODS, pod("q", json!({"overhead": {"cpu": "1"}}))).await,
            "pods \"q\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        );
        cluster.stop().await;
    });
}

#[test]
fn nodes_are_tainted_and_give_their_topology_to_their_pods() {
    run(async {
        let cluster = start_with(&[]).await;
        let labels = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "a": "b"});
        let node = json!({"metadata": {"name": "n", "labels": labels}});
        let node = cluster.post("/api/v1/nodes", node.to_string()).await.expect(201).json();
        assert_eq!(node["spec"]["taints"], json!([{"key": NOT_READY, "effect": "NoSchedule"}]));
        let topology = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
        let _ = cluster.post(PODS, pod("bound", json!({}))).await.expect(201);
        let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}).to_string();
        let _ = cluster.post(&format!("{PODS}/bound/binding"), binding).await.expect(201);
        let bound = cluster.get(&format!("{PODS}/bound")).await.expect(200).json();
        assert_eq!(bound["metadata"]["labels"], topology);
        let assigned = cluster.post(PODS, pod("assigned", json!({"nodeName": "n"}))).await.expect(201).json();
        assert_eq!(assigned["metadata"]["labels"], topology);
        cluster.stop().await;
    });
}

#[test]
fn the_default_tolerations_follow_the_options() {
    run(async {
        let toleration_seconds = TolerationSeconds { not_ready: 10, unreachable: 20 };
        let admission = AdmissionConfiguration { toleration_seconds, ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..bootstrapped() }).await;
        let created = cluster.post(PODS, pod("p", json!({}))).await.expect(201).json();
        let expect = json!([toleration(NOT_READY, 10), toleration(UNREACHABLE, 20)]);
        assert_eq!(created["spec"]["tolerations"], expect);
        cluster.stop().await;
    });
}
