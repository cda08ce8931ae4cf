//! Clients that leave while their requests wait in a queue.

use std::path::Path;

use pintle_audit::AuditOptions;
use pintle_integration::{HttpsServer, Protocol, SentResponse, eventually, run};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    MAPS, hold_seat, list_as, metric, queue, release_seat, start, start_with, wait_until_executing, wait_until_waiting,
};

/// Records the events of the user `noisy` in a folder.
fn audit_in(folder: &Path) -> AuditOptions {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(file("policy"), policy).expect("a file");
    let mut audit = AuditOptions { policy_file: file("policy"), ..AuditOptions::default() };
    audit.log.path = file("log");
    audit.log.batch.mode = "blocking-strict".to_owned();
    audit
}

/// The stages and the statuses of the events with an audit ID.
fn events(folder: &Path, id: &str) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(folder.join("log")).expect("the log");
    // The last line may not be complete yet.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_request = events.filter(|event| event["auditID"] == id);
    let stage = |event: &Value| event["stage"].as_str().unwrap_or_default().to_owned();
    of_request.map(|event| (stage(&event), event["responseStatus"].clone())).collect()
}

#[test]
fn a_request_whose_client_leaves_the_queue_is_recorded_as_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    run(async move {
        let cluster = start_with(queue(1), |options| options.audit = audit_in(&path)).await;
        let rejected = json!({"metadata": {}, "code": 429});
        let received = ("RequestReceived", Value::Null);
        let list = vec![received.clone(), ("ResponseComplete", rejected.clone())];
        let watch = vec![received, ("ResponseStarted", rejected.clone()), ("ResponseComplete", rejected)];
        for (protocol, name) in [(Protocol::Http1, "http1"), (Protocol::Any, "http2")] {
            for (verb, query, timeouts, stages) in [("LIST", "", 1.0, &list), ("WATCH", "?watch=1", 0.0, &watch)] {
                let client = cluster.client(protocol);
                let series = format!("resource=configmaps,verb={verb},scope=namespace,component=apiserver");
                let selectors = [
                    format!("apiserver_request_total{{{series},code=429}}"),
                    format!("apiserver_request_terminations_total{{{series},code=429}}"),
                    format!("apiserver_request_terminations_total{{{series},code=504}}"),
                    format!("apiserver_request_total{{{series},code=504}}"),
                ];
                let mut before = Vec::new();
                for selector in &selectors {
                    before.push(metric(&cluster, selector).await);
                }
                let seat = hold_seat(&cluster).await;
                let id = format!("{name}-{verb}");
                let request = client.request("GET", &format!("{MAPS}{query}")).header("Impersonate-User", "noisy");
                let request = request.header("Impersonate-Group", "system:authenticated").header("Audit-ID", &id);
                let sent = request.send();
                tokio::select! {
                    _ = sent => panic!("the request does not wait"),
                    () = wait_until_waiting(&cluster, 1) => {}
                }
                // The client has left.
                wait_until_waiting(&cluster, 0).await;
                for ((selector, before), expect) in selectors.iter().zip(before).zip([1.0, 1.0, timeouts, 0.0]) {
                    let found = || async { metric(&cluster, selector).await - before };
                    eventually(&format!("{selector} of {name}"), || async { found().await == expect }).await;
                }
                eventually("the last event", || async { events(&path, &id).len() >= stages.len() }).await;
                let found = events(&path, &id);
                let found: Vec<_> = found.iter().map(|(stage, status)| (stage.as_str(), status.clone())).collect();
                assert_eq!(found, *stages, "{id}");
                release_seat(seat).await;
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn a_write_that_continues_without_its_client_keeps_its_seat() {
    run(async {
        let cluster = start(json!({ "type": "Reject" })).await;
        // The webhook allows a create when the test says so.
        let (began, mut begun) = mpsc::unbounded_channel();
        let webhook = HttpsServer::start(move |request| {
            let began = began.clone();
            async move {
                let (allow, allowed) = tokio::sync::oneshot::channel::<()>();
                let _ = began.send(allow);
                let _ = allowed.await;
                let review: Value = serde_json::from_slice(&request.body).expect("a review");
                let response = json!({"uid": review["request"]["uid"], "allowed": true});
                let review = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
                SentResponse::json(200, review.to_string())
            }
        })
        .await;
        let configuration = json!({
            "metadata": {"name": "slow"},
            "webhooks": [{
                "name": "slow.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 30,
                "clientConfig": {"url": webhook.url("/"), "caBundle": webhook.ca_bundle()},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
                }],
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let _ = cluster.post(path, configuration.to_string()).await.expect(201);
        for (protocol, name) in [(Protocol::Http1, "a"), (Protocol::Any, "b")] {
            let client = cluster.client(protocol);
            let request = client.request("POST", MAPS).header("Impersonate-User", "noisy");
            let request = request.header("Impersonate-Group", "system:authenticated");
            let sent = request.json(json!({"metadata": {"name": name}}).to_string()).send();
            let allow = tokio::select! {
                _ = sent => panic!("the webhook does not answer"),
                allow = begun.recv() => allow.expect("a call of the webhook"),
            };
            // The client has left. Its write continues.
            let left = "apiserver_request_terminations_total{code=504,resource=configmaps,verb=POST}";
            let count = if protocol == Protocol::Http1 { 1.0 } else { 2.0 };
            eventually("the client has left", || async { metric(&cluster, left).await == count }).await;
            let _ = list_as(&cluster, "noisy").await.expect(429);
            allow.send(()).expect("the webhook waits");
            wait_until_executing(&cluster, 0).await;
            let _ = list_as(&cluster, "noisy").await.expect(200);
            let _ = cluster.get(&format!("{MAPS}/{name}")).await.expect(200);
        }
        cluster.stop().await;
    });
}
