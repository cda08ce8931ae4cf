//! Subresources: a status is written by its own path alone, a scale sets the replicas, and those that take the object
//! itself keep what does not change.

use std::sync::Arc;

use pintle_testkit::Cluster;
use serde_json::{Value, json};

use crate::kind::{Kind, contains, merged, name, version};

/// Status and the rest of an object do not write each other.
pub(crate) async fn status(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    let sample = kind.sample();
    let Some(wanted) = sample.status else {
        assert!(kind.subresource("status").is_none(), "a sample of a kind with a status needs one");
        return;
    };
    assert!(kind.subresource("status").is_some(), "there is no status to write");
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let status_path = format!("{path}/status");
    let with_status = merged(&sample.object, &json!({ "status": wanted }));
    let created = kind.create(&cluster, &sample.object).await.json();
    // Nodes alone bring their status along.
    if kind.kind != "Node" {
        kind.remove(&cluster, &sample.object).await;
        let dry = format!("{collection}?dryRun=All");
        let tried = cluster.post(&dry, with_status.to_string()).await.expect(201).json();
        assert_eq!(tried["status"], created["status"], "a new object's status");
        let _ = kind.create(&cluster, &sample.object).await;
    }
    let before = cluster.get(&path).await.expect(200).json();
    let mut change = sample.change.clone();
    change.as_object_mut().expect("a patch").remove("metadata");
    let both = merged(&merged(&before, &change), &json!({ "status": wanted }));
    let after = cluster.put(&status_path, both.to_string()).await.expect(200).json();
    assert!(contains(&after["status"], &wanted), "{wanted} is not in {}", after["status"]);
    for (key, value) in before.as_object().expect("an object") {
        if key != "metadata" && key != "status" {
            assert_eq!(&after[key], value, "{key} after a write of the status");
        }
    }
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"], "generation");
    assert_ne!(version(&after), version(&before));
    assert_eq!(cluster.get(&status_path).await.expect(200).json(), after);

    let mut other = merged(&after, &sample.change);
    other["status"] = before["status"].clone();
    let updated = cluster.put(&path, other.to_string()).await.expect(200).json();
    assert_eq!(updated["status"], after["status"], "the status after an update of the rest");
    assert!(contains(&updated, &sample.change), "{} is not in {updated}", sample.change);

    // A patch of the status with itself is nothing, in every type.
    let body = json!({ "status": updated["status"] });
    for patch in ["merge", "strategic-merge"] {
        let same = cluster.patch(&status_path, patch, body.to_string()).await.expect(200).json();
        assert_eq!(same, updated, "a {patch} patch of the status with itself");
    }
    let through = cluster.patch(&path, "merge", json!({ "status": null }).to_string()).await.expect(200).json();
    assert_eq!(through, updated, "a patch of the object does not take its status away");
    kind.remove(&cluster, &sample.object).await;
}

/// The scale of a kind that has one.
pub(crate) async fn scale(cluster: Arc<Cluster>, kind: Arc<Kind>) {
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
    let more = merged(&scale, &json!({ "spec": { "replicas": 5 } }));
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
    assert_eq!(version(scale), version(&object));
}

/// The subresources that show and take the object itself.
pub(crate) async fn whole_objects(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    let all: Vec<_> = kind.subresources.iter().filter(|s| s.kind == kind.kind).collect();
    if all.is_empty() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let created = kind.create(&cluster, &sample.object).await;
    for subresource in all {
        let path = format!("{path}/{}", subresource.name);
        let has = |verb: &str| subresource.verbs.iter().any(|v| v == verb);
        if has("get") {
            let shown = cluster.get(&path).await.expect(200);
            assert_eq!(shown.text(), created.text(), "GET of {}", subresource.name);
        }
        if has("update") {
            let same = cluster.put(&path, created.text()).await.expect(200);
            assert_eq!(same.text(), created.text(), "PUT of {} without a change", subresource.name);
        }
        if has("patch") {
            let same = cluster.patch(&path, "strategic-merge", "{}").await.expect(200);
            assert_eq!(same.text(), created.text(), "an empty patch of {}", subresource.name);
        }
        let _ = cluster.delete(&path).await.expect(405);
    }
    kind.remove(&cluster, &sample.object).await;
}
