//! Deletes the objects of terminating CRDs, and then removes the finalizer of the CRD (upstream:
//! apiextensions-apiserver's `pkg/controller/finalizer`).

use std::sync::{Arc, Weak};

use pintle_cache::{KeyRange, WatchScope};
use pintle_extensions::{CLEANUP_FINALIZER, Condition, is_condition_true, set_condition};
use pintle_registry::{ApiError, BoxFuture, DefinitionSource, Resource};
use pintle_value::{Str, Value};

use super::{DefinitionHost, TaskResult, definition_ref, find_definition, is_gone};
use crate::work_queue::ReconcileResult;

/// True if a CRD is terminating and waits for the deletion of its objects.
pub(super) fn awaits_cleanup(definition: &Value) -> bool {
    let finalizers = definition.items_at(&["metadata", "finalizers"]);
    definition.is_terminating() && finalizers.iter().any(|finalizer| finalizer.as_str() == Some(CLEANUP_FINALIZER))
}

/// Cleans up after a terminating CRD, given by name and uid.
pub(super) async fn clean_up(
    host: Weak<dyn DefinitionHost>,
    (name, uid): (Str, Str),
    source: Arc<dyn DefinitionSource>,
) -> TaskResult {
    let Some(host) = host.upgrade() else { return ReconcileResult::Done };
    match try_clean_up(&host, &name, &source).await {
        Ok(result) => result,
        Err(_) if is_gone(&host, &name, &uid).await => ReconcileResult::Done,
        Err(error) => {
            tracing::warn!(%error, %name, "Failed to delete the objects of a CustomResourceDefinition, will retry");
            ReconcileResult::Retry
        }
    }
}

async fn try_clean_up(
    host: &Arc<dyn DefinitionHost>,
    name: &str,
    source: &Arc<dyn DefinitionSource>,
) -> Result<TaskResult, ApiError> {
    let definition = find_definition(host, name).filter(awaits_cleanup);
    let Some(definition) = definition else { return Ok(ReconcileResult::Done) };
    let terminating = |status, reason, message: &str| Condition::new("Terminating", status, reason, message);
    let established = is_condition_true(&definition, "Established");
    let begun = terminating(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    update_condition(host, name, begun, &[]).await?;
    let resource = pintle_extensions::build_storage_resource(&definition, source);
    let condition = if host.is_built_in(&pintle_extensions::key_prefix(&definition)) {
        terminating(false, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
    } else if let Some(resource) = resource.filter(|_| established) {
        if let Some(change) = delete_objects(host, resource).await? {
            return Ok(ReconcileResult::WaitFor(change));
        }
        terminating(false, "InstanceDeletionCompleted", "removed all instances")
    } else {
        terminating(false, "NeverEstablished", "resource was never established")
    };
    update_condition(host, name, condition, &[CLEANUP_FINALIZER]).await?;
    Ok(ReconcileResult::Done)
}

/// Sets a condition and removes finalizers, in one update.
async fn update_condition(
    host: &Arc<dyn DefinitionHost>,
    name: &str,
    condition: Condition,
    finalizers: &'static [&'static str],
) -> Result<(), ApiError> {
    let now = host.now();
    let compute = move |definition: &Value| {
        let mut definition = definition.clone();
        set_condition(&mut definition, &condition, now);
        let is_kept = |found: &&Value| !found.as_str().is_some_and(|found| finalizers.contains(&found));
        let kept: Vec<Value> =
            definition.items_at(&["metadata", "finalizers"]).iter().filter(is_kept).cloned().collect();
        definition.set_at(&["metadata", "finalizers"], kept);
        definition
    };
    host.clone().update(definition_ref(name), "status", Arc::new(compute)).await.map(drop)
}

/// Deletes all objects of a resource. If some remain because of finalizers, returns a future that completes when any of
/// them changes.
async fn delete_objects(
    host: &Arc<dyn DefinitionHost>,
    resource: Arc<Resource>,
) -> Result<Option<BoxFuture<'static, ()>>, ApiError> {
    if host.is_built_in_group(&resource.group) {
        // The server never served objects of this CRD.
        return Ok(None);
    }
    // Nothing is created any more: a create is stored only if the CRD has not changed since it was checked. All earlier
    // creates are stored by now.
    host.clone().catch_up().await?;
    let Some(watch_cache) = host.watch_cache(&resource) else {
        return Err(ApiError::Internal(format!("no watch cache of {}", resource.plural)));
    };
    host.clone().delete_all_objects(resource).await?;
    let now = host.clone().catch_up().await?;
    if watch_cache.objects(KeyRange::All).next().is_none() {
        return Ok(None);
    }
    let mut watcher = watch_cache.watch(WatchScope::All, now);
    Ok(Some(Box::pin(async move { drop(watcher.next().await) })))
}
