//! Admission of connections.

use pintle_integration::{Cluster, HttpsServer, Kubelet, Options, SentResponse, run};
use serde_json::{Value, json};
use std::sync::Arc;

/// The reviews that a webhook got.
type Reviews = Arc<parking_lot::Mutex<Vec<Value>>>;

/// Starts a webhook that denies connections whose command is `rm`.
async fn start_webhook() -> (HttpsServer, Reviews) {
    let reviews = Reviews::default();
    let seen = reviews.clone();
    let server = HttpsServer::start(move |request| {
        let seen = seen.clone();
        async move {
            let review: Value = serde_json::from_slice(&request.body).expect("JSON");
            let denied = review["request"]["object"]["command"] == json!(["rm"]);
            let answer = json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {
                    "uid": review["request"]["uid"],
                    "allowed": !denied,
                    "status": {"message": "no rm here"},
                },
            });
            seen.lock().push(review);
            SentResponse::json(200, answer.to_string())
        }
    });
    (server.await, reviews)
}

async fn create_configuration(cluster: &Cluster, server: &HttpsServer) {
    let configuration = json!({
        "metadata": {"name": "w"},
        "webhooks": [{
            "name": "w.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": server.url("/"), "caBundle": server.ca_bundle()},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
                "resources": ["pods/exec", "pods/proxy", "nodes/proxy"],
            }],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let _ = cluster.post(path, configuration.to_string()).await.expect(201);
}

#[test]
fn webhooks_review_the_options_of_connections() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let (server, reviews) = start_webhook().await;
        create_configuration(&cluster, &server).await;
        let exec = "/api/v1/namespaces/default/pods/p/exec";
        let message = "admission webhook \"w.example.com\" denied the request: no rm here";
        let response = cluster.post(&format!("{exec}?command=rm&stdout=1&container=c"), "").await.expect(400).json();
        assert_eq!(response["message"], message);
        let review = reviews.lock().pop().expect("a review");
        let request = &review["request"];
        let kind = json!({"group": "", "version": "v1", "kind": "PodExecOptions"});
        let resource = json!({"group": "", "version": "v1", "resource": "pods"});
        assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
        assert_eq!((&request["resource"], &request["requestResource"]), (&resource, &resource));
        for (field, expect) in [
            ("subResource", json!("exec")),
            ("requestSubResource", json!("exec")),
            ("name", json!("p")),
            ("namespace", json!("default")),
            ("operation", json!("CONNECT")),
            ("oldObject", json!(null)),
            ("options", json!(null)),
            ("dryRun", json!(false)),
            (
                "object",
                json!({
                    "kind": "PodExecOptions", "apiVersion": "v1", "stdout": true, "container": "c", "command": ["rm"],
                }),
            ),
        ] {
            assert_eq!(request[field], expect, "{field}");
        }
        // Other commands are admitted. They fail because the request asks for no upgrade.
        let response = cluster.post(&format!("{exec}?command=ls"), "").await;
        response.expect_error(400, "BadRequest", "Upgrade request required");
        let _ = cluster.get("/api/v1/nodes/n/proxy/stats/").await.expect(200);
        let review = reviews.lock().pop().expect("a review");
        let expect = json!({"kind": "NodeProxyOptions", "apiVersion": "v1", "path": "/stats/"});
        assert_eq!(review["request"]["object"], expect);
        assert_eq!(review["request"].get("namespace"), None);
        cluster.stop().await;
    });
}

#[test]
fn policies_decide_about_connections() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let policy = json!({
            "metadata": {"name": "v"},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"],
                }]},
                "validations": [{
                    "expression": "request.operation == 'CONNECT' && object.command[0] != 'rm' && request.name == 'p'",
                    "message": "no rm here",
                }],
            },
        });
        let group = "/apis/admissionregistration.k8s.io/v1";
        let path = format!("{group}/validatingadmissionpolicies");
        let _ = cluster.post(&path, policy.to_string()).await.expect(201);
        let binding = json!({"metadata": {"name": "v"}, "spec": {"policyName": "v", "validationActions": ["Deny"]}});
        let path = format!("{group}/validatingadmissionpolicybindings");
        let _ = cluster.post(&path, binding.to_string()).await.expect(201);
        let exec = "/api/v1/namespaces/default/pods/p/exec";
        let response = cluster.post(&format!("{exec}?command=rm"), "").await.expect(422).json();
        let message = response["message"].as_str().expect("a message");
        assert!(
            message.ends_with("ValidatingAdmissionPolicy 'v' with binding 'v' denied request: no rm here"),
            "{message}"
        );
        let response = cluster.post(&format!("{exec}?command=ls"), "").await;
        response.expect_error(400, "BadRequest", "Upgrade request required");
        cluster.stop().await;
    });
}

#[test]
fn connections_pass_all_plugins() {
    run(async {
        let kubelet = Kubelet::start();
        let mut options = pintle_integration::bootstrapped();
        options.kubelets = kubelet.options();
        let cluster = Cluster::with_options(options).await;
        kubelet.create_node(&cluster, "n", &[]).await;
        let account = r#"{"metadata": {"name": "default"}}"#;
        let _ = cluster.post("/api/v1/namespaces/default/serviceaccounts", account).await;
        kubelet.create_pod(&cluster, "p", &["c"]).await;
        let path = "/api/v1/namespaces/default/pods/p/exec?command=ls";
        cluster.post(path, "").await.expect_error(400, "BadRequest", "Upgrade request required");
        let _ = cluster.get("/api/v1/namespaces/default/pods/p/proxy/").await.expect(200);
        cluster.stop().await;
    });
}
