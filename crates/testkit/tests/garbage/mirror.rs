//! What watches tell: all things as they are, and everything that has happened to them. Watches go on where they were
//! when the server comes back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_testkit::{Client, Cluster, Protocol, ResponseStream};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::model::Things;
use crate::thing::{KINDS, LABEL, Thing};

/// How long to wait before asking a server again that is not there.
const AGAIN: Duration = Duration::from_millis(3);

/// Something that happened: what has become of a thing.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) uid: String,
    /// `None` if it is gone.
    pub(crate) thing: Option<Thing>,
}

/// What is shared with those who listen.
#[derive(Default)]
struct Heard {
    things: Mutex<Things>,
    events: Mutex<Vec<Event>>,
    count: watch::Sender<usize>,
}

impl Heard {
    fn hear(&self, event: Event) {
        let mut things = self.things.lock();
        match event.thing.clone() {
            Some(thing) => drop(things.insert(event.uid.clone(), thing)),
            None => drop(things.remove(&event.uid)),
        }
        self.events.lock().push(event);
        drop(things);
        self.count.send_modify(|count| *count += 1);
    }
}

/// A listener, and how it learns that its kind may be gone.
struct Listener {
    task: JoinHandle<()>,
    may_end: Arc<AtomicBool>,
}

/// All kinds that are listened to.
#[derive(Default)]
pub(crate) struct Mirror {
    heard: Arc<Heard>,
    listeners: HashMap<usize, Listener>,
}

impl Mirror {
    /// Listens to a kind from now on.
    pub(crate) async fn listen(&mut self, cluster: &Cluster, kind: usize) {
        let list = cluster.get(&KINDS[kind].path("")).await.expect(200).json();
        let revision = revision(&list);
        let client = cluster.client(Protocol::Any);
        let may_end = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(listen(client, kind, revision, self.heard.clone(), may_end.clone()));
        self.listeners.insert(kind, Listener { task, may_end });
    }

    /// Allows that a kind goes.
    pub(crate) fn may_end(&self, kind: usize) {
        self.listeners[&kind].may_end.store(true, Ordering::Relaxed);
    }

    /// All things as they were told of last.
    pub(crate) fn things(&self) -> Things {
        self.heard.things.lock().clone()
    }

    /// True if something was told of this thing that came no earlier than a revision.
    pub(crate) fn has_heard_of(&self, uid: &str, revision: u64) -> bool {
        self.heard.events.lock().iter().rev().any(|event| event.uid == uid && event.revision >= revision)
    }

    /// All that was told, in the order in which it happened.
    pub(crate) fn history(&self) -> Vec<Event> {
        let mut events = self.heard.events.lock().clone();
        events.sort_by_key(|event| event.revision);
        events
    }

    /// Is told of every event.
    pub(crate) fn count(&self) -> watch::Receiver<usize> {
        self.heard.count.subscribe()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.listeners.values().for_each(|listener| listener.task.abort());
    }
}

async fn listen(client: Client, kind: usize, mut revision: u64, heard: Arc<Heard>, may_end: Arc<AtomicBool>) {
    loop {
        let path = format!("{}?watch=1&labelSelector={LABEL}&resourceVersion={revision}", KINDS[kind].path(""));
        match client.request("GET", &path).stream().await {
            Ok(Ok(stream)) => revision = follow(stream, kind, revision, &heard).await,
            Ok(Err(answer)) if answer.status == 404 && may_end.load(Ordering::Relaxed) => return,
            Ok(Err(answer)) => assert_ne!(answer.status, 410, "the history has to be there"),
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Hears a stream to its end. Returns the revision of the last event.
async fn follow(mut stream: ResponseStream, kind: usize, mut revision: u64, heard: &Heard) -> u64 {
    let mut buffer = Vec::new();
    while let Ok(Some(piece)) = stream.next().await {
        buffer.extend_from_slice(&piece);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).expect("an event");
            let metadata = &event["object"]["metadata"];
            revision = self::revision(&event["object"]);
            let thing = (event["type"] != "DELETED").then(|| Thing::read(kind, &event["object"]));
            heard.hear(Event { revision, uid: metadata["uid"].as_str().unwrap_or_default().to_owned(), thing });
        }
    }
    revision
}

/// The revision of an object or a list.
pub(crate) fn revision(object: &Value) -> u64 {
    let revision = object["metadata"]["resourceVersion"].as_str().and_then(|revision| revision.parse().ok());
    revision.unwrap_or_else(|| panic!("{object} has no revision"))
}
