//! Deletes the objects of terminating CRDs, and then removes the finalizer of the CRD (upstream:
//! apiextensions-apiserver's `pkg/controller/finalizer`).

use std::sync::{Arc, Weak};

use pintle_cache::{KeyRange, WatchScope};
use pintle_extensions::{CLEANUP_FINALIZER, Condition, is_condition_true, set_condition};
use pintle_registry::{ApiError, BoxFuture, CrdSource, Resource};
use pintle_value::{Str, Value};

use super::{CrdHost, TaskResult, crd_ref, find_crd, is_gone};
use crate::work_queue::ReconcileResult;

/// True if a CRD is terminating and waits for the deletion of its objects.
pub(super) fn awaits_cleanup(crd: &Value) -> bool {
    let finalizers = crd.items_at(&["metadata", "finalizers"]);
    crd.is_terminating() && finalizers.iter().any(|finalizer| finalizer.as_str() == Some(CLEANUP_FINALIZER))
}

/// Cleans up after a terminating CRD, given by name and uid.
pub(super) async fn clean_up(
    host: Weak<dyn CrdHost>,
    (name, uid): (Str, Str),
    source: Arc<dyn CrdSource>,
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
    host: &Arc<dyn CrdHost>,
    name: &str,
    source: &Arc<dyn CrdSource>,
) -> Result<TaskResult, ApiError> {
    let crd = find_crd(host, name).filter(awaits_cleanup);
    let Some(crd) = crd else { return Ok(ReconcileResult::Done) };
    let terminating = |status, reason, message: &str| Condition::new("Terminating", status, reason, message);
    let established = is_condition_true(&crd, "Established");
    let begun = terminating(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    update_condition(host, name, begun, &[]).await?;
    let resource = pintle_extensions::build_storage_resource(&crd, source);
    let condition = if host.is_built_in(&pintle_extensions::key_prefix(&crd)) {
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
    host: &Arc<dyn CrdHost>,
    name: &str,
    condition: Condition,
    finalizers: &'static [&'static str],
) -> Result<(), ApiError> {
    let now = host.now();
    let compute = move |crd: &Value| {
        let mut crd = crd.clone();
        set_condition(&mut crd, &condition, now);
        let is_kept = |found: &&Value| !found.as_str().is_some_and(|found| finalizers.contains(&found));
        let kept: Vec<Value> = crd.items_at(&["metadata", "finalizers"]).iter().filter(is_kept).cloned().collect();
        crd.set_at(&["metadata", "finalizers"], kept);
        crd
    };
    host.clone().update(crd_ref(name), "status", Arc::new(compute)).await.map(drop)
}

/// Deletes all objects of a resource. If some remain because of finalizers, returns a future that completes when any of
/// them changes.
async fn delete_objects(
    host: &Arc<dyn CrdHost>,
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
