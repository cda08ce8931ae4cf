//! Memory use of the server. This is a separate test program because it measures its process.

use std::sync::Arc;

use pintle_integration::{Cluster, Options, ProcessMemory, Protocol};
use serde_json::json;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The size of each object, in bytes.
const OBJECT_SIZE: usize = 16 << 10;

/// Updates eight objects concurrently, `times` times in total.
async fn update_objects(cluster: &Arc<Cluster>, times: usize) {
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let text = "x".repeat(OBJECT_SIZE);
                for i in 0..times / 8 {
                    let object =
                        json!({"metadata": {"name": format!("m{writer}")}, "data": {"i": i.to_string(), "text": text}});
                    let response = cluster.put(&format!("{CONFIGMAPS}/m{writer}"), object.to_string()).await;
                    if response.status == 404 {
                        let _ = cluster.post(CONFIGMAPS, object.to_string()).await.expect(201);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
}

#[test]
fn slow_watchers_use_a_bounded_amount_of_memory() {
    pintle_integration::run(async {
        let mut options = Options::default();
        options.history.bytes = 1 << 20;
        let cluster = Arc::new(Cluster::with_options(options).await);
        let mut watches = Vec::new();
        for number in 0..40 {
            let protocol = if number % 2 == 0 { Protocol::Any } else { Protocol::Http1 };
            let client = cluster.client(protocol);
            watches.push(client.request("GET", &format!("{CONFIGMAPS}?watch=1")).watch().await);
        }
        // These are more bytes than connections can buffer, and more events than the buffer of a watcher holds.
        update_objects(&cluster, 2000).await;
        let before = ProcessMemory::own().map(|memory| memory.resident);
        update_objects(&cluster, 4000).await;
        let after = ProcessMemory::own().map(|memory| memory.resident);
        // If every watcher kept its own copy of the events, memory would grow 40 times as much.
        if let (Some(before), Some(after)) = (before, after) {
            let growth = after.saturating_sub(before);
            assert!(growth < 1000 * OBJECT_SIZE, "{} KiB after {} KiB", after >> 10, before >> 10);
        }
        // Each watch ends with 410 (Gone), so its client lists again.
        for mut watch in watches {
            let mut last = None;
            while let Some(event) = watch.next().await {
                last = Some(event);
            }
            let last = last.expect("events");
            assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
        }
    });
}
