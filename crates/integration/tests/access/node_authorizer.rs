//! The permissions that the node authorizer gives to kubelets.

use pintle_gates::Gates;
use pintle_integration::{AccessOptions, AuthorizationMode, Cluster, Options, Response, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// The nodes. The token of each node is its name.
const TOKENS: &str = "n0,system:node:n0,1,system:nodes\nn1,system:node:n1,2,system:nodes\nno,system:node:n0,3,others\n";

fn options() -> Options {
    let access = AccessOptions {
        tokens: Some(TOKENS.to_owned()),
        authorization_modes: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
        ..AccessOptions::default()
    };
    Options { access, ..Options::default() }
}

async fn get_as(cluster: &Cluster, node: &str, path: &str) -> Response {
    cluster.request("GET", path).anonymous().header("Authorization", &format!("Bearer {node}")).send().await
}

/// Creates an empty secret.
async fn create_secret(cluster: &Cluster, name: &str) {
    let _ = cluster.post(SECRETS, json!({"metadata": {"name": name}}).to_string()).await.expect(201);
}

/// Creates a pod with a secret and a claim.
async fn create_pod(cluster: &Cluster, name: &str, node: Option<&str>, secret: &str) {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
            "volumes": [
                {"name": "s", "secret": {"secretName": secret}},
                {"name": "p", "persistentVolumeClaim": {"claimName": format!("claim-{name}")}},
            ],
        },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    let _ = cluster.post(PODS, pod.to_string()).await.expect(201);
}

async fn bind(cluster: &Cluster, pod: &str, node: &str) {
    let binding = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
    let _ = cluster.post(&format!("{PODS}/{pod}/binding"), binding.to_string()).await.expect(201);
}

#[test]
fn a_kubelet_reads_the_secrets_of_its_pods_only() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        for secret in ["own", "other", "unused"] {
            create_secret(&cluster, secret).await;
        }
        create_pod(&cluster, "p0", Some("n0"), "own").await;
        create_pod(&cluster, "p1", Some("n1"), "other").await;
        let _ = get_as(&cluster, "n0", &format!("{SECRETS}/own")).await.expect(200);
        let _ = get_as(&cluster, "n1", &format!("{SECRETS}/other")).await.expect(200);
        let by_name = get_as(&cluster, "n0", &format!("{SECRETS}?fieldSelector=metadata.name%3Down")).await;
        assert_eq!(by_name.expect(200).json()["items"].as_array().map(Vec::len), Some(1));
        for (path, why) in [
            (format!("{SECRETS}/other"), "no relationship found between node 'n0' and this object"),
            (format!("{SECRETS}/unused"), "no relationship found between node 'n0' and this object"),
            (format!("{SECRETS}/missing"), "no relationship found between node 'n0' and this object"),
            (SECRETS.to_owned(), "No Object name found"),
            ("/api/v1/secrets".to_owned(), "can only read namespaced object of this type"),
        ] {
            let status = get_as(&cluster, "n0", &path).await.expect(403).json();
            let message = status["message"].as_str().unwrap_or_default();
            assert!(message.ends_with(&format!(": {why}")), "{path}: {message}");
        }
        // The name alone does not make the user a node.
        let message = get_as(&cluster, "no", &format!("{SECRETS}/own")).await.expect(403).json()["message"].clone();
        let expect = "secrets \"own\" is forbidden: User \"system:node:n0\" cannot get resource \"secrets\" in API group \
                      \"\" in the namespace \"default\"";
        assert_eq!(message, expect);
        cluster.stop().await;
    });
}

/// Since 1.37 the reason names the authorizer.
#[test]
fn reasons_name_the_authorizer() {
    run(async {
        for (minor, name) in [(36, ""), (37, "node: ")] {
            let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
            let cluster = Cluster::with_options(Options { gates, ..options() }).await;
            let reason = format!("{name}no relationship found between node 'n0' and this object");
            let refused = get_as(&cluster, "n0", &format!("{SECRETS}/s")).await.expect(403).json();
            let expect = format!(
                "secrets \"s\" is forbidden: User \"system:node:n0\" cannot get resource \"secrets\" in API group \"\" in \
                 the namespace \"default\": {reason}"
            );
            assert_eq!(refused["message"], expect);
            let review = json!({"spec": {
                "user": "system:node:n0", "groups": ["system:nodes"],
                "resourceAttributes": {"verb": "get", "resource": "secrets", "name": "s", "namespace": "default"},
            }});
            let reviewed = cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review.to_string()).await;
            assert_eq!(reviewed.expect(201).json()["status"], json!({"allowed": false, "reason": reason}));
            cluster.stop().await;
        }
    });
}

#[test]
fn a_kubelet_reads_service_accounts_unless_the_feature_gate_is_off() {
    run(async {
        let off = [("KubeletServiceAccountTokenForCredentialProviders".to_owned(), false)];
        let (off, _) = Gates::with_overrides(&off.into()).expect("a feature gate that can be disabled");
        for (gates, expect) in [(Gates::default(), 200), (off, 403)] {
            let cluster = Cluster::with_options(Options { gates, ..options() }).await;
            let accounts = "/api/v1/namespaces/default/serviceaccounts";
            let _ = cluster.post(accounts, json!({"metadata": {"name": "robot"}}).to_string()).await.expect(201);
            let spec = json!({"serviceAccountName": "robot", "nodeName": "n0",
                "containers": [{"name": "c", "image": "i"}]});
            let _ = cluster.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec}).to_string()).await.expect(201);
            let _ = get_as(&cluster, "n0", &format!("{accounts}/robot")).await.expect(expect);
            cluster.stop().await;
        }
    });
}

#[test]
fn a_kubelet_lists_the_pods_of_its_node_only() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_pod(&cluster, "p0", Some("n0"), "a").await;
        create_pod(&cluster, "p1", Some("n1"), "a").await;
        let own = get_as(&cluster, "n0", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn0").await.expect(200).json();
        let names: Vec<&Value> =
            own["items"].as_array().into_iter().flatten().map(|pod| &pod["metadata"]["name"]).collect();
        assert_eq!(names, ["p0"]);
        // The server authorizes the same selector that it applies.
        let twice = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn0&fieldSelector=";
        let own = get_as(&cluster, "n0", twice).await.expect(200).json();
        assert_eq!(own["items"].as_array().map(Vec::len), Some(1));
        let delete = cluster.request("DELETE", &format!("{PODS}?fieldSelector=spec.nodeName%3Dn0")).anonymous();
        let _ = delete.header("Authorization", "Bearer n0").send().await.expect(403);
        for query in [
            "?fieldSelector=&fieldSelector=spec.nodeName%3Dn0",
            "",
            "?fieldSelector=spec.nodeName%3Dn1",
            "?fieldSelector=spec.nodeName!%3Dn0",
        ] {
            let _ = get_as(&cluster, "n0", &format!("/api/v1/pods{query}")).await.expect(403);
        }
        let _ = get_as(&cluster, "n0", &format!("{PODS}/p0")).await.expect(200);
        let _ = get_as(&cluster, "n0", &format!("{PODS}/p1")).await.expect(403);
        let _ = get_as(&cluster, "n0", "/api/v1/nodes/n1").await.expect(403);
        let _ = get_as(&cluster, "n0", "/api/v1/nodes/n0").await.expect(404);
        let _ = get_as(&cluster, "n0", "/api/v1/services").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn what_a_kubelet_reads_changes_before_the_change_is_answered() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_secret(&cluster, "own").await;
        create_secret(&cluster, "volume").await;
        let (own, volume) = (format!("{SECRETS}/own"), format!("{SECRETS}/volume"));
        for round in 0..30 {
            let name = format!("p{round}");
            create_pod(&cluster, &name, None, "own").await;
            let _ = get_as(&cluster, "n0", &own).await.expect(403);
            bind(&cluster, &name, "n0").await;
            let _ = get_as(&cluster, "n0", &own).await.expect(200);
            let _ = get_as(&cluster, "n1", &own).await.expect(403);
            let path = format!("{VOLUMES}/v{round}");
            let _ = get_as(&cluster, "n0", &path).await.expect(403);
            let body = json!({
                "metadata": {"name": format!("v{round}")},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": "default", "name": format!("claim-{name}")},
                    "csi": {"driver": "d", "volumeHandle": "h",
                        "nodeStageSecretRef": {"namespace": "default", "name": "volume"}},
                },
            });
            let _ = cluster.post(VOLUMES, body.to_string()).await.expect(201);
            let _ = get_as(&cluster, "n0", &path).await.expect(200);
            let _ = get_as(&cluster, "n0", &volume).await.expect(200);
            let _ = cluster.delete(&format!("{PODS}/{name}")).await.expect(200);
            for path in [&own, &volume, &path] {
                let _ = get_as(&cluster, "n0", path).await.expect(403);
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn pods_lead_to_their_nodes_after_a_restart() {
    run(async {
        let cluster = Cluster::durable_with_options(options()).await;
        create_secret(&cluster, "own").await;
        create_pod(&cluster, "p0", Some("n0"), "own").await;
        let cluster = cluster.restart().await;
        let _ = get_as(&cluster, "n0", &format!("{SECRETS}/own")).await.expect(200);
        let _ = get_as(&cluster, "n1", &format!("{SECRETS}/own")).await.expect(403);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let added = "node_authorizer_graph_actions_duration_seconds_count{operation=\"AddPod\"} 1";
        assert!(metrics.lines().any(|line| line == added));
        cluster.stop().await;
    });
}

#[test]
fn the_rules_of_a_node_are_incomplete() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let review = |token: &str| {
            let request = cluster.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews").anonymous();
            let request = request.header("Authorization", &format!("Bearer {token}"));
            request.json(json!({"spec": {"namespace": "default"}}).to_string())
        };
        let rules = json!([{"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectrulesreviews"]}]);
        let role = json!({"metadata": {"name": "basic"}, "rules": rules});
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let _ = cluster.post(&format!("{rbac}/clusterroles"), role.to_string()).await.expect(201);
        let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "basic"});
        let binding = json!({"metadata": {"name": "basic"}, "roleRef": reference, "subjects": [group]});
        let _ = cluster.post(&format!("{rbac}/clusterrolebindings"), binding.to_string()).await.expect(201);
        let status = review("n0").send().await.expect(201).json()["status"].clone();
        assert_eq!(status["incomplete"], true);
        assert_eq!(status["evaluationError"], "node authorizer does not support user rule resolution");
        let status = review("no").send().await.expect(201).json()["status"].clone();
        assert_eq!((&status["incomplete"], status.get("evaluationError")), (&json!(false), None));
        cluster.stop().await;
    });
}

/// Sends a write as a node, and returns the status code and the message.
async fn write_as(cluster: &Cluster, node: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let request = cluster.request(method, path).anonymous().header("Authorization", &format!("Bearer {node}"));
    let request = match method {
        "PATCH" => request.body("application/merge-patch+json", body.to_string()),
        _ => request.json(body.to_string()),
    };
    let response = request.send().await;
    (response.status.into(), response.json()["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_kubelet_writes_itself_and_its_own_pods_only() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        for name in ["n0", "n1"] {
            let node = json!({"metadata": {"name": name}});
            let (code, message) = write_as(&cluster, name, "POST", "/api/v1/nodes", &node).await;
            assert_eq!((code, &*message), (201, ""));
        }
        create_secret(&cluster, "s").await;
        create_pod(&cluster, "p0", Some("n0"), "s").await;
        create_pod(&cluster, "p1", Some("n1"), "s").await;
        let uid = cluster.get("/api/v1/nodes/n0").await.expect(200).json()["metadata"]["uid"].clone();

        let mirror = |spec: Value| {
            let mut pod = json!({
                "metadata": {
                    "name": "mirror",
                    "annotations": {"kubernetes.io/config.mirror": "x"},
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": uid, "controller": true},
                    ],
                },
                "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}]},
            });
            for (field, value) in spec.as_object().into_iter().flatten() {
                pod["spec"][field] = value.clone();
            }
            pod
        };
        let secret = mirror(json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}));
        let plain = json!({"metadata": {"name": "plain"}, "spec": mirror(Value::Null)["spec"]});
        let (phase, label) =
            (json!({"status": {"phase": "Running"}}), json!({"metadata": {"labels": {"k8s.io/x": "y"}}}));
        for (method, path, body, why) in [
            (
                "POST",
                PODS,
                &plain,
                "pods \"plain\" is forbidden: pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n0\" can only create mirror pods",
            ),
            (
                "POST",
                PODS,
                &secret,
                "pods \"mirror\" is forbidden: node \"n0\" can not create pods that reference secrets",
            ),
            (
                "PATCH",
                "/api/v1/namespaces/default/pods/p1/status",
                &phase,
                "pods \"p1\" is forbidden: node \"n0\" can only update pod status for pods with spec.nodeName set to itself",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/default/pods/p1",
                &Value::Null,
                "pods \"p1\" is forbidden: node \"n0\" can only delete pods with spec.nodeName set to itself",
            ),
            (
                "PATCH",
                "/api/v1/nodes/n0",
                &label,
                "nodes \"n0\" is forbidden: is not allowed to modify labels: k8s.io/x",
            ),
            (
                "PATCH",
                "/api/v1/nodes/n1/status",
                &label,
                "nodes \"n1\" is forbidden: node \"n0\" is not allowed to modify node \"n1\"",
            ),
        ] {
            assert_eq!(write_as(&cluster, "n0", method, path, body).await, (403, why.to_owned()), "{method} {path}");
        }
        for (method, path, body, code) in [
            ("POST", PODS, &mirror(Value::Null), 201),
            ("PATCH", "/api/v1/namespaces/default/pods/p0/status", &phase, 200),
            ("PATCH", "/api/v1/nodes/n0/status", &json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}), 200),
            ("DELETE", "/api/v1/namespaces/default/pods/p0", &Value::Null, 200),
        ] {
            let (found, message) = write_as(&cluster, "n0", method, path, body).await;
            assert_eq!(found, code, "{method} {path}: {message}");
        }
        // The node still cannot read the secret that the mirror pod would have given it.
        let _ = get_as(&cluster, "n0", &format!("{SECRETS}/s")).await.expect(403);
        cluster.stop().await;
    });
}
