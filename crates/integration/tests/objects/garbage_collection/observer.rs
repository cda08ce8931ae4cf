//! Watches all kinds: it keeps the current objects and the history of all changes. The watches resume after a restart
//! of the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_integration::{Client, Cluster, Protocol, ResponseStream};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::model::ObjectMap;
use super::object::{KINDS, LABEL, TestObject};

/// The delay before a watch is retried.
const RETRY_DELAY: Duration = Duration::from_millis(3);

/// A change that a watch observed.
#[derive(Clone, Debug)]
pub(crate) struct ObservedChange {
    pub(crate) revision: u64,
    pub(crate) uid: String,
    /// The new version; `None` if the object was deleted.
    pub(crate) object: Option<TestObject>,
}

/// The state that the watch tasks share.
#[derive(Default)]
struct Observations {
    objects: Mutex<ObjectMap>,
    changes: Mutex<Vec<ObservedChange>>,
    count: watch::Sender<usize>,
}

impl Observations {
    fn record(&self, event: ObservedChange) {
        let mut objects = self.objects.lock();
        match event.object.clone() {
            Some(object) => drop(objects.insert(event.uid.clone(), object)),
            None => drop(objects.remove(&event.uid)),
        }
        self.changes.lock().push(event);
        drop(objects);
        self.count.send_modify(|count| *count += 1);
    }

    /// Records that all objects of a kind are deleted, at some time after the last event of its watch.
    fn record_removal(&self, kind: usize, revision: u64) {
        let is_left = |(uid, object): (&String, &TestObject)| (object.kind == kind).then(|| uid.clone());
        let left: Vec<String> = self.objects.lock().iter().filter_map(is_left).collect();
        for uid in left {
            self.record(ObservedChange { revision, uid, object: None });
        }
    }
}

/// The watch of a kind.
struct WatchTask {
    task: JoinHandle<()>,
    /// Whether 404 Not Found ends the watch instead of failing the test.
    may_be_removed: Arc<AtomicBool>,
}

/// The watches of all kinds, and their observations.
#[derive(Default)]
pub(crate) struct Observer {
    observations: Arc<Observations>,
    watches: HashMap<usize, WatchTask>,
}

impl Observer {
    /// Starts to watch a kind.
    pub(crate) async fn watch_kind(&mut self, cluster: &Cluster, kind: usize) {
        let list = cluster.get(&KINDS[kind].path("")).await.expect(200).json();
        let revision = revision_of(&list);
        let client = cluster.client(Protocol::Any);
        let may_be_removed = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(watch_kind(client, kind, revision, self.observations.clone(), may_be_removed.clone()));
        self.watches.insert(kind, WatchTask { task, may_be_removed });
    }

    /// Allows the server to stop serving the kind.
    pub(crate) fn allow_removal(&self, kind: usize) {
        self.watches[&kind].may_be_removed.store(true, Ordering::Relaxed);
    }

    /// The current objects, as far as the watches observed them.
    pub(crate) fn objects(&self) -> ObjectMap {
        self.observations.objects.lock().clone()
    }

    /// True if the watches observed a change of the object at or after the revision.
    pub(crate) fn has_observed(&self, uid: &str, revision: u64) -> bool {
        self.observations.changes.lock().iter().rev().any(|event| event.uid == uid && event.revision >= revision)
    }

    /// All observed changes, in the order of their revisions.
    pub(crate) fn history(&self) -> Vec<ObservedChange> {
        let mut changes = self.observations.changes.lock().clone();
        changes.sort_by_key(|event| event.revision);
        changes
    }

    /// Subscribes to the number of observed changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<usize> {
        self.observations.count.subscribe()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.watches.values().for_each(|watch| watch.task.abort());
    }
}

async fn watch_kind(
    client: Client,
    kind: usize,
    mut revision: u64,
    observations: Arc<Observations>,
    may_be_removed: Arc<AtomicBool>,
) {
    loop {
        let path = format!("{}?watch=1&labelSelector={LABEL}&resourceVersion={revision}", KINDS[kind].path(""));
        match client.request("GET", &path).stream().await {
            Ok(Ok(stream)) => revision = read_events(stream, kind, revision, &observations).await,
            Ok(Err(response)) if response.status == 404 && may_be_removed.load(Ordering::Relaxed) => {
                // After a restart, the CRD may be deleted before the watch resumes.
                return observations.record_removal(kind, revision);
            }
            Ok(Err(response)) => assert_ne!(response.status, 410, "the watch history contains the revision"),
            Err(_) => {}
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Reads a watch to its end. Returns the revision of the last event.
async fn read_events(mut stream: ResponseStream, kind: usize, mut revision: u64, observations: &Observations) -> u64 {
    let mut buffer = Vec::new();
    while let Ok(Some(chunk)) = stream.next().await {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).expect("an event");
            let metadata = &event["object"]["metadata"];
            revision = revision_of(&event["object"]);
            let object = (event["type"] != "DELETED").then(|| TestObject::read(kind, &event["object"]));
            observations.record(ObservedChange {
                revision,
                uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
                object,
            });
        }
    }
    revision
}

/// The revision of an object or a list.
pub(crate) fn revision_of(object: &Value) -> u64 {
    let revision = object["metadata"]["resourceVersion"].as_str().and_then(|revision| revision.parse().ok());
    revision.unwrap_or_else(|| panic!("no resourceVersion: {object}"))
}
