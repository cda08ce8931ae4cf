//! The plugins that are disabled by default.

use std::collections::BTreeMap;

use pintle::Options;
use pintle_admission::AdmissionConfiguration;
use pintle_integration::{Cluster, bootstrapped, run};
use serde_json::{Value, json};

use super::{PODS, forbidden, pod, start_with};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts a cluster with a plugin and its configuration.
pub(crate) async fn start_configured(name: &str, configuration: &str) -> Cluster {
    let admission = AdmissionConfiguration {
        enabled: vec![name.to_owned()],
        plugins: BTreeMap::from([(name.to_owned(), configuration.as_bytes().to_vec())]),
        ..AdmissionConfiguration::default()
    };
    Cluster::with_options(Options { admission, ..bootstrapped() }).await
}

#[test]
fn everything_is_denied() {
    run(async {
        // The plugin denies the server's own objects, too, so the server starts without it first.
        let cluster = Cluster::durable_with_options(Options { controllers: false, ..Options::default() }).await;
        let deny = |options: &mut Options| options.admission.enabled = vec!["AlwaysDeny".to_owned()];
        let cluster = cluster.restart_with(deny).await;
        forbidden(
            cluster.post(CONFIGMAPS, r#"{"metadata":{"generateName":"m-"}}"#).await,
            "configmaps \"m-\" is forbidden: admission control is denying all modifications",
        );
        forbidden(
            cluster.delete("/api/v1/namespaces/default").await,
            "namespaces \"default\" is forbidden: this namespace may not be deleted",
        );
        cluster.stop().await;
    });
}

#[test]
fn images_are_always_pulled_and_anti_affinity_is_limited() {
    run(async {
        let cluster = start_with(&["AlwaysPullImages", "LimitPodHardAntiAffinityTopology"]).await;
        let spec = json!({"containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "Never"}]});
        let created = cluster.post(PODS, pod("p", spec)).await.expect(201).json();
        assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always");
        let term = json!({"labelSelector": {}, "topologyKey": "zone"});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        forbidden(
            cluster.post(PODS, pod("q", json!({"affinity": affinity}))).await,
            "pods \"q\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key \
             kubernetes.io/hostname is allowed",
        );
        cluster.stop().await;
    });
}

#[test]
fn a_missing_namespace_is_created_with_its_first_object() {
    run(async {
        let cluster = start_with(&["NamespaceAutoProvision", "NamespaceExists"]).await;
        let map = r#"{"metadata":{"name":"m"}}"#;
        let path = "/api/v1/namespaces/new/configmaps";
        cluster.post(&format!("{path}?dryRun=All"), map).await.expect_error(
            404,
            "NotFound",
            "namespaces \"new\" not found",
        );
        let _ = cluster.post(path, map).await.expect(201);
        let namespace = cluster.get("/api/v1/namespaces/new").await.expect(200).json();
        assert_eq!(namespace["status"]["phase"], "Active");
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "new"}));
        // The service account of the new namespace follows.
        let _ = cluster.post("/api/v1/namespaces/newer/pods", pod("p", json!({}))).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn services_get_no_new_external_addresses() {
    run(async {
        let cluster = start_with(&["DenyServiceExternalIPs"]).await;
        let services = "/api/v1/namespaces/default/services";
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        let _ = cluster.post(services, service.to_string()).await.expect(201);
        forbidden(
            cluster.patch(&format!("{services}/s"), "merge", r#"{"spec":{"externalIPs":["192.0.2.7"]}}"#).await,
            "services \"s\" is forbidden: Use of external IPs is denied by admission control",
        );
        cluster.stop().await;
    });
}

#[test]
fn pods_get_the_node_selector_and_the_tolerations_of_their_namespace() {
    run(async {
        let configuration = r#"{"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "zone=any"}}"#;
        let cluster = start_configured("PodNodeSelector", configuration).await;
        let created = cluster.post(PODS, pod("p", json!({}))).await.expect(201).json();
        assert_eq!(created["spec"]["nodeSelector"], json!({"zone": "any"}));
        forbidden(
            cluster.post(PODS, pod("q", json!({"nodeSelector": {"zone": "mine"}}))).await,
            "pods \"q\" is forbidden: pod node label selector conflicts with its namespace node label selector",
        );
        cluster.stop().await;

        let cluster = start_with(&["PodTolerationRestriction", "ExtendedResourceToleration"]).await;
        let whitelist = r#"[{"key":"node.kubernetes.io/not-ready","operator":"Exists"},
            {"key":"node.kubernetes.io/unreachable","operator":"Exists"},
            {"key":"node.kubernetes.io/memory-pressure","operator":"Exists"}]"#;
        let annotations = json!({"scheduler.alpha.kubernetes.io/tolerationsWhitelist": whitelist});
        let patch = json!({"metadata": {"annotations": annotations}}).to_string();
        let _ = cluster.patch("/api/v1/namespaces/default", "merge", patch).await.expect(200);
        let resources = |name: &str| {
            let limits = json!({"limits": {name: "1"}});
            json!({"containers": [{"name": "c", "image": "i", "resources": limits}]})
        };
        let created = cluster.post(PODS, pod("p", resources("cpu"))).await.expect(201).json();
        let pressure =
            json!({"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"});
        assert_eq!(created["spec"]["tolerations"][2], pressure);
        let message = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace \
                       whitelist";
        let error = cluster.post(PODS, pod("q", resources("example.com/gpu"))).await.expect(500).json();
        assert_eq!(error["message"], message);
        cluster.stop().await;
    });
}

#[test]
fn events_beyond_a_limit_are_refused_without_a_time_to_retry() {
    run(async {
        let configuration = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n\
                             limits:\n- type: Namespace\n  qps: 1\n  burst: 1\n";
        let cluster = start_configured("EventRateLimit", configuration).await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let event = |name: &str| {
            let involved = json!({"kind": "Pod", "namespace": "n", "name": "p"});
            json!({"metadata": {"name": name}, "involvedObject": involved}).to_string()
        };
        let events = "/api/v1/namespaces/n/events";
        // The token bucket refills while the test sends requests, so the test sends many until one is refused.
        let mut refused = None;
        for i in 0..100 {
            let response = cluster.post(events, event(&format!("e{i}"))).await;
            if response.status != 201 {
                refused = Some(response);
                break;
            }
        }
        let refused = refused.expect("a refusal").expect(429);
        assert_eq!(refused.headers.get("retry-after"), None);
        let error = refused.json();
        assert_eq!(error["message"], "Too many requests: limit reached on type Namespace for key n");
        assert_eq!((error["reason"].as_str(), error.get("details")), (Some("TooManyRequests"), None));
        cluster.stop().await;
    });
}

#[test]
fn owners_are_set_by_those_who_may_delete_the_object_and_finalize_the_owner() {
    run(async {
        let cluster = start_with(&["OwnerReferencesPermissionEnforcement"]).await;
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update"]}]);
        let role = json!({"metadata": {"name": "writer"}, "rules": rules}).to_string();
        let _ = cluster.post(&format!("{rbac}/roles"), role).await.expect(201);
        let binding = json!({
            "metadata": {"name": "writer"}, "subjects": [{"kind": "User", "name": "alice"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
        });
        let _ = cluster.post(&format!("{rbac}/rolebindings"), binding.to_string()).await.expect(201);
        let map =
            |name: &str, owners: Value| json!({"metadata": {"name": name, "ownerReferences": owners}}).to_string();
        let owner = |blocking: bool| {
            let uid = "00000000-0000-0000-0000-000000000001";
            json!([{"apiVersion": "v1", "kind": "Secret", "name": "o", "uid": uid, "blockOwnerDeletion": blocking}])
        };
        let as_alice = async |method: &str, path: &str, body: String| {
            cluster.request(method, path).header("impersonate-user", "alice").json(body).send().await
        };
        let _ = as_alice("POST", &format!("{CONFIGMAPS}?dryRun=All"), map("m", owner(false))).await.expect(201);
        forbidden(
            as_alice("POST", CONFIGMAPS, map("m", owner(true))).await,
            "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
             can't set finalizers on: , <nil>",
        );
        let _ = as_alice("POST", CONFIGMAPS, map("m", json!([]))).await.expect(201);
        forbidden(
            as_alice("PUT", &format!("{CONFIGMAPS}/m"), map("m", owner(false))).await,
            "configmaps \"m\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>",
        );
        // The administrator may set the owner reference.
        let path = format!("{CONFIGMAPS}/m?dryRun=All");
        let _ = cluster.put(&path, map("m", owner(true))).await.expect(200);
        cluster.stop().await;
    });
}
