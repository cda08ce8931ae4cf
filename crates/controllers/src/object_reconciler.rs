//! Reconciles a fixed table of desired objects: creates missing objects, and restores objects that differ.

use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use pintle_cache::{Event, KeyRange, WatchScope};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::{Str, Value};
use tokio::sync::watch;

use crate::client::SERVER_MANAGER;
use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, is_served, watch_cache_of};
use crate::supervisor::{is_stopping, stopped, supervise};
use crate::work_queue::{ReconcileResult, WorkQueue, retry_failed};
use crate::{ClusterClient, DeleteRequest, ObjectRef};

/// The name of the background task that reconciles the objects.
pub const OBJECT_RECONCILER_TASK: &str = "object-reconciler";
/// How many objects are reconciled at the same time.
const MAX_CONCURRENT: usize = 32;
const FAILURE: &str = "Failed to reconcile a required object, will retry";

/// Where a desired object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceScope {
    /// It is cluster-scoped.
    Cluster,
    /// In one namespace.
    Namespace(&'static str),
    /// In every namespace that is not terminating.
    EveryNamespace,
}

impl NamespaceScope {
    fn includes(self, namespace: &str) -> bool {
        match self {
            NamespaceScope::Cluster => namespace.is_empty(),
            NamespaceScope::Namespace(only) => only == namespace,
            NamespaceScope::EveryNamespace => !namespace.is_empty(),
        }
    }
}

/// How an existing object differs from the desired one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Diff {
    /// In nothing that matters.
    UpToDate,
    /// It has to become this object.
    Update(Value),
    /// In immutable fields: it has to be deleted and created again.
    Recreate,
}

/// When an existing object is compared with the desired one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdatePolicy {
    /// When the server starts.
    OnStart,
    /// When the server starts and on every change.
    Always,
}

/// Why an object is reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Trigger {
    /// The server is not ready yet. Only missing objects are created, so that it is ready soon.
    Bootstrap,
    /// The reconciler has started, or has missed events.
    Resync,
    /// The object or its namespace has changed.
    Change,
}

/// An object that has to exist.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// Its group and resource.
    pub(crate) resource: GroupResource,
    /// Where it exists.
    pub(crate) namespace_scope: NamespaceScope,
    /// The object that is created, without its namespace.
    pub(crate) object: Value,
    /// Compares the existing object with the desired object.
    pub(crate) compare: fn(current: &Value, desired: &Value) -> Diff,
    /// When they are compared.
    pub(crate) update_policy: UpdatePolicy,
    /// True if a controller manager does the same, so that nothing is done while a controller manager is active.
    pub(crate) yields_to_controller_manager: bool,
}

impl DesiredObject {
    /// A cluster-scoped object that is created again if it is deleted, and otherwise stays as it is. No controller
    /// manager creates it.
    #[must_use]
    pub fn cluster_scoped(resource: GroupResource, object: Value) -> Self {
        Self {
            resource,
            namespace_scope: NamespaceScope::Cluster,
            object,
            compare: |_, _| Diff::UpToDate,
            update_policy: UpdatePolicy::Always,
            yields_to_controller_manager: false,
        }
    }

    fn object_ref(&self, namespace: &str) -> ObjectRef {
        let (namespace, name) = (namespace.to_owned(), self.object.name().to_owned());
        ObjectRef { resource: self.resource.clone(), namespace, name }
    }

    /// The scope of the events that concern the object.
    fn watch_scope(&self) -> WatchScope {
        match self.namespace_scope {
            NamespaceScope::Cluster => WatchScope::Key(self.object.name().into()),
            NamespaceScope::Namespace(namespace) => {
                WatchScope::Key(format!("{namespace}/{}", self.object.name()).into())
            }
            NamespaceScope::EveryNamespace => WatchScope::All,
        }
    }

    async fn reconcile(&self, client: &Arc<dyn ClusterClient>, namespace: &str, trigger: Trigger) -> ReconcileResult {
        retry_failed(self.try_reconcile(client, namespace, trigger).await, &self.object_ref(namespace), FAILURE)
    }

    /// Creates the object in its namespace if it is missing, and restores it if it differs.
    pub(crate) async fn restore(&self, client: &Arc<dyn ClusterClient>, namespace: &str) {
        if is_served(client, &self.resource) {
            self.reconcile(client, namespace, Trigger::Resync).await;
        }
    }

    async fn try_reconcile(
        &self,
        client: &Arc<dyn ClusterClient>,
        namespace: &str,
        trigger: Trigger,
    ) -> Result<ReconcileResult, ApiError> {
        if self.namespace_scope == NamespaceScope::EveryNamespace && !is_active(client, namespace) {
            return Ok(ReconcileResult::Done);
        }
        let target = self.object_ref(namespace);
        let current = find(client, &target);
        let diff = current.as_ref().map(|current| match (trigger, self.update_policy) {
            (Trigger::Bootstrap, _) | (Trigger::Change, UpdatePolicy::OnStart) => Diff::UpToDate,
            (Trigger::Resync, _) | (Trigger::Change, UpdatePolicy::Always) => (self.compare)(current, &self.object),
        });
        if diff == Some(Diff::UpToDate) {
            return Ok(ReconcileResult::Done);
        }
        if self.yields_to_controller_manager && controller_manager::is_active(client) {
            return Ok(ReconcileResult::Retry);
        }
        let client = client.clone();
        let manager = if self.yields_to_controller_manager { CONTROLLER_MANAGER } else { SERVER_MANAGER };
        match (diff, current) {
            (Some(Diff::Recreate), Some(current)) => {
                let revision = current.resource_version().parse().unwrap_or_default();
                let propagation = DeletionPropagation::Background;
                let request = DeleteRequest { uid: current.uid().into(), revision, propagation };
                // The event of the deletion creates the object again.
                client.delete(target, request).await?;
            }
            (Some(_), _) => {
                let (compare, desired) = (self.compare, self.object.clone());
                let compute = move |current: &Value| match compare(current, &desired) {
                    Diff::Update(updated) => updated,
                    Diff::UpToDate | Diff::Recreate => current.clone(),
                };
                client.update_as(target, "", manager, Arc::new(compute)).await?;
            }
            (None, _) => {
                let mut object = self.object.clone();
                if !namespace.is_empty() {
                    object.set_at(&["metadata", "namespace"], namespace);
                }
                client.create_as(target.resource, manager, object).await?;
            }
        }
        Ok(ReconcileResult::Done)
    }
}

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// True if a namespace exists and is not terminating.
fn is_active(client: &Arc<dyn ClusterClient>, name: &str) -> bool {
    let target = ObjectRef { resource: namespaces(), namespace: String::new(), name: name.to_owned() };
    find(client, &target).is_some_and(|namespace| namespace.str_at(&["status", "phase"]) == "Active")
}

/// A desired object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DesiredObjectKey {
    /// The index in the table.
    index: usize,
    namespace: Str,
    trigger: Trigger,
}

/// Reconciles a table of desired objects.
#[derive(Clone, Debug)]
pub struct ObjectReconciler {
    desired: Arc<[DesiredObject]>,
}

impl ObjectReconciler {
    /// A reconciler of these objects, as far as their resources are served.
    #[must_use]
    pub fn new(client: &Arc<dyn ClusterClient>, desired: Vec<DesiredObject>) -> Self {
        Self { desired: desired.into_iter().filter(|desired| is_served(client, &desired.resource)).collect() }
    }

    /// Creates the missing cluster-scoped objects and the missing objects of some namespaces, before the server is
    /// ready.
    pub async fn create_missing(&self, client: &Arc<dyn ClusterClient>, namespaces: &[&str]) {
        let namespaces = [""].iter().chain(namespaces);
        let objects = namespaces.flat_map(|namespace| self.desired.iter().map(move |desired| (desired, *namespace)));
        let objects = objects.filter(|(desired, namespace)| desired.namespace_scope.includes(namespace));
        join_all(objects.map(|(desired, namespace)| desired.reconcile(client, namespace, Trigger::Bootstrap))).await;
    }

    /// Reconciles the objects until the cluster is gone or `stopping` turns true. Writes that have begun by then are
    /// completed before this returns.
    pub fn run(
        self,
        client: &Arc<dyn ClusterClient>,
        stopping: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let until_stopped = stopping.clone();
        let is_stopping = move || is_stopping(&until_stopped);
        supervise(client, OBJECT_RECONCILER_TASK, is_stopping, move |client| {
            self.clone().run_once(client, stopping.clone())
        })
    }

    async fn run_once(self, client: Weak<dyn ClusterClient>, mut stopping: watch::Receiver<bool>) {
        let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
            let queue =
                WorkQueue::<DesiredObjectKey>::new(MAX_CONCURRENT, client.work_queues().queue("required_objects"));
            (Informer::new(&client, self.sources()), queue)
        }) else {
            return;
        };
        self.enqueue_namespace("", Trigger::Resync, &mut queue);
        loop {
            queue.start_with(&client, FAILURE, |client, key| {
                let desired = self.desired.clone();
                async move { Ok(desired[key.index].reconcile(&client, &key.namespace, key.trigger).await) }
            });
            tokio::select! {
                event = informer.next() => match event.zip(client.upgrade()) {
                    Some((event, client)) => self.handle_event(&client, &event, &mut queue),
                    None => return,
                },
                _ = queue.wait() => {}
                () = stopped(&mut stopping) => return queue.drain().await,
            }
        }
    }

    /// All namespaces, and the events of all reconciled objects.
    fn sources(&self) -> Vec<InformerSource<GroupResource>> {
        let mut sources: Vec<(GroupResource, WatchScope)> = Vec::new();
        for desired in &*self.desired {
            let source = (desired.resource.clone(), desired.watch_scope());
            // The informer of all namespaces includes single namespaces.
            if source.0 != namespaces() && !sources.contains(&source) {
                sources.push(source);
            }
        }
        let mut sources: Vec<_> = sources
            .into_iter()
            .map(|(resource, scope)| InformerSource::new(resource.clone(), resource, scope).without_list())
            .collect();
        sources.push(InformerSource::new(namespaces(), namespaces(), WatchScope::All));
        sources
    }

    fn handle_event(
        &self,
        client: &Arc<dyn ClusterClient>,
        event: &InformerEvent<GroupResource>,
        queue: &mut WorkQueue<DesiredObjectKey>,
    ) {
        match event {
            InformerEvent::Added(_, namespaces) => {
                for namespace in namespaces {
                    self.enqueue_namespace(namespace.name(), Trigger::Resync, queue);
                }
            }
            InformerEvent::Changed(events) => {
                for (resource, event) in events {
                    self.handle_change(resource, event, queue);
                }
            }
            // Changes of any object may have been missed.
            InformerEvent::Reset(_) => {
                self.enqueue_namespace("", Trigger::Resync, queue);
                for namespace in watch_cache_of(client, &namespaces()).iter().flat_map(|all| all.objects(KeyRange::All))
                {
                    self.enqueue_namespace(namespace.name(), Trigger::Resync, queue);
                }
            }
        }
    }

    fn handle_change(&self, resource: &GroupResource, event: &Event, queue: &mut WorkQueue<DesiredObjectKey>) {
        let (namespace, name) = event.key.rsplit_once('/').unwrap_or(("", &event.key));
        for (index, desired) in self.desired.iter().enumerate() {
            let is_it = desired.object.name() == name && desired.resource == *resource;
            if is_it && desired.namespace_scope.includes(namespace) {
                queue.add(DesiredObjectKey { index, namespace: namespace.into(), trigger: Trigger::Change });
            }
        }
        if event.object.is_some() && *resource == namespaces() {
            self.enqueue_namespace(name, Trigger::Change, queue);
        }
    }

    /// Enqueues all desired objects of a namespace.
    fn enqueue_namespace(&self, namespace: &str, trigger: Trigger, queue: &mut WorkQueue<DesiredObjectKey>) {
        for (index, desired) in self.desired.iter().enumerate() {
            if desired.namespace_scope.includes(namespace) {
                queue.add(DesiredObjectKey { index, namespace: namespace.into(), trigger });
            }
        }
    }
}
