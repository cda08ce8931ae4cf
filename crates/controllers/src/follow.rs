//! All logs of a cluster, as one stream of changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_cache::{Event, KeyRange, Log, Object, Scope};
use pintle_registry::Resource;
use pintle_value::Str;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::World;
use crate::objects::objects;

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

/// The logs that are followed, each by a task.
pub(crate) struct Following {
    tasks: HashMap<Str, JoinHandle<()>>,
    /// What is in each.
    resources: HashMap<Str, Arc<Resource>>,
    /// Those of which not all is known yet that was there when following began.
    unread: HashSet<Str>,
    sender: mpsc::Sender<(Str, Change)>,
    changes: mpsc::Receiver<(Str, Change)>,
}

impl Following {
    pub(crate) fn new() -> Self {
        let (sender, changes) = mpsc::channel(WAITING);
        Self { tasks: HashMap::new(), resources: HashMap::new(), unread: HashSet::new(), sender, changes }
    }

    /// Follows the collections of all kinds that are served now, and no others. Returns those that are gone.
    pub(crate) fn update(&mut self, world: &Arc<dyn World>) -> Vec<Str> {
        let registry = world.registry();
        let mut logs: HashMap<Str, Arc<Log>> = HashMap::new();
        self.resources.clear();
        for resource in registry.resources().filter(|resource| resource.is_hub()) {
            if let (Some(collection), Some(log)) = (resource.collection(), world.log(resource)) {
                logs.insert(collection.prefix.clone(), log);
                self.resources.entry(collection.prefix.clone()).or_insert_with(|| resource.clone());
            }
        }
        let gone: Vec<Str> = self.tasks.keys().filter(|prefix| !logs.contains_key(*prefix)).cloned().collect();
        for prefix in &gone {
            self.unread.remove(prefix);
            if let Some(task) = self.tasks.remove(prefix) {
                task.abort();
            }
        }
        for (prefix, log) in logs {
            if !self.tasks.contains_key(&prefix) {
                self.unread.insert(prefix.clone());
                let task = tokio::spawn(follow(prefix.clone(), log, self.sender.clone()));
                self.tasks.insert(prefix, task);
            }
        }
        gone
    }

    /// What is in a collection.
    pub(crate) fn resource(&self, prefix: &str) -> Option<&Arc<Resource>> {
        self.resources.get(prefix)
    }

    /// The next change, with the collection that it is in.
    pub(crate) async fn next(&mut self) -> Option<(Str, Change)> {
        let (prefix, change) = self.changes.recv().await?;
        match change {
            Change::Read => drop(self.unread.remove(&prefix)),
            Change::Anew => drop(self.unread.insert(prefix.clone())),
            Change::There(_) | Change::Events(_) => {}
        }
        Some((prefix, change))
    }

    /// True if everything is known that was there when following began.
    pub(crate) fn has_read_all(&self) -> bool {
        self.unread.is_empty()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.tasks.values().for_each(JoinHandle::abort);
    }
}

async fn follow(prefix: Str, log: Arc<Log>, sender: mpsc::Sender<(Str, Change)>) {
    loop {
        let mut watcher = log.watch(Scope::All, log.newest_revision());
        for object in objects(&log, &KeyRange::All) {
            if sender.send((prefix.clone(), Change::There(object))).await.is_err() {
                return;
            }
        }
        if sender.send((prefix.clone(), Change::Read)).await.is_err() {
            return;
        }
        while let Ok(events) = watcher.next().await {
            if sender.send((prefix.clone(), Change::Events(events))).await.is_err() {
                return;
            }
        }
        if sender.send((prefix.clone(), Change::Anew)).await.is_err() {
            return;
        }
    }
}
