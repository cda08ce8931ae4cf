//! A client that creates, changes and deletes CRDs and their objects while the server restarts. No other client writes
//! them, so the client knows which objects have to exist. The last acknowledged write determines the state. A later
//! write without an answer may have happened or not.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_integration::{Protocol, Response};
use serde_json::{Value, json};

use crate::random::SeededRandom;
use crate::shared::{ReconnectingClient, SharedState, TIMEOUT};

const GROUP: &str = "definitions.example.com";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The number of CRDs, and the number of object names for each CRD.
const COUNT: usize = 3;
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The write identifiers that an object may have; `None` if it may not exist. After a write without an answer there are
/// several.
type PossibleWrites = Vec<Option<u64>>;

/// A CRD and its objects by name.
#[derive(Debug)]
struct CrdRecord {
    crd: PossibleWrites,
    objects: BTreeMap<String, PossibleWrites>,
}

/// The client. It exists for the whole run.
#[derive(Debug)]
pub(crate) struct CrdWriter {
    random: SeededRandom,
    records: Vec<CrdRecord>,
    last_write_id: u64,
    /// The number of acknowledged writes.
    pub(crate) acknowledged: usize,
}

/// The result of a write.
enum WriteResult {
    /// The server acknowledged the write.
    Done,
    /// The server refused the write, so it changed nothing.
    Refused,
    /// The write may or may not have happened.
    Unknown,
}

fn plural(index: usize) -> String {
    format!("gadgets{index}")
}

fn crd_path(index: usize) -> String {
    format!("{CRDS}/{}.{GROUP}", plural(index))
}

fn collection_path(index: usize) -> String {
    format!("/apis/{GROUP}/v1/namespaces/n0/{}", plural(index))
}

fn crd(index: usize, write_id: u64) -> Value {
    let plural = plural(index);
    let value = json!({"type": "string", "description": write_id.to_string()});
    let schema = json!({"type": "object", "properties": {"value": value}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"write-id": write_id.to_string()}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Gadget{index}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn write_id(object: &Value) -> Option<u64> {
    object["metadata"]["labels"]["write-id"].as_str()?.parse().ok()
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

impl CrdWriter {
    pub(crate) fn new(seed: u64) -> Self {
        let record = || CrdRecord { crd: vec![None], objects: BTreeMap::new() };
        Self {
            random: SeededRandom::for_part(seed, "definitions", 0),
            records: (0..COUNT).map(|_| record()).collect(),
            last_write_id: 0,
            acknowledged: 0,
        }
    }

    /// Sends a number of random writes, and checks everything after each restart and at the end.
    pub(crate) async fn write(mut self, shared: &SharedState, times: usize) -> Self {
        let mut client = ReconnectingClient::connect(shared, Protocol::Any);
        for _ in 0..times {
            let index = self.random.below(COUNT);
            match self.records[index].crd[..] {
                [None] => self.create_crd(shared, &mut client, index).await,
                _ => self.change(shared, &mut client, index).await,
            }
        }
        self.check(shared, &mut client).await;
        self
    }

    fn next_write_id(&mut self) -> u64 {
        self.last_write_id += 1;
        self.last_write_id
    }

    async fn create_crd(&mut self, shared: &SharedState, client: &mut ReconnectingClient, index: usize) {
        // An earlier CRD with this name may be terminating.
        if wait_for(shared, client, &crd_path(index), |response| response.status == 404).await.is_none() {
            return self.check(shared, client).await;
        }
        let id = self.next_write_id();
        let created = send(shared, client, "POST", CRDS, "", crd(index, id).to_string()).await;
        self.records[index].objects.clear();
        self.record(shared, client, index, None, Some(id), created).await;
    }

    /// Changes or deletes a CRD or one of its objects.
    async fn change(&mut self, shared: &SharedState, client: &mut ReconnectingClient, index: usize) {
        let name = format!("x{}", self.random.below(COUNT));
        let (collection, id) = (collection_path(index), self.next_write_id());
        let object = format!("{collection}/{name}");
        match self.random.below(12) {
            0 => {
                let deleted = send(shared, client, "DELETE", &crd_path(index), "", String::new()).await;
                self.record(shared, client, index, None, None, deleted).await;
            }
            1 | 2 => {
                let body = crd(index, id).to_string();
                let apply = "application/apply-patch+yaml";
                let path = format!("{}?fieldManager=m&force=true", crd_path(index));
                let applied = send(shared, client, "PATCH", &path, apply, body).await;
                self.record(shared, client, index, None, Some(id), applied).await;
            }
            3 => {
                let deleted = send(shared, client, "DELETE", &object, "", String::new()).await;
                self.record(shared, client, index, Some(name), None, deleted).await;
            }
            _ => {
                if wait_for(shared, client, &collection, |response| response.status == 200).await.is_none() {
                    return self.check(shared, client).await;
                }
                let body = json!({
                    "apiVersion": format!("{GROUP}/v1"),
                    "kind": format!("Gadget{index}"),
                    "metadata": {"name": name, "labels": {"write-id": id.to_string()}},
                    "value": "v",
                });
                let manager = self.random.below(3);
                let path = format!("{object}?fieldManager=m{manager}&force=true");
                let apply = "application/apply-patch+yaml";
                let applied = send(shared, client, "PATCH", &path, apply, body.to_string()).await;
                self.record(shared, client, index, Some(name), Some(id), applied).await;
            }
        }
    }

    /// Records the result of a write to a CRD or to one of its objects. `written` is the state after a successful
    /// write.
    async fn record(
        &mut self,
        shared: &SharedState,
        client: &mut ReconnectingClient,
        index: usize,
        name: Option<String>,
        written: Option<u64>,
        result: WriteResult,
    ) {
        let record = &mut self.records[index];
        let possible = match name {
            Some(name) => record.objects.entry(name).or_insert_with(|| vec![None]),
            None => &mut record.crd,
        };
        match result {
            WriteResult::Done => {
                *possible = vec![written];
                self.acknowledged += 1;
            }
            WriteResult::Refused => {}
            WriteResult::Unknown => {
                possible.push(written);
                self.check(shared, client).await;
            }
        }
    }

    /// Checks that all objects are as written, that CRDs are established, and that their objects are served.
    async fn check(&mut self, shared: &SharedState, client: &mut ReconnectingClient) {
        for (index, record) in self.records.iter_mut().enumerate() {
            let path = crd_path(index);
            let exists = |response: &Response| response.status == 404 || is_served(&response.json());
            let crd = loop {
                match wait_for(shared, client, &path, exists).await {
                    Some(response) => break (response.status == 200).then(|| response.json()),
                    None => continue,
                }
            };
            let found = crd.filter(|found| !is_terminating(found)).map(|found| write_id(&found));
            let found = found.map(|id| id.unwrap_or_else(|| panic!("{path} has no write-id")));
            assert!(record.crd.contains(&found), "{path}: {found:?}, expected one of {:?}", record.crd);
            record.crd = vec![found];
            if found.is_none() {
                record.objects.clear();
                continue;
            }
            let collection = collection_path(index);
            let list = loop {
                match wait_for(shared, client, &collection, |response| response.status == 200).await {
                    Some(response) => break response.json(),
                    None => continue,
                }
            };
            let listed: BTreeMap<&str, Option<u64>> = list["items"]
                .as_array()
                .expect("items")
                .iter()
                .map(|item| (item["metadata"]["name"].as_str().expect("a name"), write_id(item)))
                .collect();
            let names = record.objects.keys().map(String::as_str);
            assert!(listed.keys().all(|name| names.clone().any(|known| known == *name)), "{collection}: {listed:?}");
            for (name, possible) in &mut record.objects {
                let found = listed.get(name.as_str()).copied().flatten();
                assert!(possible.contains(&found), "{collection}/{name}: {found:?}, expected one of {possible:?}");
                *possible = vec![found];
            }
        }
    }
}

fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the server serves the objects of a CRD, or never will because the CRD is terminating.
fn is_served(crd: &Value) -> bool {
    is_terminating(crd) || is_established(crd)
}

/// Sends a GET until the response is as expected. `None` if the server has restarted.
async fn wait_for(
    shared: &SharedState,
    client: &mut ReconnectingClient,
    path: &str,
    is_expected: impl Fn(&Response) -> bool,
) -> Option<Response> {
    let mut last = String::new();
    let found = async {
        loop {
            match client.inner.request("GET", path).try_send().await {
                Ok(response) if matches!(response.status.as_u16(), 200 | 404) && is_expected(&response) => {
                    return Some(response);
                }
                Ok(response) => last = format!("{}: {}", response.status, response.text()),
                Err(error) => {
                    client.reconnect(shared, &error).await;
                    return None;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(2 * TIMEOUT, found).await {
        Ok(response) => response,
        Err(_) => panic!("{path} does not become as expected: {last}"),
    }
}

/// Sends a write. On a connection error, waits for the restarted server.
async fn send(
    shared: &SharedState,
    client: &mut ReconnectingClient,
    method: &str,
    path: &str,
    media_type: &str,
    body: String,
) -> WriteResult {
    let request = client.inner.request(method, path);
    let request = match media_type {
        "" if body.is_empty() => request,
        "" => request.json(body),
        media_type => request.body(media_type, body),
    };
    match request.try_send().await {
        Ok(response) if response.status.is_success() => WriteResult::Done,
        Ok(response) if matches!(response.status.as_u16(), 404 | 409) => WriteResult::Refused,
        Ok(response) if matches!(response.status.as_u16(), 500 | 503) => WriteResult::Unknown,
        Ok(response) => panic!("{method} {path}: {}: {}", response.status, response.text()),
        Err(error) => {
            client.reconnect(shared, &error).await;
            WriteResult::Unknown
        }
    }
}
