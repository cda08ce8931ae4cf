//! Memory use of the deletion of many objects. This is a separate test program because it measures its process.

use std::sync::Arc;

use pintle_integration::{Cluster, Options, ProcessMemory};
use serde_json::json;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The number of values in each object. Decoded values need many times the memory of their text.
const VALUES: usize = 1500;

/// The number of objects. `PINTLE_OBJECTS` sets it for measurements.
fn object_count() -> usize {
    std::env::var("PINTLE_OBJECTS").map_or(2500, |count| count.parse().expect("a number"))
}

async fn create_objects(cluster: &Arc<Cluster>, count: usize) {
    let values = vec![1; VALUES];
    let body = move |name: String| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"values": values}})
    };
    let creators: Vec<_> = (0..8)
        .map(|creator| {
            let (cluster, body) = (cluster.clone(), body.clone());
            tokio::spawn(async move {
                for n in (creator..count).step_by(8) {
                    let _ = cluster.post(WIDGETS, body(format!("w{n:06}")).to_string()).await.expect(201);
                }
            })
        })
        .collect();
    for creator in creators {
        creator.await.expect("a creator");
    }
}

#[test]
fn the_deletion_of_a_crd_decodes_a_bounded_number_of_objects() {
    pintle_integration::run(async {
        let mut options = Options::default();
        options.history.bytes = 1 << 20;
        let cluster = Arc::new(Cluster::with_options(options).await);
        let crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        let mut crds = cluster.watch(&format!("{CRDS}?watch=1")).await;
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        loop {
            let event = crds.next().await.expect("an event");
            let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
                break;
            }
        }
        let count = object_count();
        create_objects(&cluster, count).await;
        let before = ProcessMemory::own();
        let _ = cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
        while crds.next().await.expect("an event")["type"] != "DELETED" {}
        let after = ProcessMemory::own();
        if let (Some(before), Some(after)) = (before, after) {
            let growth = after.peak.saturating_sub(before.peak);
            // All objects together need more memory than this when they are decoded.
            let limit = (count * VALUES * 16).min(40 << 20);
            assert!(growth < limit, "{} MiB more than {} MiB", growth >> 20, before.resident >> 20);
        }
    });
}
