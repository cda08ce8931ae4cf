//! Watchers that do not read. They do not delay writers or other watchers. When they read again, they receive the
//! missed events from the watch cache, or 410 Gone if the watch cache no longer has them.

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{Cluster, Options};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn revision(object: &Value) -> u64 {
    crate::object::parse_revision(object["metadata"]["resourceVersion"].as_str())
}

#[test]
fn a_watcher_that_does_not_read_delays_nobody() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut slow = cluster.watch(&format!("{CONFIGMAPS}?watch=1")).await;
        let mut reading = cluster.watch(&format!("{CONFIGMAPS}?watch=1")).await;
        let text = "x".repeat(64 << 10);
        // The connection and the server's buffers hold far fewer changes.
        let changes = 300;
        let mut max_latency = Duration::ZERO;
        let mut revisions = Vec::new();
        for i in 0..changes {
            let object = json!({"metadata": {"name": "a"}, "data": {"i": i.to_string(), "text": text}}).to_string();
            let started = std::time::Instant::now();
            let response = match i {
                0 => cluster.post(CONFIGMAPS, object).await.expect(201),
                _ => cluster.put(&format!("{CONFIGMAPS}/a"), object).await.expect(200),
            };
            let event = reading.expect(if i == 0 { "ADDED" } else { "MODIFIED" }, "a").await;
            max_latency = max_latency.max(started.elapsed());
            assert_eq!(revision(&event), revision(&response.json()));
            revisions.push(revision(&event));
        }
        assert!(max_latency < Duration::from_secs(5), "{max_latency:?}");
        // The slow watcher receives every event when it reads.
        for expected in revisions {
            let event = slow.next().await.expect("an event");
            assert_eq!(revision(&event["object"]), expected);
        }
    });
}

#[test]
fn a_watcher_that_falls_behind_the_history_receives_410() {
    pintle_integration::run(async {
        let mut options = Options::default();
        options.history.bytes = 1 << 20;
        let cluster = Arc::new(Cluster::with_options(options).await);
        let mut slow = cluster.watch(&format!("{CONFIGMAPS}?watch=1")).await;
        let text = "x".repeat(20 << 10);
        // This is more than the connection and the buffers can hold, and far more than the watch cache's history.
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (cluster, text) = (cluster.clone(), text.clone());
                tokio::spawn(async move {
                    for i in 0..250 {
                        let name = format!("m{writer}");
                        let object = json!({"metadata": {"name": name}, "data": {"i": i.to_string(), "text": text}});
                        let response = match i {
                            0 => cluster.post(CONFIGMAPS, object.to_string()).await,
                            _ => cluster.put(&format!("{CONFIGMAPS}/{name}"), object.to_string()).await,
                        };
                        assert!(response.status.is_success(), "{}", response.text());
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("the writer succeeds");
        }
        // First the buffered events without a gap, then the error, then the end.
        let mut events = Vec::new();
        while let Some(event) = slow.next().await {
            events.push(event);
        }
        let error = events.pop().expect("an error");
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(error["object"]["reason"], "Expired");
        let revisions: Vec<u64> = events.iter().map(|event| revision(&event["object"])).collect();
        let first = *revisions.first().expect("events");
        assert!(revisions.iter().copied().eq(first..first + revisions.len() as u64), "{revisions:?}");
        assert!(revisions.len() < 2000, "some events are missing");
    });
}
