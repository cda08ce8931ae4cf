//! Lists: at which revision they are, in chunks, by labels and by fields, as KEP-365 (chunking), KEP-2340 (lists from the
//! cache) and the API conventions on resourceVersion describe them.

mod chunks;
mod deletes;
mod encodings;
mod fields;
mod revisions;
mod selectors;

use std::sync::Arc;
use std::time::Duration;

use pintle_testkit::{Cluster, ManualClock, Options, manual_clock};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn cluster(options: Options) -> Cluster {
    let cluster = Cluster::with_options(options).await;
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
    cluster
}

/// A cluster whose time a test moves.
async fn timed() -> (Cluster, Arc<ManualClock>) {
    let clock = manual_clock();
    (cluster(Options { clock: clock.clone(), ..Options::default() }).await, clock)
}

/// A cluster that forgets every change at once.
async fn forgetful(mut options: Options) -> Cluster {
    options.window.duration = Duration::ZERO;
    cluster(options).await
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

/// Makes an object and says its revision.
async fn make(cluster: &Cluster, path: &str, object: Value) -> u64 {
    revision(&cluster.post(path, object.to_string()).await.expect(201).json())
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "1"}})
}

/// The names of a list, with the value of `data.k` where it is not `1`.
fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let name = |item: &Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        match item["data"]["k"].as_str() {
            None | Some("1") => name.to_owned(),
            Some(value) => format!("{name}={value}"),
        }
    };
    items.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// A value as it stands in a query.
fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn list(cluster: &Cluster, path: &str, query: &str) -> Value {
    cluster.get(&format!("{path}?{query}")).await.expect(200).json()
}

/// Sees to it that a list has these names.
async fn check(cluster: &Cluster, path: &str, query: &str, expect: &str) {
    assert_eq!(names(&list(cluster, path, query).await), expect, "{path}?{query}");
}

fn continue_of(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}
