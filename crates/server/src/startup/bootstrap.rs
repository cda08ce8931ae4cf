//! The objects that the server creates when it starts. They are namespaces, priority classes, objects of the service
//! network, and the roles and bindings of the bootstrap policy.
//!
//! Webhooks and policies from files apply to these objects, too. They may refuse the objects, or wait for webhooks that
//! do not run yet. Then the server starts nevertheless and continues to try. Upstream creates the objects while it
//! serves, too.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_controllers::SYSTEM_NAMESPACES;
use pintle_kinds::ServiceNetwork;
use pintle_registry::{ApiError, GroupResource, ObjectClient};
use pintle_value::Value;
use tokio::sync::oneshot;

use super::bootstrap_policy::reconcile_bootstrap_policy;
use crate::cluster::Cluster;
use crate::handlers::health::BOOTSTRAP_POLICY_TASK;
use crate::write::InternalClient;

/// The first and the longest delay before failed creates are tried again.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum time for which the start waits for webhooks and policies from files.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Creates the bootstrap objects that do not exist yet. With `reconciles_policy`, it also reconciles the roles and
/// bindings.
///
/// # Errors
/// An object cannot be created. With webhooks or policies from files, this is no error, and the create is tried again
/// later.
pub(super) async fn bootstrap(
    cluster: &Arc<Cluster>,
    services: &ServiceNetwork,
    reconciles_policy: bool,
) -> Result<(), ApiError> {
    let objects = missing_objects(cluster, services);
    if cluster.admission().manifests().next().is_some() {
        let (is_tried, tried) = oneshot::channel();
        cluster.spawn_until_shutdown(retry(Arc::downgrade(cluster), objects, reconciles_policy, is_tried));
        let _ = tokio::time::timeout(MAX_WAIT, tried).await;
        return Ok(());
    }
    if let Some((_, error)) = create_all(cluster, objects).await.into_iter().next() {
        return Err(error);
    }
    if reconciles_policy {
        // As in upstream, an object that fails is left out.
        reconcile_bootstrap_policy(cluster).await;
    }
    Ok(())
}

/// The bootstrap objects that do not exist yet and whose resources are served.
fn missing_objects(cluster: &Cluster, services: &ServiceNetwork) -> Vec<Object> {
    let namespaces = GroupResource::new("", "namespaces");
    let object_named = |name: &str| pintle_value::object! { "metadata": pintle_value::object! { "name": name } };
    let mut objects: Vec<Object> =
        SYSTEM_NAMESPACES.iter().map(|name| (namespaces.clone(), object_named(name))).collect();
    objects.extend(services.bootstrap_objects());
    objects.extend(pintle_kinds::system_priority_classes());

    let registry = cluster.registry();
    objects.retain(|(resource, object)| {
        // A corrupt object is skipped. An administrator has to repair it, and needs a running server for that.
        registry.hub_of(resource).is_some()
            && matches!(cluster.get_object(resource, object.namespace(), object.name()), Ok(None))
    });
    objects
}

type Object = (GroupResource, Value);

/// Creates objects that may exist. Returns the objects whose creates failed.
async fn create_all(cluster: &Arc<Cluster>, objects: Vec<Object>) -> Vec<(Object, ApiError)> {
    // The creates run concurrently, so that they share a commit.
    let creates = objects.into_iter().map(|(resource, object)| {
        let client = InternalClient(cluster.clone());
        async move {
            let created = client.create(&resource, object.clone()).await;
            ((resource, object), created)
        }
    });
    let created = futures_util::future::join_all(creates).await;
    let failed = created.into_iter().filter_map(|(object, created)| match created {
        Ok(_) | Err(ApiError::AlreadyExists { .. }) => None,
        Err(error) => Some((object, error)),
    });
    failed.collect()
}

/// Tries again until all objects exist. Reports the end of the first attempt to `is_tried`.
async fn retry(
    cluster: Weak<Cluster>,
    mut objects: Vec<Object>,
    mut reconciles_policy: bool,
    is_tried: oneshot::Sender<()>,
) {
    let (mut is_tried, mut delay, mut logged) = (Some(is_tried), MIN_RETRY_DELAY, String::new());
    loop {
        let Some(upgraded) = cluster.upgrade() else { return };
        let failed = create_all(&upgraded, objects).await;
        let mut error = failed.first().map(|(_, error)| error.to_string());
        objects = failed.into_iter().map(|(object, _)| object).collect();
        if reconciles_policy {
            let failed = reconcile_bootstrap_policy(&upgraded).await;
            reconciles_policy = failed.is_some();
            if let Some(failed) = &failed {
                upgraded.lifecycle.background_tasks.task(BOOTSTRAP_POLICY_TASK).report_failure(&failed.to_string());
            }
            error = error.or(failed.map(|error| error.to_string()));
        }
        drop(upgraded);
        if let Some(is_tried) = is_tried.take() {
            let _ = is_tried.send(());
        }
        let Some(error) = error else { return };
        if logged != error {
            tracing::warn!(error, objects = objects.len(), "Failed to create bootstrap objects, will retry");
            logged = error;
        }
        tokio::time::sleep(delay).await;
        delay = (2 * delay).min(MAX_RETRY_DELAY);
    }
}
