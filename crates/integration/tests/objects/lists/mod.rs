//! Lists: resourceVersion semantics, chunking (KEP-365), lists from the watch cache (KEP-2340), and label and field
//! selectors.

mod chunks;
mod deletes;
mod encodings;
mod fields;
mod revisions;
mod selectors;
mod shards;

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{Cluster, ManualClock, Options, manual_clock};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn cluster(options: Options) -> Cluster {
    let cluster = Cluster::with_options(options).await;
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
    cluster
}

/// Starts a cluster with a manual clock.
async fn cluster_with_manual_clock() -> (Cluster, Arc<ManualClock>) {
    let clock = manual_clock();
    (cluster(Options { clock: clock.clone(), ..Options::default() }).await, clock)
}

/// Starts a cluster that discards the history of changes at once.
async fn cluster_without_history(mut options: Options) -> Cluster {
    options.history.duration = Duration::ZERO;
    cluster(options).await
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("not a resourceVersion: {object}"))
}

/// Creates an object and returns its revision.
async fn create(cluster: &Cluster, path: &str, object: Value) -> u64 {
    revision(&cluster.post(path, object.to_string()).await.expect(201).json())
}

fn configmap(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "1"}})
}

/// Formats the names of a list, with the value of `data.k` if it is not `1`.
fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("not a list: {list}"));
    let name = |item: &Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        match item["data"]["k"].as_str() {
            None | Some("1") => name.to_owned(),
            Some(value) => format!("{name}={value}"),
        }
    };
    items.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Encodes a value for a query.
fn url_encode(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn list(cluster: &Cluster, path: &str, query: &str) -> Value {
    cluster.get(&format!("{path}?{query}")).await.expect(200).json()
}

/// Checks that a list has these names.
async fn check(cluster: &Cluster, path: &str, query: &str, expect: &str) {
    assert_eq!(names(&list(cluster, path, query).await), expect, "{path}?{query}");
}

fn continue_token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}
