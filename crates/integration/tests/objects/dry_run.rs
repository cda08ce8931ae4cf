//! Dry-run requests: the response is the same as for the real request, and nothing is persisted.

use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// A PEM certificate signing request, in base64.
const CSR: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIYk1JR0RBZ0VBTUNFeERqQU1CZ05WQkFvTUJYTjNaV1Z3TVE4d0RRWURWUVFEREFaellXMXdiR1V3V1RBVApCZ2NxaGtqT1BRSUJCZ2dxaGtqT1BRTUJCd05DQUFTZkk4MS8xZG52SnVHQUZZM2JzalB4MFB6VTkwSEVRd0FRCnF2cThXVnNiVS83emcyOElDNklkYkNVYVpCNFRHaVNEaHloM09jQm52MEdkQnpQRXJNWDVvQUF3Q2dZSUtvWkkKemowRUF3SURSd0F3UkFJZ0tINjg5bmsxKzNsdWNrTnJGVEJ4Vy9EbG1zeE1YekNtYWNFdzArU0QrcDRDSUcxegpUblJ5OHRQam9JOGJxUm9xRnZieW1iLy9BaUp0YXMvOGpIaTUyUWhRCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}},
    ]}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": "a"});
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]},
    }})
}

/// Returns the current revision of the store.
async fn revision(cluster: &Cluster) -> String {
    let list = cluster.get("/api/v1/namespaces").await.expect(200).json();
    list["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
}

/// Returns the status code and the body without the fields that differ between two writes.
fn comparable(response: &Response) -> (u16, Value) {
    let mut object = response.json();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["resourceVersion", "uid", "creationTimestamp", "deletionTimestamp", "managedFields"] {
            metadata.remove(name);
        }
    }
    if let Some(details) = object.get_mut("details").and_then(Value::as_object_mut) {
        details.remove("uid");
    }
    (response.status.as_u16(), object)
}

/// Sends a request with `dryRun=All`, then without, and compares the responses.
async fn check(cluster: &Cluster, method: &str, path: &str, media_type: &str, body: &Value) {
    let before = revision(cluster).await;
    let separator = if path.contains('?') { '&' } else { '?' };
    let send = async |path: &str| {
        let request = cluster.request(method, path);
        if body.is_null() { request.send().await } else { request.body(media_type, body.to_string()).send().await }
    };
    let dry_run = send(&format!("{path}{separator}dryRun=All")).await;
    assert_eq!(revision(cluster).await, before, "{method} {path}: the dry run must not write");
    let created = send(path).await;
    assert!(created.status.is_success(), "{method} {path}: {}", created.text());
    assert_eq!(comparable(&dry_run), comparable(&created), "{method} {path}");
    assert_ne!(revision(cluster).await, before, "{method} {path}: the request must write");
}

#[test]
fn every_verb_and_subresource_supports_dry_run() {
    const JSON: &str = "application/json";
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        // A resize has to fit the allocatable resources of the node.
        let node = json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}},
            "status": {"allocatable": {"cpu": "4", "memory": "4Gi"}},
        });
        let _ = cluster.post("/api/v1/nodes", node.to_string()).await.expect(201);
        let status = json!({"status": {"phase": "Running"}});
        let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
        let resources = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 20}});
        let applied =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"paused": true}});
        let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
        let request = json!({"metadata": {"name": "r"}, "spec": {
            "request": CSR, "signerName": "example.com/signer", "usages": ["digital signature", "client auth"],
        }});
        let scale = json!({"spec": {"replicas": 3}});
        for (method, path, media_type, body) in [
            ("POST", PODS.to_owned(), JSON, pod("p")),
            ("PATCH", format!("{PODS}/p"), STRATEGIC, json!({"metadata": {"labels": {"a": "b"}}})),
            ("PATCH", format!("{PODS}/p/status"), MERGE, status),
            ("POST", format!("{PODS}/p/binding"), JSON, binding),
            ("PATCH", format!("{PODS}/p/ephemeralcontainers"), STRATEGIC, debug),
            ("PATCH", format!("{PODS}/p/resize"), STRATEGIC, resources),
            ("POST", DEPLOYMENTS.to_owned(), JSON, deployment("d")),
            ("PATCH", format!("{DEPLOYMENTS}/d?fieldManager=m&force=true"), APPLY, applied),
            ("PATCH", format!("{DEPLOYMENTS}/d/scale"), MERGE, scale),
            (
                "PATCH",
                format!("{DEPLOYMENTS}/d"),
                "application/json-patch+json",
                json!([{"op": "remove", "path": "/spec/paused"}]),
            ),
            ("POST", CSRS.to_owned(), JSON, request),
            ("PATCH", format!("{CSRS}/r/approval"), MERGE, approval),
            ("DELETE", format!("{DEPLOYMENTS}/d"), JSON, Value::Null),
            ("POST", format!("{PODS}/p/eviction"), JSON, eviction),
            ("DELETE", format!("{PODS}/p?gracePeriodSeconds=5"), JSON, Value::Null),
            ("DELETE", format!("{PODS}?gracePeriodSeconds=0"), JSON, Value::Null),
        ] {
            check(&cluster, method, &path, media_type, &body).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn dry_run_allocates_no_addresses_or_ports() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let service = |name: &str, more: Value| {
            let mut service =
                json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
            more.as_object().into_iter().flatten().for_each(|(key, value)| service["spec"][key] = value.clone());
            service.to_string()
        };
        let dry = format!("{SERVICES}?dryRun=All");
        let fixed = json!({"clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30777}]});
        for _ in 0..2 {
            let dry_run = cluster.post(&dry, service("a", fixed.clone())).await.expect(201).json();
            assert_eq!(dry_run["spec"]["clusterIP"], "10.0.0.77");
        }
        let created = cluster.post(SERVICES, service("a", fixed.clone())).await.expect(201).json();
        assert_eq!(created["spec"]["ports"][0]["nodePort"], 30777);
        // A dry run fails for an address that is already allocated.
        let _ = cluster.post(&dry, service("b", fixed.clone())).await.expect(422);
        // A dry-run delete does not release the address.
        let _ = cluster.delete(&format!("{SERVICES}/a?dryRun=All")).await.expect(200);
        let _ = cluster.post(&dry, service("b", fixed)).await.expect(422);
        let moved = json!([{"op": "replace", "path": "/spec/ports/0/nodePort", "value": 30778}]).to_string();
        let dry_run = cluster.patch(&format!("{SERVICES}/a?dryRun=All"), "json", moved).await.expect(200).json();
        assert_eq!(dry_run["spec"]["ports"][0]["nodePort"], 30778);
        let other = json!({"ports": [{"port": 80, "nodePort": 30778}]});
        let _ = cluster.post(SERVICES, service("c", other)).await.expect(201);
        let found = cluster.get(&format!("{SERVICES}/a")).await.expect(200).json();
        assert_eq!(found["spec"]["ports"][0]["nodePort"], 30777);
        cluster.stop().await;
    });
}

#[test]
fn watches_do_not_report_dry_runs() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut watch = cluster.watch(&format!("{PODS}?watch=1&resourceVersion=0")).await;
        let named = pod("tried").to_string();
        let _ = cluster.post(&format!("{PODS}?dryRun=All"), named).await.expect(201);
        let mut generated = pod("");
        generated["metadata"] = json!({"generateName": "g-"});
        let dry_run = cluster.post(&format!("{PODS}?dryRun=All"), generated.to_string()).await.expect(201).json();
        let name = dry_run["metadata"]["name"].as_str().expect("a name");
        assert!(name.starts_with("g-") && dry_run["metadata"]["uid"].is_string());
        assert_eq!(dry_run["metadata"].get("resourceVersion"), None);
        let _ = cluster.get(&format!("{PODS}/{name}")).await.expect(404);
        let _ = cluster.post(PODS, pod("created").to_string()).await.expect(201);
        let body = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let _ = cluster.patch(&format!("{PODS}/created?dryRun=All"), "merge", body).await.expect(200);
        let _ = cluster.delete(&format!("{PODS}/created?dryRun=All&gracePeriodSeconds=0")).await.expect(200);
        // With options in the body, query parameters are ignored.
        let options = json!({"dryRun": ["All"], "gracePeriodSeconds": 0}).to_string();
        let _ = cluster.request("DELETE", &format!("{PODS}/created")).json(options).send().await.expect(200);
        let options = json!({"gracePeriodSeconds": 0}).to_string();
        let _ = cluster.request("DELETE", &format!("{PODS}/created?dryRun=All")).json(options).send().await.expect(200);
        // Upstream sets the deletion timestamp before it removes the pod.
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            watch.expect(kind, "created").await;
        }
        cluster.stop().await;
    });
}

/// Upstream's dry run answers with the object before the storage layer. Only the storage layer checks the
/// resourceVersion.
#[test]
fn a_create_shows_the_resource_version_of_its_body() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let body = json!({"metadata": {"name": "a", "resourceVersion": "5"}}).to_string();
        let put = cluster.put(&format!("{LEASES}/a?dryRun=All"), body.clone()).await.expect(201).json();
        let post = cluster.post(&format!("{LEASES}?dryRun=All"), body.clone()).await.expect(201).json();
        for shown in [put, post] {
            assert_eq!(shown["metadata"]["resourceVersion"], "5");
        }
        let created = cluster.put(&format!("{LEASES}/a"), body).await.expect(201).json();
        assert_ne!(created["metadata"]["resourceVersion"], "5");
        cluster.stop().await;
    });
}
