//! Reconciles one object: deletes it, orphans its dependents, or removes owners that are gone.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use pintle_registry::{ApiError, DeletionPropagation, GroupVersionKind, Scope};
use pintle_value::metadata::{FOREGROUND, ORPHAN};
use pintle_value::{Str, Value};

use super::graph::ObjectIdentity;
use super::metadata::{ObjectMetadata, OwnerReference};
use super::resources::{Collection, CurrentObject, get_remote};
use crate::ClusterClient;
use crate::work_queue::ReconcileResult;

/// How many dependents of an object are orphaned at the same time.
const MAX_CONCURRENT_ORPHANS: usize = 32;
const OWNER_REFERENCES: [&str; 2] = ["metadata", "ownerReferences"];
const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];

/// An object to reconcile, and the graph's knowledge of it when the reconciliation began.
pub(super) struct ReconcileTarget {
    pub(super) object: ObjectIdentity,
    pub(super) collection: Collection,
    pub(super) dependents: Vec<(ObjectIdentity, Collection)>,
    /// True if dependents block its foreground deletion.
    pub(super) is_blocked: bool,
    /// The revision up to which its dependents are known.
    pub(super) reported_revision: u64,
    /// The owners, by uid, whose deletion was reported. They are absent even if their kinds are not served any more.
    pub(super) deleted_owners: HashSet<Str>,
}

/// The state of an owner.
pub(super) enum OwnerState {
    /// It exists.
    Exists,
    /// It is in foreground deletion.
    DeletingDependents,
    /// It does not exist, or an object with another uid has its name.
    Absent,
    /// Its kind is not served or served by another API server, or it is corrupt.
    Unknown,
    /// A cluster-scoped object references a namespaced owner. Upstream leaves such objects alone.
    CrossNamespace,
}

/// The state of an owner that an object in a namespace references.
pub(super) fn owner_state(client: &Arc<dyn ClusterClient>, namespace: &str, owner: &OwnerReference) -> OwnerState {
    let (registry, kind) = (client.registry(), owner.gvk());
    if client.remote_resources().serves(&kind) {
        return OwnerState::Unknown;
    }
    let Some(resource) = registry.kind(&kind) else { return OwnerState::Unknown };
    let Some(watch_cache) = client.watch_cache(resource) else { return OwnerState::Unknown };
    let key: Str = match resource.scope {
        Scope::Cluster => owner.name.clone(),
        Scope::Namespaced if namespace.is_empty() => return OwnerState::CrossNamespace,
        Scope::Namespaced => format!("{namespace}/{}", owner.name).into(),
    };
    let Ok(found) = watch_cache.read(&key) else { return OwnerState::Unknown };
    let Some(object) = found else { return OwnerState::Absent };
    let metadata = ObjectMetadata::read(&object);
    match metadata.uid == owner.uid {
        false => OwnerState::Absent,
        true if metadata.deletes_dependents => OwnerState::DeletingDependents,
        true => OwnerState::Exists,
    }
}

/// Like [`owner_state`], and asks another API server if it has the kind of the owner.
///
/// # Errors
/// The other API server cannot be asked.
async fn current_owner_state(
    client: &Arc<dyn ClusterClient>,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<OwnerState, ApiError> {
    let state = owner_state(client, namespace, owner);
    let OwnerState::Unknown = state else { return Ok(state) };
    let Some(resource) = client.remote_resources().by_kind.get(&owner.gvk()).cloned() else { return Ok(state) };
    let namespace = match (resource.is_namespaced, namespace) {
        (true, "") => return Ok(OwnerState::CrossNamespace),
        (true, namespace) => namespace,
        (false, _) => "",
    };
    let Some(found) = get_remote(client, &resource, namespace, &owner.name).await? else {
        return Ok(OwnerState::Absent);
    };
    let metadata = ObjectMetadata::of_tree(&found);
    Ok(match metadata.uid == owner.uid {
        false => OwnerState::Absent,
        true if metadata.deletes_dependents => OwnerState::DeletingDependents,
        true => OwnerState::Exists,
    })
}

/// Reconciles an object. The object is blocked if an owner's kind is not served.
///
/// # Errors
/// An update or a deletion failed.
pub(super) async fn reconcile(
    client: &Arc<dyn ClusterClient>,
    target: &ReconcileTarget,
) -> Result<ReconcileResult<GroupVersionKind>, ApiError> {
    // An owner that is missing in an old state may have been created since.
    client.clone().catch_up().await?;
    let Some(object) = target.collection.current(client, &target.object).await? else {
        return Ok(ReconcileResult::Done);
    };
    if object.metadata.is_terminating {
        return reconcile_terminating(client, target, &object).await;
    }
    let metadata = object.metadata;
    let (namespace, _) = target.object.namespace_and_name();
    let (mut existing, mut deleting, mut absent) = (0, Vec::new(), Vec::new());
    for owner in &metadata.owners {
        match current_owner_state(client, namespace, owner).await? {
            OwnerState::Exists => existing += 1,
            OwnerState::DeletingDependents => deleting.push(owner.uid.clone()),
            OwnerState::Absent => absent.push(owner.uid.clone()),
            OwnerState::Unknown if target.deleted_owners.contains(&owner.uid) => absent.push(owner.uid.clone()),
            OwnerState::Unknown => return Ok(ReconcileResult::Blocked(owner.gvk())),
            OwnerState::CrossNamespace => return Ok(ReconcileResult::Done),
        }
    }
    if deleting.is_empty() && absent.is_empty() {
        return Ok(ReconcileResult::Done);
    }
    if existing > 0 {
        deleting.append(&mut absent);
        let removed = deleting;
        let compute = move |object: &Value| without_owners(object, &removed);
        target.collection.update(client, &target.object, compute).await?;
        return Ok(ReconcileResult::Done);
    }
    let propagation = if !deleting.is_empty() && !target.dependents.is_empty() {
        if has_deleting_dependent(client, target).await? {
            // The owners form a cycle: they must not wait for each other.
            target.collection.update(client, &target.object, without_blocking_owners).await?;
        }
        DeletionPropagation::Foreground
    } else if metadata.has_orphan_finalizer {
        DeletionPropagation::Orphan
    } else if metadata.has_foreground_finalizer {
        DeletionPropagation::Foreground
    } else {
        DeletionPropagation::Background
    };
    let Some(object) = target.collection.current(client, &target.object).await? else {
        return Ok(ReconcileResult::Done);
    };
    if object.metadata.owners.iter().map(|owner| &owner.uid).ne(metadata.owners.iter().map(|owner| &owner.uid)) {
        // The object has been adopted meanwhile. That change enqueues it again.
        return Ok(ReconcileResult::Done);
    }
    target.collection.delete(client, &target.object, object, propagation).await?;
    Ok(ReconcileResult::Done)
}

/// True if a dependent is in foreground deletion.
async fn has_deleting_dependent(client: &Arc<dyn ClusterClient>, target: &ReconcileTarget) -> Result<bool, ApiError> {
    for (dependent, collection) in &target.dependents {
        if collection.current(client, dependent).await?.is_some_and(|object| object.metadata.deletes_dependents) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Orphans the dependents of a terminating object, or ends its foreground deletion.
async fn reconcile_terminating(
    client: &Arc<dyn ClusterClient>,
    target: &ReconcileTarget,
    object: &CurrentObject,
) -> Result<ReconcileResult<GroupVersionKind>, ApiError> {
    let metadata = &object.metadata;
    if object.revision > target.reported_revision {
        // Dependents may have been created before the deletion and not be in the graph yet. The informer reports this
        // revision after them, which enqueues the object again.
        return Ok(ReconcileResult::Done);
    }
    if metadata.orphans_dependents {
        orphan_dependents(client, target).await?;
    }
    if metadata.deletes_dependents && !target.is_blocked {
        remove_finalizer(client, target, FOREGROUND).await?;
    }
    Ok(ReconcileResult::Done)
}

/// Removes an owner from its dependents, and then its finalizer `orphan`.
async fn orphan_dependents(client: &Arc<dyn ClusterClient>, target: &ReconcileTarget) -> Result<(), ApiError> {
    let owner = [target.object.uid.clone()];
    let updates = target.dependents.iter().cloned().map(|(dependent, collection)| {
        let (client, owner) = (client.clone(), owner.clone());
        async move { collection.update(&client, &dependent, move |object| without_owners(object, &owner)).await }
    });
    stream::iter(updates).buffer_unordered(MAX_CONCURRENT_ORPHANS).try_collect::<()>().await?;
    remove_finalizer(client, target, ORPHAN).await
}

async fn remove_finalizer(
    client: &Arc<dyn ClusterClient>,
    target: &ReconcileTarget,
    finalizer: &'static str,
) -> Result<(), ApiError> {
    let compute = move |object: &Value| {
        let left = object.items_at(&FINALIZERS).iter().filter(|found| found.as_str() != Some(finalizer));
        with_list(object, &FINALIZERS, left.cloned().collect())
    };
    target.collection.update(client, &target.object, compute).await
}

/// An object without some owners, given by uid.
fn without_owners(object: &Value, owners: &[Str]) -> Value {
    let left = object.items_at(&OWNER_REFERENCES).iter();
    let owners: HashSet<&str> = owners.iter().map(Str::as_str).collect();
    let left = left.filter(|owner| !owners.contains(owner.str_at(&["uid"])));
    with_list(object, &OWNER_REFERENCES, left.cloned().collect())
}

/// An object without `blockOwnerDeletion`.
fn without_blocking_owners(object: &Value) -> Value {
    let mut owners = object.items_at(&OWNER_REFERENCES).to_vec();
    for owner in owners.iter_mut().filter(|owner| owner.bool_at(&["blockOwnerDeletion"])) {
        owner.set("blockOwnerDeletion", false);
    }
    with_list(object, &OWNER_REFERENCES, owners)
}

/// An object with another list at a path. An empty list removes the field.
fn with_list(object: &Value, path: &[&str], list: Vec<Value>) -> Value {
    let mut object = object.clone();
    match list.is_empty() {
        true => drop(object.remove_at(path)),
        false => object.set_at(path, list),
    }
    object
}
