//! All logs of a cluster, as one stream of changes.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_cache::{Event, KeyRange, Log, Object, Scope};
use pintle_registry::Resource;
use pintle_value::Str;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::World;

/// Changes that may wait to be taken.
const WAITING: usize = 256;

/// What has happened in a collection.
pub(crate) enum Change {
    /// This object was there when following began.
    There(Arc<Object>),
    /// So were no others.
    Read,
    /// These changes came, in their order.
    Events(Vec<Arc<Event>>),
    /// Its history is lost: what is there comes again.
    Anew,
}

/// A log that is followed.
struct Followed {
    log: Arc<Log>,
    resource: Arc<Resource>,
    /// Tells what this task sends from what one before it did.
    number: u64,
    task: JoinHandle<()>,
    /// True once all is known that was there when following began.
    is_read: bool,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A change, with its collection and the number of who sends it.
type Sent = (Str, u64, Change);

/// The logs that are followed, each by a task.
pub(crate) struct Following {
    logs: HashMap<Str, Followed>,
    begun: u64,
    sender: mpsc::Sender<Sent>,
    changes: mpsc::Receiver<Sent>,
}

impl Following {
    pub(crate) fn new() -> Self {
        let (sender, changes) = mpsc::channel(WAITING);
        Self { logs: HashMap::new(), begun: 0, sender, changes }
    }

    /// Follows the collections of all kinds that are served now, and no others. What expires is left out, as upstream
    /// leaves out events. Returns the collections of which nothing counts any more that was heard.
    pub(crate) fn update(&mut self, world: &Arc<dyn World>) -> Vec<Str> {
        let registry = world.registry();
        let mut served: HashMap<&Str, (&Arc<Resource>, Arc<Log>)> = HashMap::new();
        for resource in registry.resources().filter(|resource| resource.is_hub() && !resource.behaviour.expires()) {
            if let (Some(collection), Some(log)) = (resource.collection(), world.log(resource)) {
                served.entry(&collection.prefix).or_insert((resource, log));
            }
        }
        // A kind may have gone and come again.
        let is_gone = |prefix: &Str, followed: &Followed| {
            served.get(prefix).is_none_or(|(_, log)| !Arc::ptr_eq(log, &followed.log))
        };
        let gone: Vec<Str> =
            self.logs.extract_if(|prefix, followed| is_gone(prefix, followed)).map(|(p, _)| p).collect();
        for (prefix, (resource, log)) in served {
            if let Some(followed) = self.logs.get_mut(prefix) {
                followed.resource = resource.clone();
                continue;
            }
            self.begun += 1;
            let number = self.begun;
            let task = tokio::spawn(follow(prefix.clone(), number, log.clone(), self.sender.clone()));
            let followed = Followed { log, resource: resource.clone(), number, task, is_read: false };
            self.logs.insert(prefix.clone(), followed);
        }
        gone
    }

    /// What is in a collection.
    pub(crate) fn resource(&self, prefix: &str) -> Option<&Arc<Resource>> {
        self.logs.get(prefix).map(|followed| &followed.resource)
    }

    /// The next change, with the collection that it is in.
    pub(crate) async fn next(&mut self) -> Option<(Str, Change)> {
        loop {
            let (prefix, number, change) = self.changes.recv().await?;
            let Some(followed) = self.logs.get_mut(&prefix).filter(|followed| followed.number == number) else {
                continue;
            };
            match change {
                Change::Read => followed.is_read = true,
                Change::Anew => followed.is_read = false,
                Change::There(_) | Change::Events(_) => {}
            }
            return Some((prefix, change));
        }
    }

    /// True if everything is known that was there when following began.
    pub(crate) fn has_read_all(&self) -> bool {
        self.logs.values().all(|followed| followed.is_read)
    }
}

async fn follow(prefix: Str, number: u64, log: Arc<Log>, sender: mpsc::Sender<Sent>) {
    loop {
        let mut watcher = log.watch(Scope::All, log.newest_revision());
        for object in log.objects(KeyRange::All) {
            if sender.send((prefix.clone(), number, Change::There(object))).await.is_err() {
                return;
            }
        }
        if sender.send((prefix.clone(), number, Change::Read)).await.is_err() {
            return;
        }
        while let Ok(events) = watcher.next().await {
            if sender.send((prefix.clone(), number, Change::Events(events))).await.is_err() {
                return;
            }
        }
        if sender.send((prefix.clone(), number, Change::Anew)).await.is_err() {
            return;
        }
    }
}
