//! The namespace controller: deletes the content of terminating namespaces, reports the remaining content in their
//! status, and removes their finalizer when nothing remains (upstream: `pkg/controller/namespace`).

mod conditions;
mod remote;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use pintle_cache::{KeyRange, Object, WatchScope, Watcher};
use pintle_registry::{ApiError, BoxFuture, GroupResource, Resource, Scope, Verb};
use pintle_value::{Str, Value};
use tokio::sync::watch;

use self::conditions::ContentSummary;
use self::remote::delete_remote_content;
use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, tree};
use crate::work_queue::{ReconcileResult, WorkQueue, retry_changed};
use crate::{CaughtUp, ClusterClient, ObjectRef};

/// The finalizer that is removed when no content remains.
const FINALIZER: &str = "kubernetes";
/// The resource that is deleted before all others. Pods may need the other resources until they have terminated.
const DELETED_FIRST: &str = "pods";
/// How many namespaces are processed at the same time. Their writes share commits.
const MAX_CONCURRENT: usize = 256;
/// How often the controller checks whether it still has to stand by for a controller manager.
const STANDBY_PERIOD: Duration = Duration::from_secs(1);
const FAILURE: &str = "Failed to delete the content of a namespace, will retry";

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn namespace_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: namespaces(), namespace: String::new(), name: name.to_owned() }
}

/// Runs the namespace controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let source = InformerSource::new((), namespaces(), WatchScope::All);
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let queue = WorkQueue::<Str>::new(MAX_CONCURRENT, client.work_queues().queue("namespace"));
        (Informer::new(&client, vec![source]), queue)
    }) else {
        return;
    };
    loop {
        queue.start_with(
            &client,
            FAILURE,
            |client, name| async move { retry_changed(reconcile(&client, &name).await) },
        );
        tokio::select! {
            event = informer.next() => match event {
                Some(event) => enqueue(&mut queue, &event),
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

/// Enqueues the namespaces that have begun to wait for the controller. From then on the queue retries them until they
/// no longer wait, so updates of their status need not enqueue them.
fn enqueue(queue: &mut WorkQueue<Str>, event: &InformerEvent<()>) {
    match event {
        InformerEvent::Added((), namespaces) => {
            let awaiting = namespaces.iter().filter(|namespace| awaits_finalization(namespace));
            awaiting.for_each(|namespace| queue.add(namespace.name().into()));
        }
        InformerEvent::Changed(events) => {
            for (_, event) in events {
                let [before, after] = [&event.previous, &event.object]
                    .map(|object| object.as_ref().is_some_and(|namespace| awaits_finalization(namespace)));
                if after && !before {
                    queue.add(Str::from(&*event.key));
                }
            }
        }
        // The list after the reset contains all waiting namespaces.
        InformerEvent::Reset(()) => {}
    }
}

/// True if a namespace is terminating and has the finalizer of this controller.
fn awaits_finalization(namespace: &Object) -> bool {
    tree(namespace).is_some_and(|namespace| is_to_be_finalized(&namespace))
}

fn is_to_be_finalized(namespace: &Value) -> bool {
    let finalizers = namespace.items_at(&["spec", "finalizers"]);
    namespace.is_terminating() && finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER))
}

/// Deletes the content that a namespace has now, and finalizes the namespace if none remains.
async fn reconcile(client: &Arc<dyn ClusterClient>, name: &str) -> Result<ReconcileResult, ApiError> {
    let is_current = || find(client, &namespace_ref(name)).is_some_and(|namespace| is_to_be_finalized(&namespace));
    if !is_current() {
        return Ok(ReconcileResult::Done);
    }
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::WaitFor(Box::pin(tokio::time::sleep(STANDBY_PERIOD))));
    }
    // Kinds that are served from now on may have objects in the namespace.
    let registry_changes = client.registry_changes();
    // Nothing is created in the namespace any more: a create is stored only if the namespace has not changed since it
    // was checked. All earlier creates, here and on other servers, are stored by now.
    let caught_up = client.clone().catch_up_all().await?;
    if !is_current() {
        return Ok(ReconcileResult::Done);
    }
    let mut summary = ContentSummary::default();
    let (first, others): (Vec<_>, Vec<_>) = deletable_resources(client)
        .into_iter()
        .partition(|resource| resource.group.is_empty() && resource.plural == DELETED_FIRST);
    let mut watchers = delete_content(client, name, &first, &caught_up, &mut summary).await?;
    if summary.is_empty() {
        watchers.extend(delete_content(client, name, &others, &caught_up, &mut summary).await?);
        delete_remote_content(client, name, &mut summary).await;
    }
    let summary = Arc::new(summary);
    update_status(client, name, summary.clone()).await?;
    if summary.is_empty() {
        client
            .clone()
            .update_as(namespace_ref(name), "finalize", CONTROLLER_MANAGER, Arc::new(without_finalizer))
            .await?;
        return Ok(ReconcileResult::Done);
    }
    if summary.needs_retry() || watchers.is_empty() {
        return Ok(ReconcileResult::Retry);
    }
    Ok(ReconcileResult::WaitFor(content_change(watchers, registry_changes)))
}

fn without_finalizer(namespace: &Value) -> Value {
    let mut namespace = namespace.clone();
    let finalizers = namespace.items_at(&["spec", "finalizers"]).iter();
    let left: Vec<Value> = finalizers.filter(|f| f.as_str() != Some(FINALIZER)).cloned().collect();
    match left.is_empty() {
        true => drop(namespace.remove_at(&["spec", "finalizers"])),
        false => namespace.set_at(&["spec", "finalizers"], left),
    }
    namespace
}

/// Completes when remaining content changes or the served resources do.
fn content_change(mut watchers: Vec<Watcher>, mut registry_changes: watch::Receiver<()>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let changes = watchers.iter_mut().map(|watcher| Box::pin(watcher.next()));
        tokio::select! {
            _ = select_all(changes) => {}
            _ = registry_changes.changed() => {}
        }
    })
}

/// One resource of each collection that stores namespaced objects and supports `delete`.
fn deletable_resources(client: &Arc<dyn ClusterClient>) -> Vec<Arc<Resource>> {
    let mut by_prefix = BTreeMap::new();
    for resource in client.registry().hubs() {
        let deletable = resource.scope == Scope::Namespaced && resource.verbs.has(Verb::Delete);
        if let Some(collection) = resource.collection().filter(|_| deletable) {
            by_prefix.entry(collection.prefix.clone()).or_insert_with(|| resource.clone());
        }
    }
    by_prefix.into_values().collect()
}

/// Deletes the objects that some resources have in a namespace as of a consistent read, and adds the remaining objects
/// to the summary. Returns watchers of the resources of which objects remain.
async fn delete_content(
    client: &Arc<dyn ClusterClient>,
    namespace: &str,
    resources: &[Arc<Resource>],
    caught_up: &CaughtUp,
    summary: &mut ContentSummary,
) -> Result<Vec<Watcher>, ApiError> {
    let range = KeyRange::Namespace(namespace.into());
    let mut deleted = Vec::new();
    for resource in resources {
        let Some(watch_cache) = client.watch_cache(resource) else { continue };
        if let Err(error) = caught_up.of(resource) {
            // The store could not be read, so it may have objects that the watch cache lacks.
            summary.failures.push(error.to_string());
            continue;
        }
        if watch_cache.objects(range.clone()).next().is_none() && watch_cache.corrupt(&range, None).is_empty() {
            continue;
        }
        if let Err(error) = client.clone().delete_collection(resource.clone(), namespace.to_owned()).await {
            summary.failures.push(error.to_string());
        }
        deleted.push((resource, watch_cache));
    }
    let caught_up = client.clone().catch_up_all().await?;
    let mut watchers = Vec::new();
    for (resource, watch_cache) in deleted {
        let now = match caught_up.of(resource) {
            Ok(now) => now,
            Err(error) => {
                summary.failures.push(error.to_string());
                continue;
            }
        };
        let name = format!("{}.{}", resource.plural, resource.group);
        let mut has_objects = false;
        for object in watch_cache.objects(range.clone()) {
            let finalizers = tree(&object).map(|tree| tree.items_at(&["metadata", "finalizers"]).to_vec());
            let finalizers = finalizers.unwrap_or_default();
            summary.add(&name, finalizers.iter().filter_map(Value::as_str).map(str::to_owned));
            has_objects = true;
        }
        if has_objects {
            watchers.push(watch_cache.watch(WatchScope::Namespace(namespace.into()), now));
        }
    }
    Ok(watchers)
}

/// Sets the conditions of a terminating namespace.
async fn update_status(
    client: &Arc<dyn ClusterClient>,
    name: &str,
    summary: Arc<ContentSummary>,
) -> Result<(), ApiError> {
    let now = client.now();
    let compute = move |namespace: &Value| summary.with_conditions(namespace, now);
    client.clone().update_as(namespace_ref(name), "status", CONTROLLER_MANAGER, Arc::new(compute)).await.map(drop)
}
