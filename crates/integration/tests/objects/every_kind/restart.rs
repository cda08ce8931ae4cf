//! Restarts: every object is the same as before, byte for byte, and watches resume from an old resourceVersion.

use pintle_integration::Cluster;
use serde_json::json;

use super::runner::{create_namespace, discover_without_crds, panic_message};
use super::served_kind::{SELECTOR, ServedKind, name, resource_version};

/// The state of a kind before the restart.
struct StateBeforeRestart {
    kind: std::sync::Arc<ServedKind>,
    /// The resourceVersion before the last change.
    from: String,
    /// The object, as bytes.
    object: String,
    /// The list, as bytes.
    list: String,
}

fn list_path(kind: &ServedKind) -> String {
    format!("{}?{SELECTOR}", kind.collection())
}

/// Creates and changes one object of every kind, restarts, and compares.
pub(crate) async fn check_restart() {
    let cluster = Cluster::durable().await;
    create_namespace(&cluster).await;
    let mut all = Vec::new();
    for kind in discover_without_crds(&cluster).await.into_iter().filter(|kind| kind.is_stored()) {
        let sample = kind.sample();
        let path = kind.path(&sample.object);
        let created = kind.create(&cluster, &sample.object).await.json();
        let patch = json!({ "metadata": { "labels": { "step": "1" } } });
        let _ = cluster.patch(&path, "merge", patch.to_string()).await.expect(200);
        all.push((kind, resource_version(&created).to_owned(), path));
    }
    let mut before = Vec::new();
    for (kind, from, path) in all {
        let object = cluster.get(&path).await.expect(200).text();
        let list = cluster.get(&list_path(&kind)).await.expect(200).text();
        before.push(StateBeforeRestart { kind, from, object, list });
    }
    let cluster = std::sync::Arc::new(cluster.restart().await);
    let mut failures = Vec::new();
    let kinds: Vec<_> = before.iter().map(|before| before.kind.clone()).collect();
    for before in before {
        let what = before.kind.to_string();
        if let Err(error) = tokio::spawn(check_kind(cluster.clone(), before)).await {
            failures.push(format!("{what}: {}", panic_message(error)));
        }
    }
    for kind in kinds {
        let sample = kind.sample();
        let patch = sample.change.to_string();
        let path = kind.path(&sample.object);
        let changed = cluster.patch(&path, "merge", patch).await.expect(200).text();
        assert_eq!(cluster.get(&path).await.expect(200).text(), changed, "{kind} after a change");
    }
    assert!(failures.is_empty(), "{} kinds fail:\n{}", failures.len(), failures.join("\n"));
    if let Some(cluster) = std::sync::Arc::into_inner(cluster) {
        cluster.stop().await;
    }
}

async fn check_kind(cluster: std::sync::Arc<Cluster>, before: StateBeforeRestart) {
    let StateBeforeRestart { kind, from, object, list } = before;
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let found = cluster.get(&path).await.expect(200);
    assert_eq!(found.text(), object);
    let items = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON")["items"].clone();
    assert_eq!(items(&cluster.get(&list_path(&kind)).await.expect(200).text()), items(&list));
    if kind.has_verb("watch") {
        let mut watch = cluster.watch(&format!("{}&watch=true&resourceVersion={from}", list_path(&kind))).await;
        loop {
            // The samples of other versions of the same resource are in the same watch cache.
            let event = watch.next().await.expect("an event");
            if name(&event["object"]) == name(&sample.object) {
                assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &found.json()));
                break;
            }
        }
    }
}
