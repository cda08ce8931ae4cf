//! Resources that show the objects of another version, and those that keep nothing.

use std::sync::Arc;

use pintle_testkit::Cluster;
use serde_json::{Value, json};

use crate::kind::{Kind, SELECTOR, blanked, name, version};
use crate::walk::discover;

/// An object that is written through one version is the same object in every other, and goes through it unharmed.
pub(crate) async fn views(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    let hub = |kind: &Kind| kind.facts().storage().map(|s| (s.prefix, s.hub_group, s.hub_version));
    let Some(place) = hub(&kind) else { return };
    let served = discover(&cluster).await;
    let others: Vec<&Arc<Kind>> =
        served.iter().filter(|o| hub(o) == Some(place) && o.api_version() != kind.api_version()).collect();
    let sample = kind.sample();
    for other in others {
        let created = kind.create(&cluster, &sample.object).await;
        let object = created.json();
        let path = other.path(&sample.object);
        let seen = cluster.get(&path).await.expect(200);
        let view = seen.json();
        assert_eq!((&view["kind"], &view["apiVersion"]), (&json!(other.kind), &json!(other.api_version())));
        for key in ["name", "uid", "resourceVersion", "creationTimestamp", "labels"] {
            assert_eq!(view["metadata"][key], object["metadata"][key], "{key}");
        }
        let listed = cluster.get(&format!("{}?{SELECTOR}", other.collection())).await.expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
        check_watch(&cluster, other, &view).await;

        // Through the other version without a change: there is nothing to store.
        let same = cluster.put(&path, seen.text()).await.expect(200);
        assert_eq!(same.text(), seen.text(), "an update without a change at {}", other.api_version());
        let back = cluster.get(&kind.path(&sample.object)).await.expect(200);
        assert_eq!(back.text(), created.text(), "after an update without a change at {}", other.api_version());
        let patch = r#"{"metadata": {"labels": {"step": "1"}}}"#;
        let patched = cluster.patch(&path, "merge", patch).await.expect(200).json();
        let mut back = cluster.get(&kind.path(&sample.object)).await.expect(200).json();
        assert_eq!(version(&back), version(&patched));
        back["metadata"]["labels"].as_object_mut().expect("labels").remove("step");
        assert_eq!(blanked(back), blanked(object), "after a patch at {}", other.api_version());
        kind.remove(&cluster, &sample.object).await;
    }
}

/// A watch at the other version shows the object as a GET there does.
async fn check_watch(cluster: &Cluster, other: &Kind, view: &Value) {
    let mut watch = cluster.watch(&format!("{}?watch=true&{SELECTOR}", other.collection())).await;
    assert_eq!(&watch.expect("ADDED", name(view)).await, view);
}

/// A resource that is only created answers and keeps nothing.
pub(crate) async fn created_only(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if kind.can("get") {
        return;
    }
    assert_eq!(kind.verbs, ["create"]);
    let sample = kind.sample();
    for (path, object) in &sample.needs {
        let _ = cluster.post(path, object.to_string()).await.expect(201);
    }
    let answer = cluster.post(&kind.collection(), sample.object.to_string()).await.expect(201).json();
    assert!(answer["kind"] == json!(kind.kind) || answer["status"] == "Success", "{answer}");
    let _ = cluster.get(&kind.collection()).await.expect(405);
}
