//! Watches: their start, their events, and their end (KEP-956 for bookmarks, KEP-3157 for watch lists, the API
//! conventions for the rest). The tests in `crates/pintle/tests/consistency` watch during concurrent writes.

mod bookmarks;
mod initial_events;
mod representations;
mod selection;
mod start;
mod websocket;
mod wire;

use std::sync::Arc;

use pintle_integration::{Cluster, ManualClock, Options, Watch, manual_clock};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn cluster_with_options(options: Options) -> Cluster {
    let cluster = Cluster::with_options(options).await;
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
    cluster
}

/// Starts a cluster with a manual clock.
async fn cluster_with_manual_clock(options: Options) -> (Cluster, Arc<ManualClock>) {
    let clock = manual_clock();
    (cluster_with_options(Options { clock: clock.clone(), ..options }).await, clock)
}

async fn start_cluster() -> Cluster {
    cluster_with_options(Options::default()).await
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("not a resourceVersion: {object}"))
}

fn configmap(name: &str, color: &str) -> String {
    json!({"metadata": {"name": name, "labels": {"color": color}}, "data": {"color": color}}).to_string()
}

async fn create(cluster: &Cluster, name: &str, color: &str) -> u64 {
    revision(&cluster.post(CONFIGMAPS, configmap(name, color)).await.expect(201).json())
}

async fn set_color(cluster: &Cluster, name: &str, color: &str) -> u64 {
    revision(&cluster.put(&format!("{CONFIGMAPS}/{name}"), configmap(name, color)).await.expect(200).json())
}

async fn delete(cluster: &Cluster, name: &str) {
    let _ = cluster.delete(&format!("{CONFIGMAPS}/{name}")).await.expect(200);
}

/// Returns the current revision.
async fn current_revision(cluster: &Cluster) -> u64 {
    revision(&cluster.get(CONFIGMAPS).await.expect(200).json())
}

async fn open_watch(cluster: &Cluster, path: &str, query: &str) -> Watch {
    cluster.watch(&format!("{path}?watch=1&{query}")).await
}

/// Summarizes an event: `ADDED a 7`, `BOOKMARK 9`.
fn summarize(event: &Value) -> String {
    let object = &event["object"];
    let words =
        [event["type"].as_str(), object["metadata"]["name"].as_str(), object["metadata"]["resourceVersion"].as_str()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Checks the next events.
async fn check(watch: &mut Watch, expect: &[String]) {
    for expect in expect {
        let event = watch.next().await.unwrap_or_else(|| panic!("the stream ended before {expect}"));
        assert_eq!(summarize(&event), *expect, "{event}");
    }
}

/// Collects all events until the watch ends.
async fn collect_events(mut watch: Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        events.push(event);
    }
    events
}
