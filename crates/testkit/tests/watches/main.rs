//! Watches: where they start, what they show, and how they end (KEP-956 for bookmarks, KEP-3157 for streamed lists, the API
//! conventions for the rest). `replay.rs` watches while many write at once.

mod bookmarks;
mod forms;
mod selection;
mod start;
mod streams;
mod websocket;
mod wire;

use std::sync::Arc;

use pintle_testkit::{Cluster, ManualClock, Options, Watch, manual_clock};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn cluster(options: Options) -> Cluster {
    let cluster = Cluster::with_options(options).await;
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
    cluster
}

/// A cluster whose time a test moves.
async fn timed(options: Options) -> (Cluster, Arc<ManualClock>) {
    let clock = manual_clock();
    (cluster(Options { clock: clock.clone(), ..options }).await, clock)
}

async fn start() -> Cluster {
    cluster(Options::default()).await
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

fn map(name: &str, color: &str) -> String {
    json!({"metadata": {"name": name, "labels": {"color": color}}, "data": {"color": color}}).to_string()
}

async fn make(cluster: &Cluster, name: &str, color: &str) -> u64 {
    revision(&cluster.post(MAPS, map(name, color)).await.expect(201).json())
}

async fn paint(cluster: &Cluster, name: &str, color: &str) -> u64 {
    revision(&cluster.put(&format!("{MAPS}/{name}"), map(name, color)).await.expect(200).json())
}

async fn remove(cluster: &Cluster, name: &str) {
    let _ = cluster.delete(&format!("{MAPS}/{name}")).await.expect(200);
}

/// The current revision.
async fn now(cluster: &Cluster) -> u64 {
    revision(&cluster.get(MAPS).await.expect(200).json())
}

async fn open(cluster: &Cluster, path: &str, query: &str) -> Watch {
    cluster.watch(&format!("{path}?watch=1&{query}")).await
}

/// An event in short: `ADDED a 7`, `BOOKMARK 9`.
fn short(event: &Value) -> String {
    let object = &event["object"];
    let words =
        [event["type"].as_str(), object["metadata"]["name"].as_str(), object["metadata"]["resourceVersion"].as_str()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Sees to it that these events come next.
async fn check(watch: &mut Watch, expect: &[String]) {
    for expect in expect {
        let event = watch.next().await.unwrap_or_else(|| panic!("the stream ended before {expect}"));
        assert_eq!(short(&event), *expect, "{event}");
    }
}

/// All events until the stream ends.
async fn all(mut watch: Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        events.push(event);
    }
    events
}
