//! Resources that are served at several versions, and create-only resources.

use std::sync::Arc;

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::runner::discover;
use super::served_kind::{SELECTOR, ServedKind, name, resource_version, without_volatile_fields};

/// Checks that an object that is created at one version is the same at every other, and that writes at the other
/// version lose nothing.
pub(crate) async fn check_versions(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let hub = |kind: &ServedKind| kind.facts().storage().map(|s| (s.prefix, s.hub_group, s.hub_version));
    let Some(stored_as) = hub(&kind) else { return };
    let served = discover(&cluster).await;
    let others: Vec<&Arc<ServedKind>> =
        served.iter().filter(|o| hub(o) == Some(stored_as) && o.api_version() != kind.api_version()).collect();
    let sample = kind.sample();
    for other in others {
        let created = kind.create(&cluster, &sample.object).await;
        let object = created.json();
        let path = other.path(&sample.object);
        let found = cluster.get(&path).await.expect(200);
        let view = found.json();
        assert_eq!((&view["kind"], &view["apiVersion"]), (&json!(other.kind), &json!(other.api_version())));
        for key in ["name", "uid", "resourceVersion", "creationTimestamp", "labels"] {
            assert_eq!(view["metadata"][key], object["metadata"][key], "{key}");
        }
        let listed = cluster.get(&format!("{}?{SELECTOR}", other.collection())).await.expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
        check_watch(&cluster, other, &view).await;

        // A no-op update at the other version is not written.
        let unchanged = cluster.put(&path, found.text()).await.expect(200);
        assert_eq!(unchanged.text(), found.text(), "an update without a change at {}", other.api_version());
        let back = cluster.get(&kind.path(&sample.object)).await.expect(200);
        assert_eq!(back.text(), created.text(), "after an update without a change at {}", other.api_version());
        let patch = r#"{"metadata": {"labels": {"step": "1"}}}"#;
        let patched = cluster.patch(&path, "merge", patch).await.expect(200).json();
        let mut back = cluster.get(&kind.path(&sample.object)).await.expect(200).json();
        assert_eq!(resource_version(&back), resource_version(&patched));
        back["metadata"]["labels"].as_object_mut().expect("labels").remove("step");
        assert_eq!(
            without_volatile_fields(back),
            without_volatile_fields(object),
            "after a patch at {}",
            other.api_version()
        );
        kind.remove(&cluster, &sample.object).await;
    }
}

/// Checks that a watch at the other version returns the same object as a GET.
async fn check_watch(cluster: &Cluster, other: &ServedKind, view: &Value) {
    let mut watch = cluster.watch(&format!("{}?watch=true&{SELECTOR}", other.collection())).await;
    assert_eq!(&watch.expect("ADDED", name(view)).await, view);
}

/// Checks that a create-only resource responds and stores nothing.
pub(crate) async fn check_create_only(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if kind.has_verb("get") {
        return;
    }
    assert_eq!(kind.verbs, ["create"]);
    let sample = kind.sample();
    for (path, object) in &sample.prerequisites {
        let _ = cluster.post(path, object.to_string()).await.expect(201);
    }
    let response = cluster.post(&kind.collection(), sample.object.to_string()).await.expect(201).json();
    assert!(response["kind"] == json!(kind.kind) || response["status"] == "Success", "{response}");
    let _ = cluster.get(&kind.collection()).await.expect(405);
}
