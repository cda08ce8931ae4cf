//! Memory that the server's process holds, which is why this test has a process of its own.

use std::sync::Arc;

use pintle_testkit::{Cluster, Options, Protocol};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Bytes of each object.
const SIZE: usize = 16 << 10;

/// What the process holds, in bytes; `None` where the system does not say.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<usize>().ok().map(|kib| kib << 10)
}

/// Changes eight objects so many times.
async fn change(cluster: &Arc<Cluster>, times: usize) {
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let text = "x".repeat(SIZE);
                for i in 0..times / 8 {
                    let object =
                        json!({"metadata": {"name": format!("m{writer}")}, "data": {"i": i.to_string(), "text": text}});
                    let answer = cluster.put(&format!("{MAPS}/m{writer}"), object.to_string()).await;
                    if answer.status == 404 {
                        let _ = cluster.post(MAPS, object.to_string()).await.expect(201);
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
fn watchers_that_do_not_read_hold_a_bounded_amount() {
    pintle_testkit::run(async {
        let mut options = Options::default();
        options.window.bytes = 1 << 20;
        let cluster = Arc::new(Cluster::with_options(options).await);
        let mut watches = Vec::new();
        for number in 0..40 {
            let protocol = if number % 2 == 0 { Protocol::Any } else { Protocol::Http1 };
            let client = cluster.client(protocol);
            watches.push(client.request("GET", &format!("{MAPS}?watch=1")).watch().await);
        }
        // More than connections hold, and more events than wait for a watcher.
        change(&cluster, 2000).await;
        let before = resident();
        change(&cluster, 4000).await;
        let after = resident();
        // Had every watcher kept its own, it would be 40 times as much.
        if let (Some(before), Some(after)) = (before, after) {
            let grown = after.saturating_sub(before);
            assert!(grown < 1000 * SIZE, "{} KiB after {} KiB", after >> 10, before >> 10);
        }
        // Each is told, and can go on from a new list.
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
