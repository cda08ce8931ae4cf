//! The plugin `ImagePolicyWebhook` with a webhook in the test's process.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle_integration::{Cluster, HttpsServer, ReceivedRequest, SentResponse, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::other_plugins::start_configured;
use super::{PODS, forbidden, pod};

/// A webhook that answers with a status, or with an error, and records the specs of its reviews.
struct ImageReviewer {
    server: HttpsServer,
    specs: Arc<Mutex<Vec<Value>>>,
    files: TempDir,
}

impl ImageReviewer {
    async fn start(status: fn(&Value) -> Option<Value>) -> Self {
        let specs = Arc::<Mutex<Vec<Value>>>::default();
        let received = specs.clone();
        let answer = move |request: ReceivedRequest| {
            let received = received.clone();
            async move {
                let mut review: Value = serde_json::from_slice(&request.body).expect("JSON");
                assert_eq!(review["apiVersion"], "imagepolicy.k8s.io/v1alpha1");
                assert_eq!((&request.path[..], &review["kind"]), ("/images?timeout=30s", &json!("ImageReview")));
                let status = status(&review["spec"]);
                received.lock().push(review["spec"].clone());
                review["status"] = status.clone().unwrap_or_default();
                SentResponse::json(if status.is_some() { 200 } else { 503 }, review.to_string())
            }
        };
        let server = HttpsServer::start(answer).await;
        Self { server, specs, files: tempfile::tempdir().expect("a folder") }
    }

    async fn cluster(&self, fields: &str) -> Cluster {
        let path = self.files.path().join("kubeconfig");
        std::fs::write(&path, self.server.kubeconfig("/images")).expect("the kubeconfig can be written");
        let configuration = format!("imagePolicy:\n  kubeConfigFile: {}\n{fields}", path.display());
        start_configured("ImagePolicyWebhook", &configuration).await
    }

    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.specs.lock())
    }
}

/// Denies images with `bad` in their name.
fn by_name(spec: &Value) -> Option<Value> {
    let images = spec["containers"].as_array().expect("containers");
    let is_bad = |container: &Value| container["image"].as_str().is_some_and(|image| image.contains("bad"));
    Some(match images.iter().find(|container| is_bad(container)) {
        None => json!({"allowed": true}),
        Some(bad) if bad["image"] == "bad" => json!({"allowed": false}),
        Some(bad) => json!({"allowed": false, "reason": format!("{} is not signed", bad["image"])}),
    })
}

#[test]
fn a_webhook_decides_about_images_and_its_answers_are_cached() {
    run(async {
        let reviewer = ImageReviewer::start(by_name).await;
        let cluster = reviewer.cluster("").await;
        let init = |image: &str| json!({"initContainers": [{"name": "init", "image": image}]});
        let mut annotated: Value = serde_json::from_str(&pod("a", init("j"))).expect("JSON");
        annotated["metadata"]["annotations"] = json!({"x.image-policy.k8s.io/y": "z", "other": "no"});
        let _ = cluster.post(PODS, annotated.to_string()).await.expect(201);
        let spec = json!({
            "annotations": {"x.image-policy.k8s.io/y": "z"},
            "containers": [{"image": "i"}, {"image": "j"}],
            "namespace": "default",
        });
        assert_eq!(reviewer.take(), [spec]);
        for name in ["b", "c"] {
            let why = "image policy webhook backend denied one or more images: \"bad:1\" is not signed";
            let message = format!("pods \"{name}\" is forbidden: {why}");
            forbidden(cluster.post(PODS, pod(name, init("bad:1"))).await, &message);
        }
        assert_eq!(reviewer.take().len(), 1);
        let message = "pods \"d\" is forbidden: one or more images rejected by webhook backend";
        forbidden(cluster.post(PODS, pod("d", init("bad"))).await, message);
        // A change of labels is reviewed as well, with the answer from the cache. A change of the status is not
        // reviewed.
        let labels = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        reviewer.take();
        let _ = cluster.patch(&format!("{PODS}/a"), "merge", labels).await.expect(200);
        assert_eq!(reviewer.take(), [Value::Null; 0]);
        // For ephemeral containers, only their own images are reviewed.
        let containers = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "bad:2"}]}}).to_string();
        let path = format!("{PODS}/a/ephemeralcontainers");
        let why = "image policy webhook backend denied one or more images: \"bad:2\" is not signed";
        let message = format!("pods \"a\" is forbidden: {why}");
        forbidden(cluster.patch(&path, "strategic-merge", containers).await, &message);
        let annotations = json!({"x.image-policy.k8s.io/y": "z"});
        let spec = json!({"annotations": annotations, "containers": [{"image": "bad:2"}], "namespace": "default"});
        assert_eq!(reviewer.take(), [spec]);
        cluster.stop().await;
    });
}

#[test]
fn images_are_allowed_without_an_answer_only_if_that_is_the_default() {
    run(async {
        let reviewer = ImageReviewer::start(|_| None).await;
        let cluster = reviewer.cluster("").await;
        let message = "pods \"p\" is forbidden: the server is currently unable to handle the request";
        forbidden(cluster.post(PODS, pod("p", json!({}))).await, message);
        cluster.stop().await;
        let cluster = reviewer.cluster("  defaultAllow: true\n").await;
        let _ = cluster.post(PODS, pod("p", json!({}))).await.expect(201);
        // Failures are not cached.
        let _ = cluster.post(PODS, pod("q", json!({}))).await.expect(201);
        assert_eq!(reviewer.take().len(), 3);
        cluster.stop().await;
    });
}
