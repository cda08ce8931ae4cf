//! `--runtime-config` turns off resources while their objects are stored.

use serde_json::json;

use super::server::{Server, kubectl, printed, serve};

#[test]
fn stored_rules_are_never_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w"},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": {"app": "a"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        },
    ]});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let file = |name: &str, object: &serde_json::Value| {
        let path = data_dir.join(name);
        std::fs::write(&path, object.to_string()).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let server = Server::start(data_dir, &[]);
    printed(data_dir, &["create", "-f", &file("objects.json", &objects)]);
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    printed(data_dir, &["patch", "pod", "p", "--subresource=status", "--patch", &running.to_string()]);
    server.stop();

    let refused = serve(data_dir, &["--runtime-config", "admissionregistration.k8s.io/v1=false"]).output();
    let refused = refused.expect("the program runs");
    assert!(!refused.status.success());
    let why = "--runtime-config disables validatingwebhookconfigurations, of which 1 are stored and would not be enforced: \
               delete them first";
    let found = String::from_utf8_lossy(&refused.stderr);
    assert!(found.contains(why), "{found}");

    // Without the plugins, nothing enforces policies and webhooks.
    let plugins =
        "MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook";
    let off = "admissionregistration.k8s.io/v1=false";
    let server = Server::start(data_dir, &["--runtime-config", off, "--disable-admission-plugins", plugins]);
    assert_eq!(printed(data_dir, &["get", "pods", "-o", "name"]), "pod/p\n");
    let log = server.stop();
    assert!(!log.contains("will retry") && !log.contains("Failed to"), "{log}");

    // The server itself publishes objects of the other two groups.
    let off = "policy/v1=false,discovery.k8s.io/v1=false,coordination.k8s.io/v1=false";
    let server = Server::start(data_dir, &["--runtime-config", off]);
    let path = "/api/v1/namespaces/default/pods/p/eviction";
    let evicted = kubectl(data_dir, &["create", "--raw", path, "-f", &file("eviction.json", &eviction)]);
    let found = String::from_utf8_lossy(&evicted.stderr);
    assert!(found.contains("the server could not find the requested resource"), "{found}");
    assert_eq!(printed(data_dir, &["get", "pods", "-o", "name"]), "pod/p\n");
    let log = server.stop();
    assert!(!log.is_empty());
    assert!(!log.contains("will retry") && !log.contains("Failed to"), "{log}");
}
