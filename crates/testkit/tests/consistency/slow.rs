//! A watcher that does not read holds up nobody: it goes on from the log when it reads again, or is told that what it
//! missed is gone.

use std::sync::Arc;
use std::time::Duration;

use pintle_testkit::{Cluster, Options};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn revision(object: &Value) -> u64 {
    crate::object::revision(object["metadata"]["resourceVersion"].as_str())
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let mut slow = cluster.watch(&format!("{MAPS}?watch=1")).await;
        let mut quick = cluster.watch(&format!("{MAPS}?watch=1")).await;
        let text = "x".repeat(64 << 10);
        // Far more than what connections and queues hold.
        let changes = 300;
        let mut longest = Duration::ZERO;
        let mut revisions = Vec::new();
        for i in 0..changes {
            let object = json!({"metadata": {"name": "a"}, "data": {"i": i.to_string(), "text": text}}).to_string();
            let started = std::time::Instant::now();
            let answer = match i {
                0 => cluster.post(MAPS, object).await.expect(201),
                _ => cluster.put(&format!("{MAPS}/a"), object).await.expect(200),
            };
            let event = quick.expect(if i == 0 { "ADDED" } else { "MODIFIED" }, "a").await;
            longest = longest.max(started.elapsed());
            assert_eq!(revision(&event), revision(&answer.json()));
            revisions.push(revision(&event));
        }
        assert!(longest < Duration::from_secs(5), "{longest:?}");
        // The slow one has missed nothing once it reads.
        for expect in revisions {
            let event = slow.next().await.expect("an event");
            assert_eq!(revision(&event["object"]), expect);
        }
    });
}

#[test]
fn a_reader_that_falls_out_of_the_window_is_told() {
    pintle_testkit::run(async {
        let mut options = Options::default();
        options.window.bytes = 1 << 20;
        let cluster = Arc::new(Cluster::with_options(options).await);
        let mut slow = cluster.watch(&format!("{MAPS}?watch=1")).await;
        let text = "x".repeat(20 << 10);
        // More than connections and queues hold, and far more than the window does.
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (cluster, text) = (cluster.clone(), text.clone());
                tokio::spawn(async move {
                    for i in 0..250 {
                        let name = format!("m{writer}");
                        let object = json!({"metadata": {"name": name}, "data": {"i": i.to_string(), "text": text}});
                        let answer = match i {
                            0 => cluster.post(MAPS, object.to_string()).await,
                            _ => cluster.put(&format!("{MAPS}/{name}"), object.to_string()).await,
                        };
                        assert!(answer.status.is_success(), "{}", answer.text());
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("a writer");
        }
        // First what was on its way without a gap, then that something is missing, then the end.
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
        assert!(revisions.len() < 2000, "nothing was lost");
    });
}
