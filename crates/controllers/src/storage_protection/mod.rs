//! The controllers of the finalizers that the admission plugins `StorageObjectInUseProtection` and `PodGroupProtection`
//! add (upstream: `pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}`). A finalizer is removed when its
//! object is terminating and nothing uses the object. It is added to a storage object that was created without it.
//!
//! - `claims`: which claims pods use.
//! - `volumes`: which volumes are bound.
//! - `attributes_classes`: which volume attributes classes claims and volumes use.
//! - `pod_groups`: which pod groups pods belong to.
//! - `composite_pod_groups`: which groups of pod groups other groups belong to.

mod attributes_classes;
mod claims;
mod composite_pod_groups;
mod pod_groups;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use futures_util::stream;
use memchr::memmem;
use pintle_cache::{Event, KeyRange, Object, WatchCache, WatchScope};
use pintle_locks::Mutex;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Str, Value};

pub(crate) use self::attributes_classes::VOLUME_ATTRIBUTES_CLASSES;
pub(crate) use self::claims::CLAIMS;
pub(crate) use self::composite_pod_groups::COMPOSITE_POD_GROUPS;
pub(crate) use self::pod_groups::POD_GROUPS;
pub(crate) use self::volumes::VOLUMES;
use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, is_served, watch_cache_of};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef};

/// How many namespaces are processed at the same time, and how many objects of each.
const MAX_CONCURRENT: usize = 8;
const FAILURE: &str = "Failed to find out which objects are in use, will retry";

/// The names of protected objects by namespace, which is empty for cluster-scoped ones.
type NamesByNamespace = BTreeMap<Str, BTreeSet<Str>>;

/// A kind of objects that are not deleted while other objects use them.
pub(crate) struct Protection {
    /// The name of the controller.
    pub(crate) controller: &'static str,
    /// The name of its work queue.
    queue: &'static str,
    /// The group and plural name of the protected objects.
    resource: (&'static str, &'static str),
    finalizer: &'static str,
    /// True if objects that were created without the finalizer get it.
    adds_finalizer: bool,
    /// The groups and plural names of the objects that use the protected objects.
    users: &'static [(&'static str, &'static str)],
    /// The namespaces and names of protected objects that a changed or deleted user may no longer use.
    released: fn(&Event) -> Vec<(Str, Str)>,
    /// The names of the used objects among terminating objects of a namespace.
    used: FindUsed,
}

type FindUsed = fn(&Arc<dyn ClusterClient>, namespace: &str, terminating: &[Value]) -> Result<BTreeSet<Str>, ApiError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Protected,
    User,
}

/// The objects that wait for a decision.
#[derive(Default)]
struct ProtectedObjects {
    /// Objects that have to be examined.
    pending: NamesByNamespace,
    /// Objects that are being examined, or were used at their last examination.
    terminating: NamesByNamespace,
}

/// Names that are being examined. When this value is dropped, also after a panic, undecided names are pending again.
struct Undecided<'a> {
    objects: &'a Mutex<ProtectedObjects>,
    namespace: &'a str,
    names: BTreeSet<Str>,
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        let mut objects = self.objects.lock();
        self.names.iter().for_each(|name| insert(&mut objects.pending, self.namespace, name));
    }
}

/// The change of an object's finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalizerChange {
    Add,
    Remove,
}

impl Protection {
    fn resource(&self) -> GroupResource {
        resource_of(self.resource)
    }

    /// The finalizer change that an object may need.
    fn change(&self, object: &Value) -> Option<FinalizerChange> {
        let finalizers = object.items_at(&["metadata", "finalizers"]);
        let has_finalizer = finalizers.iter().any(|finalizer| finalizer.as_str() == Some(self.finalizer));
        match (object.is_terminating(), has_finalizer) {
            (true, true) => Some(FinalizerChange::Remove),
            (false, false) if self.adds_finalizer => Some(FinalizerChange::Add),
            _ => None,
        }
    }

    /// True if [`Self::change`] may return a change for a stored object. The object is not decoded.
    fn may_change(&self, object: &Object) -> bool {
        let may_lack_it = || self.adds_finalizer && memmem::find(&object.json, self.finalizer.as_bytes()).is_none();
        is_terminating(object) || may_lack_it()
    }

    /// True if the server serves the protected objects.
    pub(crate) fn is_served(&self, client: &Arc<dyn ClusterClient>) -> bool {
        is_served(client, &self.resource())
    }

    /// Runs the controller until the cluster is gone.
    pub(crate) async fn run(&'static self, client: Weak<dyn ClusterClient>) {
        let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
            let queue = WorkQueue::<Str>::new(MAX_CONCURRENT, client.work_queues().queue(self.queue));
            (Informer::new(&client, self.sources()), queue)
        }) else {
            return;
        };
        let objects = Arc::new(Mutex::new(ProtectedObjects::default()));
        loop {
            queue.start_with(&client, FAILURE, |client, namespace| {
                let objects = objects.clone();
                async move { self.reconcile(&client, &namespace, &objects).await }
            });
            tokio::select! {
                event = informer.next() => match event.zip(client.upgrade()) {
                    Some((event, client)) => {
                        let mut objects = objects.lock();
                        for (namespace, name) in self.handle_event(&client, event, &mut objects) {
                            insert(&mut objects.pending, &namespace, &name);
                            queue.add(namespace);
                        }
                    }
                    None => return,
                },
                _ = queue.wait() => {}
            }
        }
    }

    fn sources(&self) -> Vec<InformerSource<Source>> {
        let users = self
            .users
            .iter()
            .map(|user| InformerSource::new(Source::User, resource_of(*user), WatchScope::All).without_list());
        let protected = InformerSource::new(Source::Protected, self.resource(), WatchScope::All);
        std::iter::once(protected).chain(users).collect()
    }

    /// The namespaced names of the objects that have to be examined after an event.
    fn handle_event(
        &self,
        client: &Arc<dyn ClusterClient>,
        event: InformerEvent<Source>,
        objects: &mut ProtectedObjects,
    ) -> Vec<(Str, Str)> {
        match event {
            InformerEvent::Added(_, added) => added.iter().filter_map(|object| self.candidate(object)).collect(),
            InformerEvent::Changed(events) => {
                events.iter().flat_map(|(source, event)| self.handle_change(*source, event, objects)).collect()
            }
            // The list after the reset brings all objects.
            InformerEvent::Reset(Source::Protected) => {
                *objects = ProtectedObjects::default();
                Vec::new()
            }
            // Any use may have ended.
            InformerEvent::Reset(Source::User) => {
                let watch_cache = watch_cache_of(client, &self.resource());
                let stored = watch_cache.into_iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All));
                stored.filter_map(|object| self.candidate(&object)).collect()
            }
        }
    }

    fn handle_change(&self, source: Source, event: &Event, objects: &mut ProtectedObjects) -> Vec<(Str, Str)> {
        match (source, &event.object) {
            (Source::Protected, Some(object)) => self.candidate(object).into_iter().collect(),
            (Source::Protected, None) => {
                let (namespace, name) = event.key.split_once('/').unwrap_or(("", &event.key));
                remove(&mut objects.terminating, namespace, name);
                Vec::new()
            }
            (Source::User, _) if objects.terminating.is_empty() => Vec::new(),
            (Source::User, _) => {
                let mut released = (self.released)(event);
                let is_terminating = |namespace: &Str, name: &Str| {
                    objects.terminating.get(namespace).is_some_and(|names| names.contains(name))
                };
                released.retain(|(namespace, name)| is_terminating(namespace, name));
                released
            }
        }
    }

    /// The namespace and name of a stored object that may have to be changed.
    fn candidate(&self, object: &Object) -> Option<(Str, Str)> {
        self.may_change(object).then(|| (object.namespace().into(), object.name().into()))
    }

    /// Examines the pending objects of a namespace. Objects that fail stay pending.
    async fn reconcile(
        &self,
        client: &Arc<dyn ClusterClient>,
        namespace: &str,
        objects: &Mutex<ProtectedObjects>,
    ) -> Result<ReconcileResult, ApiError> {
        let names = objects.lock().pending.remove(namespace).unwrap_or_default();
        let mut undecided = Undecided { objects, namespace, names };
        undecided.names = self.try_reconcile(client, namespace, &undecided.names, objects).await?;
        Ok(if undecided.names.is_empty() { ReconcileResult::Done } else { ReconcileResult::Retry })
    }

    /// Returns the names of the objects that have to be examined again.
    async fn try_reconcile(
        &self,
        client: &Arc<dyn ClusterClient>,
        namespace: &str,
        names: &BTreeSet<Str>,
        objects: &Mutex<ProtectedObjects>,
    ) -> Result<BTreeSet<Str>, ApiError> {
        let mut changes = Vec::new();
        let mut terminating = Vec::new();
        // From now on the end of a use is noticed, and the watch cache shows each use that has begun.
        names.iter().for_each(|name| insert(&mut objects.lock().terminating, namespace, name));
        client.clone().catch_up().await?;
        for name in names {
            let target = self.object_ref(namespace, name);
            let found = find(client, &target);
            match found.and_then(|object| Some((self.change(&object)?, object))) {
                Some((FinalizerChange::Remove, object)) => terminating.push(object),
                Some((FinalizerChange::Add, object)) => changes.push(object),
                None => {}
            }
        }
        let used = if terminating.is_empty() { BTreeSet::new() } else { (self.used)(client, namespace, &terminating)? };
        changes.extend(terminating.into_iter().filter(|object| !used.contains(object.name())));
        let failed = if !changes.is_empty() && controller_manager::is_active(client) {
            changes.iter().map(|object| object.name().into()).collect()
        } else {
            let writes = changes.into_iter().map(|object| self.write(client, namespace, object));
            stream::iter(writes).buffer_unordered(MAX_CONCURRENT).filter_map(std::future::ready).collect().await
        };
        let mut objects = objects.lock();
        for name in names.iter().filter(|name| !used.contains(*name)) {
            remove(&mut objects.terminating, namespace, name);
        }
        Ok(failed)
    }

    fn object_ref(&self, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { resource: self.resource(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Adds or removes the finalizer of an object. Returns the object's name if the write failed.
    async fn write(&self, client: &Arc<dyn ClusterClient>, namespace: &str, object: Value) -> Option<Str> {
        let (uid, expected, finalizer) = (Str::from(object.uid()), self.change(&object), self.finalizer);
        let change = move |current: &Value| {
            let mut object = current.clone();
            let present = object.items_at(&["metadata", "finalizers"]).iter();
            let mut finalizers: Vec<Value> =
                present.filter(|present| present.as_str() != Some(finalizer)).cloned().collect();
            if expected == Some(FinalizerChange::Add) {
                finalizers.push(finalizer.into());
            }
            let is_expected = object.is_terminating() == (expected == Some(FinalizerChange::Remove));
            if object.uid() == uid && is_expected {
                match finalizers.is_empty() {
                    true => drop(object.remove_at(&["metadata", "finalizers"])),
                    false => object.set_at(&["metadata", "finalizers"], finalizers),
                }
            }
            object
        };
        let name = object.name();
        match client.clone().update_as(self.object_ref(namespace, name), "", CONTROLLER_MANAGER, Arc::new(change)).await
        {
            Ok(_) | Err(ApiError::NotFound { .. }) => None,
            Err(error) => {
                let controller = self.controller;
                tracing::warn!(%error, controller, namespace, name, "Failed to change a protection finalizer, will retry");
                Some(name.into())
            }
        }
    }
}

fn resource_of((group, plural): (&'static str, &'static str)) -> GroupResource {
    GroupResource::new(group, plural)
}

fn insert(names: &mut NamesByNamespace, namespace: &str, name: &str) {
    match names.get_mut(namespace) {
        Some(names) => drop(names.insert(name.into())),
        None => drop(names.insert(namespace.into(), BTreeSet::from([name.into()]))),
    }
}

fn remove(names: &mut NamesByNamespace, namespace: &str, name: &str) {
    if let Some(left) = names.get_mut(namespace) {
        left.remove(name);
        if left.is_empty() {
            names.remove(namespace);
        }
    }
}

/// True if a stored object may be terminating.
fn is_terminating(object: &Object) -> bool {
    memmem::find(&object.json, b"\"deletionTimestamp\"").is_some()
}

/// The objects of a range, which must all be readable: a corrupt object may use anything.
fn readable(
    client: &Arc<dyn ClusterClient>,
    resource: (&'static str, &'static str),
    range: KeyRange,
) -> Result<(Arc<WatchCache>, KeyRange), ApiError> {
    let resource = resource_of(resource);
    let unreadable = |why: &str| ApiError::Internal(format!("{resource}: {why}"));
    let watch_cache = watch_cache_of(client, &resource).ok_or_else(|| unreadable("the watch cache is not open"))?;
    match watch_cache.corrupt(&range, None).is_empty() {
        true => Ok((watch_cache, range)),
        false => Err(unreadable("a stored object is corrupt")),
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn what_is_not_decided_is_examined_again_after_a_panic() {
        let objects = Mutex::new(ProtectedObjects::default());
        let examination = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _undecided = Undecided { objects: &objects, namespace: "n", names: BTreeSet::from(["a".into()]) };
            panic!("an examination that fails");
        }));
        assert!(examination.is_err());
        assert_eq!(objects.lock().pending, BTreeMap::from([("n".into(), BTreeSet::from(["a".into()]))]));
    }

    #[test]
    fn terminating_objects_lose_their_finalizer_and_others_have_it() {
        let check = |finalizers: &[&str], is_terminating: bool, expect: Option<FinalizerChange>| {
            let finalizers: Vec<Value> = finalizers.iter().map(|finalizer| Value::from(*finalizer)).collect();
            let mut volume = object! { "metadata": object! { "finalizers": finalizers } };
            if is_terminating {
                volume.set_at(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
            assert_eq!(VOLUMES.change(&volume), expect, "{volume:?}");
        };
        let own = "kubernetes.io/pv-protection";
        check(&[own], false, None);
        check(&["a/b", own], true, Some(FinalizerChange::Remove));
        check(&["a/b"], true, None);
        check(&["a/b"], false, Some(FinalizerChange::Add));
        check(&[], false, Some(FinalizerChange::Add));
        assert_eq!(POD_GROUPS.change(&Value::object()), None);
    }
}
