//! Watches: what happens to a sample is seen from the list's resourceVersion on, in order and as it was stored.

use std::sync::Arc;

use pintle_testkit::Cluster;
use serde_json::{Value, json};

use crate::kind::{Kind, SELECTOR, merged, name, version};

/// A sample's life as a watcher with a selector sees it.
pub(crate) async fn watched(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("watch") {
        return;
    }
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let name = name(&sample.object);
    let before = cluster.get(&format!("{collection}?{SELECTOR}")).await.expect(200).json();
    assert_eq!(before["items"], json!([]));
    let from = format!("watch=true&resourceVersion={}", version(&before));
    let mut watch = cluster.watch(&format!("{collection}?{from}&{SELECTOR}")).await;

    let created = kind.create(&cluster, &sample.object).await.json();
    assert_eq!(watch.expect("ADDED", name).await, created);
    let changed = label(&cluster, &path, json!({ "step": "1" })).await;
    assert_eq!(watch.expect("MODIFIED", name).await, changed);
    // What is no longer selected is gone for this watcher: it sees the object as it was, at the new version.
    let hidden = label(&cluster, &path, json!({ "sweep": null })).await;
    let gone = watch.expect("DELETED", name).await;
    let at = json!({ "metadata": { "resourceVersion": version(&hidden) } });
    assert_eq!(gone, merged(&changed, &at));
    let _ = label(&cluster, &path, json!({ "step": "2" })).await;
    let back = label(&cluster, &path, json!({ "sweep": "yes" })).await;
    assert_eq!(watch.expect("ADDED", name).await, back);
    kind.remove(&cluster, &sample.object).await;
    let last = ended(&mut watch).await;
    assert_eq!(last["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(number(&last) > number(&back), "a deletion has a version of its own: {last}");

    // The same again from the start, by name.
    let field = format!("fieldSelector=metadata.name%3D{name}");
    let mut watch = cluster.watch(&format!("{collection}?{from}&{field}")).await;
    assert_eq!(watch.expect("ADDED", name).await, created);
    assert_eq!(watch.expect("MODIFIED", name).await, changed);
    assert_eq!(watch.expect("MODIFIED", name).await, hidden);
}

/// Reads on to the deletion.
async fn ended(watch: &mut pintle_testkit::Watch) -> Value {
    loop {
        let event = watch.next().await.expect("an event");
        match event["type"].as_str() {
            Some("DELETED") => return event["object"].clone(),
            // Finalizers go one by one.
            Some("MODIFIED") => {}
            _ => panic!("{event}"),
        }
    }
}

fn number(object: &Value) -> u64 {
    version(object).parse().expect("a number")
}

async fn label(cluster: &Cluster, path: &str, labels: Value) -> Value {
    let patch = json!({ "metadata": { "labels": labels } });
    cluster.patch(path, "merge", patch.to_string()).await.expect(200).json()
}
