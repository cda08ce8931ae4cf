//! An informer of objects that other API servers have. It keeps the metadata of the objects, because nobody else does.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use pintle_cache::{Key, Object, ObjectIndex};
use pintle_value::{Str, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::{ClusterClient, RemoteEvent, RemoteResource};

/// How many events may wait.
const MAX_WAITING: usize = 64;
/// How long others wait at most for the objects of all API servers (upstream: `initialSyncTimeout`).
const SYNC_TIME: Duration = Duration::from_secs(30);
/// The pause before a failed task is started again.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The change of an object of another API server.
pub(crate) struct RemoteChange {
    /// The prefix of the collection, see [`RemoteResource::prefix`].
    pub(crate) prefix: Str,
    /// The metadata before the change; `None` if the object was not known.
    pub(crate) before: Option<Arc<Object>>,
    /// The metadata after the change; `None` if the object is gone.
    pub(crate) after: Option<Arc<Object>>,
}

/// The reports of a [`RemoteInformer`].
pub(crate) enum RemoteInformerEvent {
    /// Changes, in order.
    Changed(Vec<RemoteChange>),
    /// The collection of this prefix is not followed any more: all earlier reports about it are void.
    Gone(Str),
    /// The resources of other API servers have changed.
    ResourcesChanged,
}

/// A resource that is followed.
struct FollowedResource {
    resource: Arc<RemoteResource>,
    /// The task that follows it. It ends when this value is dropped.
    task: AbortHandle,
    /// The metadata of the objects by key.
    objects: HashMap<Key, KnownObject>,
    is_listed: bool,
}

impl Drop for FollowedResource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows the objects of other API servers.
pub(crate) struct RemoteInformer {
    client: Weak<dyn ClusterClient>,
    changes: watch::Receiver<()>,
    /// Which resources are followed.
    is_wanted: Box<dyn Fn(&RemoteResource) -> bool + Send>,
    followed: HashMap<Str, FollowedResource>,
    gone: Vec<Str>,
    /// True once the objects of all API servers are known, or the time for that is over.
    has_synced: bool,
    /// The end of the time in which others wait for the objects.
    sync_deadline: Instant,
    tasks: JoinSet<()>,
    sender: mpsc::Sender<(Str, RemoteEvent)>,
    events: mpsc::Receiver<(Str, RemoteEvent)>,
}

impl RemoteInformer {
    /// Follows the resources that a predicate accepts, as long as they are served and can be watched.
    pub(crate) fn new(
        client: &Arc<dyn ClusterClient>,
        is_wanted: impl Fn(&RemoteResource) -> bool + Send + 'static,
    ) -> Self {
        let (sender, events) = mpsc::channel(MAX_WAITING);
        let mut informer = Self {
            client: Arc::downgrade(client),
            changes: client.remote_changes(),
            is_wanted: Box::new(is_wanted),
            followed: HashMap::new(),
            gone: Vec::new(),
            has_synced: false,
            sync_deadline: Instant::now() + SYNC_TIME,
            tasks: JoinSet::new(),
            sender,
            events,
        };
        informer.update_followed(client);
        informer.update_synced(client);
        informer
    }

    /// The next report; never returns once the cluster is gone. Cancel-safe.
    pub(crate) async fn next(&mut self) -> RemoteInformerEvent {
        loop {
            if let Some(prefix) = self.gone.pop() {
                return RemoteInformerEvent::Gone(prefix);
            }
            tokio::select! {
                Some((prefix, event)) = self.events.recv() => {
                    let changes = self.apply(&prefix, event);
                    let had_synced = self.has_synced;
                    if let Some(client) = self.client.upgrade() {
                        self.update_synced(&client);
                    }
                    if !changes.is_empty() || self.has_synced != had_synced {
                        return RemoteInformerEvent::Changed(changes);
                    }
                }
                Some(ended) = self.tasks.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    self.restart(id);
                }
                changed = self.changes.changed() => match changed.ok().and_then(|()| self.client.upgrade()) {
                    Some(client) => {
                        self.update_followed(&client);
                        self.update_synced(&client);
                        return RemoteInformerEvent::ResourcesChanged;
                    }
                    None => std::future::pending().await,
                },
                () = sleep_until(self.sync_deadline), if !self.has_synced => {
                    self.has_synced = true;
                    return RemoteInformerEvent::ResourcesChanged;
                }
            }
        }
    }

    /// Follows the wanted resources that are served now. A resource whose API server cannot be asked is followed on: its
    /// objects still exist.
    pub(crate) fn update_followed(&mut self, client: &Arc<dyn ClusterClient>) {
        let found = client.remote_resources();
        let is_kept = |resource: &RemoteResource| {
            let is_served = found.preferred.iter().any(|it| **it == *resource);
            (is_served || found.unknown.contains(&resource.version)) && (self.is_wanted)(resource)
        };
        let gone: Vec<Str> =
            self.followed.extract_if(|_, followed| !is_kept(&followed.resource)).map(|it| it.0).collect();
        self.gone.extend(gone);
        for resource in &found.preferred {
            let prefix = resource.prefix();
            let can_be_watched = ["list", "watch"].iter().all(|verb| resource.has_verb(verb));
            if self.followed.contains_key(&prefix) || !can_be_watched || !(self.is_wanted)(resource) {
                continue;
            }
            let resource = resource.clone();
            let task = self.tasks.spawn(client.clone().follow_remote(resource.clone(), self.sender.clone()));
            self.followed
                .insert(prefix, FollowedResource { resource, task, objects: HashMap::new(), is_listed: false });
        }
    }

    /// Starts a task again that has ended, which happens only after a panic.
    fn restart(&mut self, task: Id) {
        let Some(client) = self.client.upgrade() else { return };
        let Some(followed) = self.followed.values_mut().find(|followed| followed.task.id() == task) else { return };
        tracing::error!(
            resource = followed.resource.name(),
            "The task that follows a resource has ended, will restart it"
        );
        let (pause, following) =
            (client.sleep(RESTART_DELAY), client.follow_remote(followed.resource.clone(), self.sender.clone()));
        followed.task = self.tasks.spawn(async move {
            pause.await;
            following.await;
        });
    }

    /// True if the objects of all API servers are known. An API server that cannot be asked counts after a time.
    pub(crate) fn has_synced(&self) -> bool {
        self.has_synced
    }

    fn update_synced(&mut self, client: &Arc<dyn ClusterClient>) {
        let is_complete =
            || client.remote_resources().unknown.is_empty() && self.followed.values().all(|it| it.is_listed);
        self.has_synced = self.has_synced || is_complete();
    }

    /// The resource of a collection, if it is followed.
    pub(crate) fn resource(&self, prefix: &str) -> Option<&Arc<RemoteResource>> {
        self.followed.get(prefix).map(|followed| &followed.resource)
    }

    /// Applies an event to the known objects, and returns the changes.
    fn apply(&mut self, prefix: &Str, event: RemoteEvent) -> Vec<RemoteChange> {
        // The event may be of a resource that is not followed any more.
        let Some(followed) = self.followed.get_mut(prefix) else { return Vec::new() };
        let mut changes = Vec::new();
        match event {
            RemoteEvent::Listed(objects) => {
                followed.is_listed = true;
                let mut before = std::mem::take(&mut followed.objects);
                for object in objects.iter().map(KnownObject::new) {
                    add_change(&mut changes, prefix, before.remove(&object.metadata.key), Some(&object));
                    followed.objects.insert(object.metadata.key.clone(), object);
                }
                before.into_values().for_each(|gone| add_change(&mut changes, prefix, Some(gone), None));
            }
            RemoteEvent::Changed(object) => {
                let object = KnownObject::new(&object);
                let before = followed.objects.insert(object.metadata.key.clone(), object.clone());
                add_change(&mut changes, prefix, before, Some(&object));
            }
            RemoteEvent::Deleted(object) => {
                let object = KnownObject::new(&object);
                let before = followed.objects.remove(&object.metadata.key).unwrap_or(object);
                add_change(&mut changes, prefix, Some(before), None);
            }
        }
        changes
    }
}

/// The known part of an object of another API server.
#[derive(Clone)]
struct KnownObject {
    uid: Str,
    metadata: Arc<Object>,
}

impl KnownObject {
    fn new(object: &Value) -> Self {
        let key = match (object.namespace(), object.name()) {
            ("", name) => Key::from(name),
            (namespace, name) => Key::from([namespace, "/", name].concat().as_str()),
        };
        let json = Bytes::from(pintle_codec::json::encode(object));
        let metadata = Arc::new(Object::new(key, 0, json, ObjectIndex::default()));
        Self { uid: object.uid().into(), metadata }
    }
}

/// Adds the change of an object, unless nothing has changed. An object with another uid is another object.
fn add_change(changes: &mut Vec<RemoteChange>, prefix: &Str, before: Option<KnownObject>, after: Option<&KnownObject>) {
    let mut add = |before: Option<&KnownObject>, after: Option<&KnownObject>| {
        let metadata = |object: &KnownObject| object.metadata.clone();
        changes.push(RemoteChange { prefix: prefix.clone(), before: before.map(metadata), after: after.map(metadata) });
    };
    match (&before, after) {
        (Some(before), Some(after)) if before.uid != after.uid => {
            add(Some(before), None);
            add(None, Some(after));
        }
        (Some(before), Some(after)) if before.metadata.json == after.metadata.json => {}
        (before, after) => add(before.as_ref(), after),
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    fn known(name: &str, uid: &str, finalizer: &str) -> KnownObject {
        let metadata = object! { "name": name, "namespace": "n", "uid": uid, "finalizers": vec![finalizer] };
        KnownObject::new(&object! { "metadata": metadata })
    }

    #[test]
    fn an_object_with_another_uid_is_another_object() {
        let count = |before: Option<KnownObject>, after: Option<&KnownObject>| {
            let mut changes = Vec::new();
            add_change(&mut changes, &"p".into(), before, after);
            changes.iter().map(|it| (it.before.is_some(), it.after.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(count(None, Some(&known("a", "u", ""))), [(false, true)]);
        assert_eq!(count(Some(known("a", "u", "x")), Some(&known("a", "u", "x"))), []);
        assert_eq!(count(Some(known("a", "u", "x")), Some(&known("a", "u", "y"))), [(true, true)]);
        assert_eq!(count(Some(known("a", "u", "")), Some(&known("a", "v", ""))), [(true, false), (false, true)]);
        assert_eq!(count(Some(known("a", "u", "")), None), [(true, false)]);
    }
}
