//! Namespaces that go: everything in them is deleted, their status says what is left, and when nothing is they are let go
//! (upstream: `pkg/controller/namespace`).

mod conditions;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use pintle_cache::{KeyRange, Object, WatchCache, WatchScope, Watcher};
use pintle_registry::{ApiError, GroupResource, Resource, Scope, Verb};
use pintle_value::{Str, Value};
use tokio::task::{Id, JoinSet};

use self::conditions::Findings;
use crate::objects::tree;
use crate::{ClusterClient, ObjectRef, others};

/// The finalizer that is taken off when nothing is left.
const FINALIZER: &str = "kubernetes";
/// What goes before everything else: it may need the rest until its end.
const FIRST: &str = "pods";
/// How long failures and others are waited out.
const AGAIN: Duration = Duration::from_secs(1);

fn place(name: &str) -> ObjectRef {
    ObjectRef { resource: GroupResource::new("", "namespaces"), namespace: String::new(), name: name.to_owned() }
}

/// Follows the namespaces of a cluster for as long as it is there, and empties those that go.
pub async fn namespaces(client: Weak<dyn ClusterClient>) {
    let Some((watch_cache, from)) = begin(&client).await else { return };
    let mut watcher = watch_cache.watch(WatchScope::All, from);
    let mut tasks = Tasks::default();
    for namespace in watch_cache.objects(KeyRange::All) {
        tasks.look_at(&client, &namespace);
    }
    loop {
        tokio::select! {
            events = watcher.next() => {
                let Ok(events) = events else {
                    tracing::error!("namespaces are no longer followed: their history is gone");
                    return;
                };
                for namespace in events.iter().filter_map(|event| event.object.as_ref()) {
                    tasks.look_at(&client, namespace);
                }
            }
            Some(ended) = tasks.running.join_next_with_id() => {
                let ended = tasks.names.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
                // Another of the name may be going by now.
                let now = ended.and_then(|name| watch_cache.get(&name, None).ok().flatten());
                now.iter().for_each(|namespace| tasks.look_at(&client, namespace));
            }
        }
        if client.strong_count() == 0 {
            return;
        }
    }
}

/// The log of namespaces, and where following it begins.
async fn begin(client: &Weak<dyn ClusterClient>) -> Option<(Arc<WatchCache>, u64)> {
    let client = client.upgrade()?;
    let registry = client.registry();
    let watch_cache = client.watch_cache(registry.resource("", "v1", "namespaces")?)?;
    let from = client.catch_up().await.ok()?;
    Some((watch_cache, from))
}

/// The namespaces that are being emptied, each by a task.
#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, Str>,
}

impl Tasks {
    /// Begins to empty a namespace that goes, unless that is under way.
    fn look_at(&mut self, client: &Weak<dyn ClusterClient>, namespace: &Object) {
        let name = namespace.name();
        if !tree(namespace).is_some_and(|namespace| waits(&namespace)) || self.names.values().any(|known| known == name)
        {
            return;
        }
        let task = self.running.spawn(empty(client.clone(), name.to_owned()));
        self.names.insert(task.id(), name.into());
    }
}

/// True if a namespace is going, and waits for its content to go.
fn waits(namespace: &Value) -> bool {
    let finalizers = namespace.items_at(&["spec", "finalizers"]);
    namespace.is_terminating() && finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER))
}

/// What is to be done next about a namespace.
enum Next {
    /// Nothing: it is gone, it stays, or others have to finish it.
    Nothing,
    /// It is looked at again when one of these has changed.
    Changes(Vec<Watcher>),
    /// It is looked at again after a while: something failed, or others do what is done here.
    Time,
}

/// Empties a namespace until it is gone.
async fn empty(client: Weak<dyn ClusterClient>, name: String) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let mut kinds = strong.kinds();
        let next = attempt(&strong, &name).await.unwrap_or_else(|error| {
            tracing::info!(%error, namespace = %name, "a namespace is not empty yet");
            Next::Time
        });
        drop(strong);
        match next {
            Next::Nothing => return,
            Next::Time => tokio::time::sleep(AGAIN).await,
            Next::Changes(mut watchers) => {
                let changes = watchers.iter_mut().map(|watcher| Box::pin(watcher.next()));
                tokio::select! {
                    _ = select_all(changes) => {}
                    // There may be something of a new kind in it.
                    changed = kinds.changed() => if changed.is_err() { return },
                }
            }
        }
    }
}

/// Deletes what is in a namespace now, and lets it go if nothing is left.
async fn attempt(client: &Arc<dyn ClusterClient>, name: &str) -> Result<Next, ApiError> {
    if others::are_there(client) {
        return Ok(if is_ours(client, name) { Next::Time } else { Next::Nothing });
    }
    // Nobody else is let in, and who was let in before is done.
    client.clone().creates_have_ended().await;
    client.clone().catch_up().await?;
    if !is_ours(client, name) {
        return Ok(Next::Nothing);
    }
    let mut findings = Findings::default();
    let collections = collections(client);
    let (first, others): (Vec<_>, Vec<_>) =
        collections.into_iter().partition(|resource| resource.group.is_empty() && resource.plural == FIRST);
    let mut watchers = delete(client, name, &first, &mut findings).await?;
    if findings.are_empty() {
        watchers.extend(delete(client, name, &others, &mut findings).await?);
    }
    let findings = Arc::new(findings);
    say(client, name, findings.clone()).await?;
    if findings.are_empty() {
        let let_go = |namespace: &Value| {
            let mut namespace = namespace.clone();
            let finalizers = namespace.items_at(&["spec", "finalizers"]).iter();
            let left: Vec<Value> = finalizers.filter(|f| f.as_str() != Some(FINALIZER)).cloned().collect();
            match left.is_empty() {
                true => drop(namespace.remove_at(&["spec", "finalizers"])),
                false => namespace.set_at(&["spec", "finalizers"], left),
            }
            namespace
        };
        client.clone().change(place(name), "finalize", Arc::new(let_go)).await?;
        return Ok(Next::Nothing);
    }
    Ok(if findings.failures.is_empty() && !watchers.is_empty() { Next::Changes(watchers) } else { Next::Time })
}

/// True if there still is such a namespace.
fn is_ours(client: &Arc<dyn ClusterClient>, name: &str) -> bool {
    let registry = client.registry();
    let watch_cache = registry.resource("", "v1", "namespaces").and_then(|namespaces| client.watch_cache(namespaces));
    let object = watch_cache.and_then(|watch_cache| watch_cache.get(name, None).ok().flatten());
    object.and_then(|object| tree(&object)).is_some_and(|namespace| waits(&namespace))
}

/// One resource for each collection of objects that are in namespaces and can be deleted.
fn collections(client: &Arc<dyn ClusterClient>) -> Vec<Arc<Resource>> {
    let mut found = BTreeMap::new();
    for resource in client.registry().resources() {
        let stored = resource.scope == Scope::Namespaced && resource.verbs.has(Verb::Delete) && resource.is_hub();
        if let Some(collection) = resource.collection().filter(|_| stored) {
            found.entry(collection.prefix.clone()).or_insert_with(|| resource.clone());
        }
    }
    found.into_values().collect()
}

/// Deletes what is in a namespace of some collections, and finds what remains. Returns who hears of changes to that.
async fn delete(
    client: &Arc<dyn ClusterClient>,
    namespace: &str,
    collections: &[Arc<Resource>],
    findings: &mut Findings,
) -> Result<Vec<Watcher>, ApiError> {
    let range = KeyRange::Namespace(namespace.into());
    let mut remaining = Vec::new();
    for resource in collections {
        let Some(watch_cache) = client.watch_cache(resource) else { continue };
        if watch_cache.objects(range.clone()).next().is_none() && watch_cache.corrupt(&range, None).is_empty() {
            continue;
        }
        if let Err(error) = client.clone().delete_all(resource.clone(), namespace.to_owned()).await {
            findings.failures.push(error.to_string());
        }
        remaining.push((resource, watch_cache));
    }
    let now = client.clone().catch_up().await?;
    let mut watchers = Vec::new();
    for (resource, watch_cache) in remaining {
        let name = format!("{}.{}", resource.plural, resource.group);
        let mut any = false;
        for object in watch_cache.objects(range.clone()) {
            let finalizers = tree(&object).map(|tree| tree.items_at(&["metadata", "finalizers"]).to_vec());
            let finalizers = finalizers.unwrap_or_default();
            findings.note(&name, finalizers.iter().filter_map(Value::as_str).map(str::to_owned));
            any = true;
        }
        if any {
            watchers.push(watch_cache.watch(WatchScope::Namespace(namespace.into()), now));
        }
    }
    Ok(watchers)
}

/// Says in the status of a namespace what was found.
async fn say(client: &Arc<dyn ClusterClient>, name: &str, findings: Arc<Findings>) -> Result<(), ApiError> {
    let now = client.now();
    let compute = move |namespace: &Value| findings.said(namespace, now);
    client.clone().change(place(name), "status", Arc::new(compute)).await.map(drop)
}
