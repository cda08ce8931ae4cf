//! A workload generator: creates, updates, patches and deletes objects, without knowing what other writers do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pintle_integration::{Protocol, Response};
use serde_json::{Value, json};

use crate::kind::{KINDS, NAMES, NAMESPACES, TestKind};
use crate::object::parse_revision;
use crate::random::SeededRandom;
use crate::shared::{AcknowledgedWrite, KindRecord, ReconnectingClient, SharedState, increment, is_temporary};

/// How long a writer waits after a server could not execute a write.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The next request of a writer.
enum WriteRequest {
    Change {
        method: &'static str,
        path: String,
        media_type: &'static str,
        body: String,
        /// The write identifier that the object has if the request succeeds.
        write_id: Option<u64>,
    },
    /// A delete of one object or of a collection.
    Delete { path: String },
}

/// A writer of one round.
pub(crate) struct Writer {
    random: SeededRandom,
    last_write_id: u64,
    padding: usize,
}

impl Writer {
    pub(crate) fn new(seed: u64, round: usize, number: usize, padding: usize) -> Self {
        let part = round * 100 + number;
        Self { random: SeededRandom::for_part(seed, "writer", part), last_write_id: part as u64 * 1_000_000, padding }
    }

    /// Sends a number of random writes.
    pub(crate) async fn write(mut self, shared: &SharedState, protocol: Protocol, times: usize) -> Self {
        let mut client = ReconnectingClient::connect(shared, protocol);
        for _ in 0..times {
            let kind_index = self.random.below(KINDS.len());
            let record = &shared.records[kind_index];
            record.wait_for_backlog().await;
            let write = self.next(&KINDS[kind_index], &mut client).await;
            let request = match &write {
                WriteRequest::Change { method, path, media_type, body, .. } => {
                    client.inner.request(method, path).body(media_type, body.clone())
                }
                WriteRequest::Delete { path } => client.inner.request("DELETE", path),
            };
            let response = request.try_send().await;
            increment(&shared.counters.requests);
            match response {
                Ok(response) if shared.is_replicated() && is_temporary(&response) => {
                    let is_refused = response.text().contains("the storage is unavailable");
                    match (&write, is_refused) {
                        (WriteRequest::Change { write_id: Some(write_id), .. }, true) => {
                            record.record_refusal(*write_id)
                        }
                        (WriteRequest::Delete { .. } | WriteRequest::Change { .. }, _) => increment(&record.unanswered),
                    }
                    client.reconnect(shared, &response.text()).await;
                }
                // A stopping server or a server with a failing disk may respond with 503 although the write has
                // happened.
                Ok(response) if response.status == 503 => {
                    increment(&record.unanswered);
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                // A server that is being killed may respond with 500 when the request's task has ended and the
                // connection is still open.
                Ok(response) if response.status == 500 => {
                    increment(&record.unanswered);
                    client.reconnect(shared, &response.text()).await;
                }
                Ok(response) => {
                    client.report_success();
                    record_response(record, &write, &response);
                }
                Err(error) => {
                    increment(&record.unanswered);
                    client.reconnect(shared, &error).await;
                }
            }
        }
        self
    }

    async fn next(&mut self, kind: &'static TestKind, client: &mut ReconnectingClient) -> WriteRequest {
        self.last_write_id += 1;
        let write_id = Some(self.last_write_id);
        let namespace = kind.namespaced.then(|| *self.random.choose(&NAMESPACES));
        let name = format!("x{}", self.random.below(NAMES));
        let collection = kind.path(namespace);
        let path = format!("{collection}/{name}");
        let change = |method, path, media_type, body: Value| WriteRequest::Change {
            method,
            path,
            media_type,
            body: body.to_string(),
            write_id,
        };
        let json = "application/json";
        match self.random.below(24) {
            0..5 => change("POST", collection, json, self.object(kind, &name)),
            5..8 => change("PUT", path, json, self.object(kind, &name)),
            8..10 => match self.read(client, &path).await {
                Some(mut object) => {
                    object["metadata"]["labels"] = self.labels();
                    change("PUT", path, json, object)
                }
                None => change("POST", collection, json, self.object(kind, &name)),
            },
            10..13 => {
                let mut labels = self.labels();
                if labels["pick"].is_null() {
                    // A null removes the label from the object.
                    labels["pick"] = Value::Null;
                }
                let media_type = if self.random.one_in(2) && !kind.is_custom {
                    "application/strategic-merge-patch+json"
                } else {
                    "application/merge-patch+json"
                };
                change("PATCH", path, media_type, json!({"metadata": {"labels": labels}}))
            }
            13 => {
                let patch = json!([{"op": "replace", "path": "/metadata/labels", "value": self.labels()}]);
                change("PATCH", path, "application/json-patch+json", patch)
            }
            14 | 15 if kind.subresource_write.is_some() => match &kind.subresource_write {
                Some(write) => WriteRequest::Change {
                    method: write.method,
                    path: format!("{path}/{}", write.subresource),
                    media_type: write.media_type,
                    body: (*self.random.choose(write.bodies)).to_owned(),
                    write_id: None,
                },
                None => WriteRequest::Delete { path },
            },
            16 if self.random.one_in(8) => WriteRequest::Delete {
                path: format!("{collection}?gracePeriodSeconds=0&labelSelector=shade%3Dc,pick%21%3Dyes"),
            },
            20..23 => {
                let object = self.object(kind, &name);
                let (manager, force) = (self.random.below(3), !self.random.one_in(4));
                let path = format!("{path}?fieldManager=m{manager}&force={force}");
                change("PATCH", path, "application/apply-patch+yaml", object)
            }
            23 => {
                let labels = json!({"write-id": self.last_write_id.to_string()});
                let patch = json!({"metadata": {"labels": labels, "finalizers": null}});
                change("PATCH", path, "application/merge-patch+json", patch)
            }
            _ => WriteRequest::Delete { path: format!("{path}?gracePeriodSeconds=0") },
        }
    }

    /// Reads an object, if it exists.
    async fn read(&mut self, client: &mut ReconnectingClient, path: &str) -> Option<Value> {
        let response = client.inner.request("GET", path).try_send().await.ok()?;
        (response.status == 200).then(|| response.json())
    }

    fn labels(&mut self) -> Value {
        let mut labels =
            json!({"write-id": self.last_write_id.to_string(), "shade": self.random.choose(&["a", "b", "c"])});
        match self.random.below(3) {
            0 => {}
            1 => labels["pick"] = json!("no"),
            _ => labels["pick"] = json!("yes"),
        }
        labels
    }

    fn object(&mut self, kind: &TestKind, name: &str) -> Value {
        let mut metadata = json!({"name": name, "labels": self.labels()});
        if self.padding > 0 {
            metadata["annotations"] = json!({"padding": "x".repeat(self.padding)});
        }
        if self.random.one_in(6) {
            metadata["finalizers"] = json!(["example.com/wait"]);
        }
        kind.object(metadata, self.random.below(6))
    }
}

/// Changes an object of a kind while no other client writes, and returns the revision.
pub(crate) async fn write_final_change(shared: &SharedState, kind_index: usize, round: usize) -> u64 {
    let (kind, record) = (&KINDS[kind_index], &shared.records[kind_index]);
    let mut writer = Writer::new(shared.seed, round, 99, 0);
    writer.last_write_id += 1;
    let write_id = Some(writer.last_write_id);
    let mut client = ReconnectingClient::connect(shared, Protocol::Any);
    let collection = kind.path(kind.namespaced.then_some(NAMESPACES[0]));
    let patch = json!({"metadata": {"labels": {"write-id": writer.last_write_id.to_string()}}}).to_string();
    let mut write = WriteRequest::Change {
        method: "PATCH",
        path: format!("{collection}/x0"),
        media_type: "application/merge-patch+json",
        body: patch,
        write_id,
    };
    loop {
        let WriteRequest::Change { method, path, media_type, body, .. } = &write else { unreachable!("a delete") };
        let response = match client.inner.request(method, path).body(media_type, body.clone()).try_send().await {
            Ok(response) if !(shared.is_replicated() && is_temporary(&response)) => response,
            result => {
                increment(&record.unanswered);
                let error = result.map_or_else(|error| error.to_string(), |response| response.text());
                client.reconnect(shared, &error).await;
                continue;
            }
        };
        record_response(record, &write, &response);
        if response.status.is_success() {
            return parse_revision(response.json()["metadata"]["resourceVersion"].as_str());
        }
        write = WriteRequest::Change {
            method: "POST",
            path: collection.clone(),
            media_type: "application/json",
            body: writer.object(kind, "x0").to_string(),
            write_id,
        };
    }
}

/// Records the response to a write.
fn record_response(record: &KindRecord, write: &WriteRequest, response: &Response) {
    let describe = || format!("{}: {}", response.status, response.text());
    match (response.status.as_u16(), write) {
        (200, WriteRequest::Delete { path }) => {
            let body = response.json();
            // A delete of a collection returns the objects that it found. Other writers may have deleted them first.
            match body["items"].as_array().filter(|_| path.contains("labelSelector")) {
                Some(found) => {
                    record.ambiguous_deletes.fetch_add(found.len(), Ordering::Relaxed);
                }
                // An object with finalizers is terminating now.
                None if has_finalizers(&body) => {}
                None => increment(&record.deleted),
            }
        }
        (200 | 201, WriteRequest::Change { write_id, .. }) => {
            let body = response.json();
            let revision = parse_revision(body["metadata"]["resourceVersion"].as_str());
            if !body["metadata"]["deletionTimestamp"].is_null() && !has_finalizers(&body) {
                // The object was terminating, and this update removed it. The server never stored the returned version.
                increment(&record.ambiguous_deletes);
                return;
            }
            if let Some(write_id) = write_id {
                assert_eq!(body["metadata"]["labels"]["write-id"], write_id.to_string(), "{}", describe());
            }
            record.record_write(AcknowledgedWrite { revision, write_id: *write_id });
        }
        // The object is missing, exists, or has changed, or the update is not allowed.
        (404 | 409 | 422, _) => {}
        // The list of the collection expired before the server had read it, because the watch caches were rebuilt.
        (410, WriteRequest::Delete { path }) if path.contains("labelSelector") => {}
        _ => panic!("{}", describe()),
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
