//! The garbage collector: deletes objects whose owners are gone, and carries out foreground and orphaning deletions
//! (upstream: `pkg/controller/garbagecollector`).

mod cross_namespace;
mod graph;
mod metadata;
mod reconcile;
mod resources;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, Object, WatchCache};
use pintle_registry::{GroupVersionKind, Resource};
use pintle_value::Str;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use self::graph::{Graph, ObjectIdentity};
use self::metadata::{ObjectMetadata, OwnerReference};
use self::reconcile::{OwnerState, ReconcileTarget, owner_state, reconcile};
use self::resources::{Collection, ResourceCache};
use crate::informer::{InformerEvent, OrderedInformer, RemoteChange, RemoteInformer, RemoteInformerEvent};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, controller_manager};

/// How many objects are processed at the same time.
const MAX_CONCURRENT: usize = 32;
/// How often the garbage collector checks whether it still has to stand by for a controller manager.
const STANDBY_PERIOD: Duration = Duration::from_secs(1);

/// Runs the garbage collector until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let Some(strong) = client.upgrade() else { return };
    let mut collector = GarbageCollector::new(&strong);
    drop(strong);
    while let Some(wakeup) = collector.next_wakeup().await
        && let Some(client) = client.upgrade()
    {
        collector.handle(&client, wakeup);
    }
}

enum Wakeup {
    Informer(InformerEvent<Arc<WatchCache>>),
    Remote(RemoteInformerEvent),
    RegistryChanged,
    /// The queue may have room, or a worker found an object blocked by a kind that is not served.
    Queue(Option<(ObjectIdentity, GroupVersionKind)>),
    StandbyOver,
}

struct GarbageCollector {
    informer: OrderedInformer,
    /// Follows the objects of other API servers.
    remote: RemoteInformer,
    registry_changes: watch::Receiver<()>,
    graph: Graph,
    /// The highest revision that the informer has reported.
    reported_revision: u64,
    resources: ResourceCache,
    queue: WorkQueue<ObjectIdentity, GroupVersionKind>,
    /// Objects in foreground deletion by uid. The uid alone counts: owner references that name the wrong kind block
    /// them too.
    deleting_dependents: HashMap<Str, ObjectIdentity>,
    /// Objects that cannot be reconciled yet, each with the owner's kind that is not served. The kind is `None` if no
    /// version of the object's own kind is served.
    blocked: HashMap<ObjectIdentity, Option<GroupVersionKind>>,
    /// While a controller manager is active: when to check that again.
    standby_until: Option<Instant>,
}

impl GarbageCollector {
    fn new(client: &Arc<dyn ClusterClient>) -> Self {
        let metrics = client.work_queues().queue("garbage_collector_attempt_to_delete");
        Self {
            informer: OrderedInformer::new(client),
            remote: RemoteInformer::new(client, |resource| resource.has_verb("delete")),
            registry_changes: client.registry_changes(),
            graph: Graph::default(),
            reported_revision: 0,
            resources: ResourceCache::default(),
            queue: WorkQueue::new(MAX_CONCURRENT, metrics),
            deleting_dependents: HashMap::new(),
            blocked: HashMap::new(),
            standby_until: None,
        }
    }

    /// The next wake-up; `None` once the cluster is gone. Cancel-safe.
    async fn next_wakeup(&mut self) -> Option<Wakeup> {
        tokio::select! {
            event = self.informer.next() => Some(Wakeup::Informer(event)),
            event = self.remote.next() => Some(Wakeup::Remote(event)),
            changed = self.registry_changes.changed() => changed.ok().map(|()| Wakeup::RegistryChanged),
            blocked = self.queue.wait() => Some(Wakeup::Queue(blocked)),
            () = sleep_until_some(self.standby_until) => Some(Wakeup::StandbyOver),
        }
    }

    fn handle(&mut self, client: &Arc<dyn ClusterClient>, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Informer(event) => self.handle_event(client, event),
            Wakeup::Remote(event) => self.handle_remote_event(client, event),
            Wakeup::RegistryChanged => self.requeue_blocked(client),
            Wakeup::Queue(blocked) => blocked.into_iter().for_each(|(object, kind)| self.block(client, object, kind)),
            Wakeup::StandbyOver => self.standby_until = None,
        }
        // Nothing may be deleted before the dependents of all owners are known.
        if self.informer.has_synced() && self.remote.has_synced() {
            self.start(client);
        }
    }

    fn handle_event(&mut self, client: &Arc<dyn ClusterClient>, event: InformerEvent<Arc<WatchCache>>) {
        match event {
            InformerEvent::Added(watch_cache, objects) => {
                objects.iter().for_each(|object| self.update(client, watch_cache.prefix(), None, Some(object)));
            }
            InformerEvent::Changed(events) => {
                for (watch_cache, event) in events {
                    let Event { previous, object, .. } = &*event;
                    self.update(client, watch_cache.prefix(), previous.as_ref(), object.as_ref());
                }
            }
            InformerEvent::Reset(watch_cache) => self.forget_collection(watch_cache.prefix()),
        }
    }

    fn handle_remote_event(&mut self, client: &Arc<dyn ClusterClient>, event: RemoteInformerEvent) {
        match event {
            RemoteInformerEvent::Changed(changes) => {
                for RemoteChange { prefix, before, after } in changes {
                    self.update(client, &prefix, before.as_ref(), after.as_ref());
                }
            }
            RemoteInformerEvent::Gone(prefix) => self.forget_collection(&prefix),
            // Owners may be found now.
            RemoteInformerEvent::ResourcesChanged => self.requeue_blocked(client),
        }
    }

    fn forget_collection(&mut self, prefix: &Str) {
        self.graph.remove_collection(prefix);
        self.deleting_dependents.retain(|_, object| object.prefix != *prefix);
        self.blocked.retain(|object, _| object.prefix != *prefix);
    }

    /// Applies the change of an object to the graph, and enqueues the objects that it concerns.
    fn update(
        &mut self,
        client: &Arc<dyn ClusterClient>,
        prefix: &Str,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) {
        self.reported_revision = self.reported_revision.max(after.map_or(0, |object| object.revision));
        let (old, new) = (before.and_then(|o| ObjectMetadata::of(o)), after.and_then(|o| ObjectMetadata::of(o)));
        if let (None, Some(deleted)) = (after, before) {
            // Its dependents may have no other owner.
            let uid = old.as_ref().map_or_else(|| ObjectMetadata::read(deleted).uid, |metadata| metadata.uid.clone());
            self.enqueue_dependents(&uid);
            // Another API server may lose objects and get them back, so it is always asked.
            if self.remote.resource(prefix).is_none() {
                self.graph.record_deletion(&uid, &deleted.key);
            }
        }
        if old.is_none() && new.is_none() {
            return;
        }
        let (Some(key), Some(uid)) = (
            after.or(before).map(|o| o.key.clone()),
            new.as_ref().or(old.as_ref()).map(|metadata| metadata.uid.clone()),
        ) else {
            return;
        };
        let object = ObjectIdentity { prefix: prefix.clone(), key, uid };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let is_changed = new.owners != old.owners;
        if after.is_none() || is_changed {
            self.blocked.remove(&object);
        }
        self.graph.update(&object, &old.owners, &new.owners);
        if new.deletes_dependents {
            self.deleting_dependents.insert(object.uid.clone(), object.clone());
        } else if old.deletes_dependents {
            self.deleting_dependents.remove(&object.uid);
        }
        let kept: HashSet<&OwnerReference> = new.owners.iter().filter(|_| is_changed).collect();
        for owner in old.owners.iter().filter(|_| is_changed) {
            // A foreground deletion of the owner may have waited for this object.
            if !kept.contains(owner)
                && !self.graph.is_blocked(&owner.uid)
                && let Some(owner) = self.deleting_dependents.get(&owner.uid).cloned()
            {
                self.queue.add(owner);
            }
        }
        // A removed owner may have blocked the evaluation of the other owners.
        let namespace = after.or(before).map_or("", |object| object.namespace());
        if is_changed {
            let known: HashSet<&OwnerReference> = old.owners.iter().collect();
            for owner in &new.owners {
                let state = owner_state(client, namespace, owner);
                if matches!(state, OwnerState::Absent | OwnerState::CrossNamespace) && !known.contains(owner) {
                    self.report_cross_namespace(client, &object, owner);
                }
                if !matches!(state, OwnerState::Exists) {
                    self.queue.add(object.clone());
                }
            }
        }
        if new.deletes_dependents && !old.deletes_dependents {
            self.enqueue_dependents(&new.uid);
        }
        if new.orphans_dependents || new.deletes_dependents {
            self.queue.add(object);
        }
    }

    /// Creates an event about an owner in another namespace, unless a controller manager does.
    fn report_cross_namespace(
        &mut self,
        client: &Arc<dyn ClusterClient>,
        object: &ObjectIdentity,
        owner: &OwnerReference,
    ) {
        if controller_manager::is_active(client)
            || !cross_namespace::is_in_other_namespace(client, object.namespace_and_name().0, owner)
        {
            return;
        }
        if let Some(resource) = self.resources.get(client, &object.prefix) {
            tokio::spawn(cross_namespace::report(client.clone(), resource, object.clone(), owner.clone()));
        }
    }

    fn enqueue_dependents(&mut self, owner: &str) {
        for dependent in self.graph.dependents(owner) {
            self.queue.add(dependent.clone());
        }
    }

    /// Enqueues the blocked objects whose missing kind is served now.
    fn requeue_blocked(&mut self, client: &Arc<dyn ClusterClient>) {
        let is_unblocked = |kind: &Option<GroupVersionKind>| kind.as_ref().is_none_or(|kind| is_served(client, kind));
        for (object, _) in self.blocked.extract_if(|_, kind| is_unblocked(kind)) {
            self.queue.add(object);
        }
    }

    /// Starts to reconcile enqueued objects, unless a controller manager is active.
    fn start(&mut self, client: &Arc<dyn ClusterClient>) {
        if self.standby_until.is_some() || self.queue.is_empty() {
            return;
        }
        if controller_manager::is_active(client) {
            self.standby_until = Some(Instant::now() + STANDBY_PERIOD);
            return;
        }
        let Self { informer, remote, graph, reported_revision, resources, queue, blocked, .. } = self;
        queue.start(|object| {
            let collections = |object: &ObjectIdentity| resources.collection(client, remote, &object.prefix);
            let Some(target) = reconcile_target((graph, *reported_revision), collections, client, object) else {
                if informer.follows(&object.prefix) {
                    blocked.insert(object.clone(), None);
                }
                return None;
            };
            let client = Arc::downgrade(client);
            Some(async move {
                let Some(client) = client.upgrade() else { return ReconcileResult::Done };
                reconcile(&client, &target).await.unwrap_or_else(|error| {
                    let ObjectIdentity { prefix, key, .. } = &target.object;
                    tracing::warn!(%error, %prefix, %key, "Failed to delete garbage-collected object, will retry");
                    ReconcileResult::Retry
                })
            })
        });
    }

    /// Stores an object that cannot be reconciled until a kind is served.
    fn block(&mut self, client: &Arc<dyn ClusterClient>, object: ObjectIdentity, kind: GroupVersionKind) {
        if is_served(client, &kind) {
            // The kind is served by now, or the owner is corrupt.
            return self.queue.retry(object);
        }
        self.queue.forget(&object);
        // The event of the object's deletion may have been reported while the object was reconciled.
        let resource = self.resources.get(client, &object.prefix);
        if resource.is_none_or(|resource| current_object(client, &object, &resource).is_some()) {
            self.blocked.insert(object, Some(kind));
        }
    }
}

/// The graph's knowledge of an object; `None` if no version of the object's kind is served.
fn reconcile_target(
    (graph, reported_revision): (&Graph, u64),
    mut collections: impl FnMut(&ObjectIdentity) -> Option<Collection>,
    client: &Arc<dyn ClusterClient>,
    object: &ObjectIdentity,
) -> Option<ReconcileTarget> {
    let collection = collections(object)?;
    let mut with_collection = |object: &ObjectIdentity| Some((object.clone(), collections(object)?));
    let dependents = graph.dependents(&object.uid).filter_map(&mut with_collection).collect();
    let current = match &collection {
        Collection::Local(resource) => current_object(client, object, resource),
        Collection::Remote(_) => None,
    };
    let deleted_owners = current.map(|current| {
        let owners = ObjectMetadata::read(&current).owners.into_iter();
        owners.filter(|owner| graph.is_deleted(owner, current.namespace())).map(|owner| owner.uid).collect()
    });
    Some(ReconcileTarget {
        is_blocked: graph.is_blocked(&object.uid),
        dependents,
        deleted_owners: deleted_owners.unwrap_or_default(),
        reported_revision,
        collection,
        object: object.clone(),
    })
}

/// The current state of an object of this server; `None` if it is gone or another object has its name.
fn current_object(
    client: &Arc<dyn ClusterClient>,
    object: &ObjectIdentity,
    resource: &Resource,
) -> Option<Arc<Object>> {
    let current = client.watch_cache(resource)?.get(&object.key, None).ok().flatten()?;
    (ObjectMetadata::read(&current).uid == object.uid).then_some(current)
}

/// True if objects of a kind can be looked up.
fn is_served(client: &Arc<dyn ClusterClient>, kind: &GroupVersionKind) -> bool {
    let remote = client.remote_resources();
    if remote.serves(kind) {
        return remote.by_kind.contains_key(kind);
    }
    client.registry().kind(kind).is_some_and(|resource| client.watch_cache(resource).is_some())
}

/// Sleeps until a time, or forever if there is none.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use pintle_cache::HistoryLimits;
    use pintle_store::{Change, Compare};

    use super::*;
    use crate::fake_cluster::FakeCluster;

    /// Runs a collector until it has this number of blocked objects.
    async fn run_until_blocked(collector: &mut GarbageCollector, cluster: &Arc<FakeCluster>, count: usize) {
        while collector.blocked.len() != count {
            let wakeup = tokio::time::timeout(Duration::from_secs(20), collector.next_wakeup()).await;
            collector.handle(&cluster.client(), wakeup.expect("an event in time").expect("the cluster exists"));
        }
    }

    #[tokio::test]
    async fn deleted_objects_whose_owner_has_an_unknown_kind_are_forgotten() {
        let cluster = FakeCluster::new(HistoryLimits::default()).await;
        let mut collector = GarbageCollector::new(&cluster.client());
        let key = |index: usize| format!("/registry/pods/n/p{index}");
        let pod = |index: usize, owner: &str| {
            let owner = format!(r#"{{"apiVersion":"example.com/v1","kind":"{owner}","name":"o","uid":"o"}}"#);
            let json = format!(r#"{{"metadata":{{"name":"p{index}","uid":"u{index}","ownerReferences":[{owner}]}}}}"#);
            Change::put(key(index), json)
        };
        for index in 0..10 {
            cluster.commit(pod(index, "Unknown")).await;
        }
        run_until_blocked(&mut collector, &cluster, 10).await;
        // Another owner of an unknown kind replaces the entry.
        cluster.commit(pod(0, "Other")).await;
        let is_other = |kind: &Option<GroupVersionKind>| kind.as_ref().is_some_and(|kind| kind.kind == "Other");
        while !collector.blocked.values().any(is_other) {
            let wakeup = collector.next_wakeup().await.expect("the cluster exists");
            collector.handle(&cluster.client(), wakeup);
        }
        for index in 0..10 {
            cluster.commit(Change::delete(key(index), Compare::Any)).await;
        }
        run_until_blocked(&mut collector, &cluster, 0).await;
        assert!(collector.queue.is_empty());
    }
}
