//! Subresources: `status` is only written through its own path, `scale` sets the replicas, and no-op writes through
//! other subresources change nothing.

use std::sync::Arc;

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::served_kind::{ServedKind, apply_merge_patch, contains, name, resource_version};

/// Checks that writes of the status and of the rest of the object do not affect each other.
pub(crate) async fn check_status(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let sample = kind.sample();
    let Some(new_status) = sample.status else {
        assert!(
            kind.subresource("status").is_none(),
            "the sample of a kind with a status subresource must have a status"
        );
        return;
    };
    assert!(kind.subresource("status").is_some(), "the kind has no status subresource");
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let status_path = format!("{path}/status");
    let with_status = apply_merge_patch(&sample.object, &json!({ "status": new_status }));
    let created = kind.create(&cluster, &sample.object).await.json();
    // Only nodes can be created with a status.
    if kind.kind != "Node" {
        kind.remove(&cluster, &sample.object).await;
        let dry = format!("{collection}?dryRun=All");
        let dry_run = cluster.post(&dry, with_status.to_string()).await.expect(201).json();
        assert_eq!(dry_run["status"], created["status"], "a new object's status");
        let _ = kind.create(&cluster, &sample.object).await;
    }
    let before = cluster.get(&path).await.expect(200).json();
    let mut change = sample.change.clone();
    change.as_object_mut().expect("a patch").remove("metadata");
    let both = apply_merge_patch(&apply_merge_patch(&before, &change), &json!({ "status": new_status }));
    let after = cluster.put(&status_path, both.to_string()).await.expect(200).json();
    assert!(contains(&after["status"], &new_status), "{} does not contain {new_status}", after["status"]);
    for (key, value) in before.as_object().expect("an object") {
        if key != "metadata" && key != "status" {
            assert_eq!(&after[key], value, "{key} after a write of the status");
        }
    }
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"], "generation");
    assert_ne!(resource_version(&after), resource_version(&before));
    assert_eq!(cluster.get(&status_path).await.expect(200).json(), after);

    let mut other = apply_merge_patch(&after, &sample.change);
    other["status"] = before["status"].clone();
    let updated = cluster.put(&path, other.to_string()).await.expect(200).json();
    assert_eq!(updated["status"], after["status"], "the status after an update of the rest");
    assert!(contains(&updated, &sample.change), "{updated} does not contain {}", sample.change);

    // Patching the status with itself changes nothing, for every patch type.
    let body = json!({ "status": updated["status"] });
    for patch in ["merge", "strategic-merge"] {
        let unchanged = cluster.patch(&status_path, patch, body.to_string()).await.expect(200).json();
        assert_eq!(unchanged, updated, "a {patch} patch of the status with itself");
    }
    let patched = cluster.patch(&path, "merge", json!({ "status": null }).to_string()).await.expect(200).json();
    assert_eq!(patched, updated, "a patch of the object must not remove the status");
    kind.remove(&cluster, &sample.object).await;
}

/// Checks the scale subresource.
pub(crate) async fn check_scale(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if kind.subresource("scale").is_none() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let scale_path = format!("{path}/scale");
    let object = kind.create(&cluster, &sample.object).await.json();
    let scale = cluster.get(&scale_path).await.expect(200).json();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"]["replicas"], object["spec"]["replicas"]);
    assert!(scale["status"]["selector"].as_str().is_some_and(|s| s.contains("app")), "{scale}");
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        assert_eq!(scale["metadata"][key], object["metadata"][key], "{key}");
    }
    let more = apply_merge_patch(&scale, &json!({ "spec": { "replicas": 5 } }));
    let dry = cluster.put(&format!("{scale_path}?dryRun=All"), more.to_string()).await.expect(200).json();
    assert_eq!(dry["spec"]["replicas"], 5);
    assert_eq!(cluster.get(&path).await.expect(200).json(), object, "after a dry run");
    let scaled = cluster.put(&scale_path, more.to_string()).await.expect(200).json();
    assert_eq!(scaled["spec"]["replicas"], 5);
    check_replicas(&cluster, &path, &scaled, 5).await;
    let message = format!(
        "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
        kind.group_resource(),
        name(&object)
    );
    cluster.put(&scale_path, more.to_string()).await.expect_error(409, "Conflict", &message);
    let patch = r#"{"spec": {"replicas": 7}}"#;
    let scaled = cluster.patch(&scale_path, "merge", patch).await.expect(200).json();
    check_replicas(&cluster, &path, &scaled, 7).await;
    kind.remove(&cluster, &sample.object).await;
}

async fn check_replicas(cluster: &Cluster, path: &str, scale: &Value, replicas: i64) {
    let object = cluster.get(path).await.expect(200).json();
    assert_eq!(object["spec"]["replicas"], replicas);
    assert_eq!(resource_version(scale), resource_version(&object));
}

/// Checks the subresources that return and accept the object itself.
pub(crate) async fn check_object_subresources(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let all: Vec<_> = kind.subresources.iter().filter(|s| s.kind == kind.kind).collect();
    if all.is_empty() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let _ = kind.create(&cluster, &sample.object).await;
    kind.write_required_status(&cluster).await;
    let created = cluster.get(&path).await.expect(200);
    for subresource in all {
        let path = format!("{path}/{}", subresource.name);
        let has_verb = |verb: &str| subresource.verbs.iter().any(|v| v == verb);
        if has_verb("get") {
            let found = cluster.get(&path).await.expect(200);
            assert_eq!(found.text(), created.text(), "GET of {}", subresource.name);
        }
        if has_verb("update") {
            let unchanged = cluster.put(&path, created.text()).await.expect(200);
            assert_eq!(unchanged.text(), created.text(), "PUT of {} without a change", subresource.name);
        }
        if has_verb("patch") {
            let unchanged = cluster.patch(&path, "strategic-merge", "{}").await.expect(200);
            assert_eq!(unchanged.text(), created.text(), "an empty patch of {}", subresource.name);
        }
        let _ = cluster.delete(&path).await.expect(405);
    }
    kind.remove(&cluster, &sample.object).await;
}
