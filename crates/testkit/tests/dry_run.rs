//! Requests that are tried only: the answer is that of the real one, and nothing of it happens.

use pintle_testkit::{Cluster, Response};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// A request for a certificate, in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIYk1JR0RBZ0VBTUNFeERqQU1CZ05WQkFvTUJYTjNaV1Z3TVE4d0RRWURWUVFEREFaellXMXdiR1V3V1RBVApCZ2NxaGtqT1BRSUJCZ2dxaGtqT1BRTUJCd05DQUFTZkk4MS8xZG52SnVHQUZZM2JzalB4MFB6VTkwSEVRd0FRCnF2cThXVnNiVS83emcyOElDNklkYkNVYVpCNFRHaVNEaHloM09jQm52MEdkQnpQRXJNWDVvQUF3Q2dZSUtvWkkKemowRUF3SURSd0F3UkFJZ0tINjg5bmsxKzNsdWNrTnJGVEJ4Vy9EbG1zeE1YekNtYWNFdzArU0QrcDRDSUcxegpUblJ5OHRQam9JOGJxUm9xRnZieW1iLy9BaUp0YXMvOGpIaTUyUWhRCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

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

/// The newest revision of the store.
async fn revision(cluster: &Cluster) -> String {
    let list = cluster.get("/api/v1/namespaces").await.expect(200).json();
    list["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
}

/// An answer without what differs from one write to the next.
fn shown(answer: &Response) -> (u16, Value) {
    let mut object = answer.json();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["resourceVersion", "uid", "creationTimestamp", "deletionTimestamp", "managedFields"] {
            metadata.remove(name);
        }
    }
    if let Some(details) = object.get_mut("details").and_then(Value::as_object_mut) {
        details.remove("uid");
    }
    (answer.status.as_u16(), object)
}

/// Tries a request, then makes it, and compares the answers.
async fn check(cluster: &Cluster, method: &str, path: &str, media_type: &str, body: &Value) {
    let before = revision(cluster).await;
    let joint = if path.contains('?') { '&' } else { '?' };
    let send = async |path: &str| {
        let ask = cluster.request(method, path);
        if body.is_null() { ask.send().await } else { ask.body(media_type, body.to_string()).send().await }
    };
    let tried = send(&format!("{path}{joint}dryRun=All")).await;
    assert_eq!(revision(cluster).await, before, "{method} {path} was only tried");
    let made = send(path).await;
    assert!(made.status.is_success(), "{method} {path}: {}", made.text());
    assert_eq!(shown(&tried), shown(&made), "{method} {path}");
    assert_ne!(revision(cluster).await, before, "{method} {path} was made");
}

#[test]
fn every_verb_and_subresource_can_be_tried() {
    const JSON: &str = "application/json";
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let status = json!({"status": {"phase": "Running"}});
        let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
        let resources = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        let applied =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"paused": true}});
        let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
        let request = json!({"metadata": {"name": "r"}, "spec": {
            "request": REQUEST, "signerName": "example.com/signer", "usages": ["digital signature", "client auth"],
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
            ("POST", REQUESTS.to_owned(), JSON, request),
            ("PATCH", format!("{REQUESTS}/r/approval"), MERGE, approval),
            ("DELETE", format!("{DEPLOYMENTS}/d"), JSON, Value::Null),
            ("DELETE", format!("{PODS}/p?gracePeriodSeconds=5"), JSON, Value::Null),
            ("DELETE", format!("{PODS}?gracePeriodSeconds=0"), JSON, Value::Null),
        ] {
            check(&cluster, method, &path, media_type, &body).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn what_is_tried_takes_no_address() {
    pintle_testkit::run(async {
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
            let tried = cluster.post(&dry, service("a", fixed.clone())).await.expect(201).json();
            assert_eq!(tried["spec"]["clusterIP"], "10.0.0.77");
        }
        let made = cluster.post(SERVICES, service("a", fixed.clone())).await.expect(201).json();
        assert_eq!(made["spec"]["ports"][0]["nodePort"], 30777);
        // What is taken cannot be had, not even on trial.
        let _ = cluster.post(&dry, service("b", fixed.clone())).await.expect(422);
        // A trial of its end does not give it back.
        let _ = cluster.delete(&format!("{SERVICES}/a?dryRun=All")).await.expect(200);
        let _ = cluster.post(&dry, service("b", fixed)).await.expect(422);
        let moved = json!([{"op": "replace", "path": "/spec/ports/0/nodePort", "value": 30778}]).to_string();
        let tried = cluster.patch(&format!("{SERVICES}/a?dryRun=All"), "json", moved).await.expect(200).json();
        assert_eq!(tried["spec"]["ports"][0]["nodePort"], 30778);
        let other = json!({"ports": [{"port": 80, "nodePort": 30778}]});
        let _ = cluster.post(SERVICES, service("c", other)).await.expect(201);
        let found = cluster.get(&format!("{SERVICES}/a")).await.expect(200).json();
        assert_eq!(found["spec"]["ports"][0]["nodePort"], 30777);
        cluster.stop().await;
    });
}

#[test]
fn nobody_hears_of_what_is_tried() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let mut watch = cluster.watch(&format!("{PODS}?watch=1&resourceVersion=0")).await;
        let named = pod("tried").to_string();
        let _ = cluster.post(&format!("{PODS}?dryRun=All"), named).await.expect(201);
        let mut generated = pod("");
        generated["metadata"] = json!({"generateName": "g-"});
        let tried = cluster.post(&format!("{PODS}?dryRun=All"), generated.to_string()).await.expect(201).json();
        let name = tried["metadata"]["name"].as_str().expect("a name");
        assert!(name.starts_with("g-") && tried["metadata"]["uid"].is_string());
        assert_eq!(tried["metadata"].get("resourceVersion"), None);
        let _ = cluster.get(&format!("{PODS}/{name}")).await.expect(404);
        let _ = cluster.post(PODS, pod("made").to_string()).await.expect(201);
        let body = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let _ = cluster.patch(&format!("{PODS}/made?dryRun=All"), "merge", body).await.expect(200);
        let _ = cluster.delete(&format!("{PODS}/made?dryRun=All&gracePeriodSeconds=0")).await.expect(200);
        // Options in a body are all that counts.
        let options = json!({"dryRun": ["All"], "gracePeriodSeconds": 0}).to_string();
        let _ = cluster.request("DELETE", &format!("{PODS}/made")).json(options).send().await.expect(200);
        let options = json!({"gracePeriodSeconds": 0}).to_string();
        let _ = cluster.request("DELETE", &format!("{PODS}/made?dryRun=All")).json(options).send().await.expect(200);
        // Upstream marks the object before it takes it away.
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            watch.expect(kind, "made").await;
        }
        cluster.stop().await;
    });
}
