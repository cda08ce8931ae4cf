//! Watches from the list's resourceVersion: they deliver the changes of a sample in order and as stored.

use std::sync::Arc;

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::served_kind::{SELECTOR, ServedKind, apply_merge_patch, name, resource_version};

/// Checks the events of a watch with a selector over the lifetime of a sample.
pub(crate) async fn check_watch(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("watch") {
        return;
    }
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let name = name(&sample.object);
    let before = cluster.get(&format!("{collection}?{SELECTOR}")).await.expect(200).json();
    assert_eq!(before["items"], json!([]));
    let from = format!("watch=true&resourceVersion={}", resource_version(&before));
    let mut watch = cluster.watch(&format!("{collection}?{from}&{SELECTOR}")).await;

    let created = kind.create(&cluster, &sample.object).await.json();
    assert_eq!(watch.expect("ADDED", name).await, created);
    let changed = set_labels(&cluster, &path, json!({ "step": "1" })).await;
    assert_eq!(watch.expect("MODIFIED", name).await, changed);
    // An object that no longer matches is reported as deleted: in its previous state, with the new resourceVersion.
    let unselected = set_labels(&cluster, &path, json!({ "sweep": null })).await;
    let deleted = watch.expect("DELETED", name).await;
    let at = json!({ "metadata": { "resourceVersion": resource_version(&unselected) } });
    assert_eq!(deleted, apply_merge_patch(&changed, &at));
    let _ = set_labels(&cluster, &path, json!({ "step": "2" })).await;
    let back = set_labels(&cluster, &path, json!({ "sweep": "yes" })).await;
    assert_eq!(watch.expect("ADDED", name).await, back);
    kind.remove(&cluster, &sample.object).await;
    let last = read_until_deleted(&mut watch).await;
    assert_eq!(last["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(revision(&last) > revision(&back), "the deletion must have a revision of its own: {last}");

    // Watch again from the same resourceVersion, by name.
    let field = format!("fieldSelector=metadata.name%3D{name}");
    let mut watch = cluster.watch(&format!("{collection}?{from}&{field}")).await;
    assert_eq!(watch.expect("ADDED", name).await, created);
    assert_eq!(watch.expect("MODIFIED", name).await, changed);
    assert_eq!(watch.expect("MODIFIED", name).await, unselected);
}

/// Reads events up to the deletion.
async fn read_until_deleted(watch: &mut pintle_integration::Watch) -> Value {
    loop {
        let event = watch.next().await.expect("an event");
        match event["type"].as_str() {
            Some("DELETED") => return event["object"].clone(),
            // Finalizers are removed one by one.
            Some("MODIFIED") => {}
            _ => panic!("{event}"),
        }
    }
}

fn revision(object: &Value) -> u64 {
    resource_version(object).parse().expect("a number")
}

async fn set_labels(cluster: &Cluster, path: &str, labels: Value) -> Value {
    let patch = json!({ "metadata": { "labels": labels } });
    cluster.patch(path, "merge", patch.to_string()).await.expect(200).json()
}
