//! Reconciles the roles and bindings of the bootstrap policy when the server starts (upstream: the post-start hook
//! `rbac/bootstrap-roles` of `pkg/registry/rbac/rest`). If the stored objects already contain the policy, nothing is
//! written.

use std::sync::Arc;

use pintle_auth::rbac::{BootstrapPolicy, GROUP, Reconciliation, reconcile_role, reconcile_role_binding};
use pintle_controllers::{DeleteRequest, ObjectRef};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource, ObjectClient};
use pintle_value::Value;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::handlers::health::BOOTSTRAP_POLICY_TASK;
use crate::write::InternalClient;

/// Maximum number of attempts for an object that other clients create or delete at the same time.
const MAX_ATTEMPTS: u32 = 4;

/// Cluster roles that were not aggregated before Kubernetes 1.9, and the cluster roles that contain their rules since
/// then.
const AGGREGATED_ROLES: [(&str, &str); 3] = [
    ("admin", "system:aggregate-to-admin"),
    ("edit", "system:aggregate-to-edit"),
    ("view", "system:aggregate-to-view"),
];
/// The cluster role binding that was split, and the new binding that gets the same subjects.
const SPLIT_BINDING: (&str, &str) = ("system:discovery", "system:public-info-viewer");

/// Creates and updates the objects of the bootstrap policy. An object that fails is logged and left out. Returns the
/// error of such an object, if any.
pub(super) async fn reconcile_bootstrap_policy(cluster: &Arc<Cluster>) -> Option<ApiError> {
    let policy = BootstrapPolicy::new(&cluster.settings.gates);
    let client = InternalClient(cluster.clone());
    let mut failed = migrate(&client, &policy).await.err();
    if let Some(error) = &failed {
        tracing::error!(%error, "Failed to migrate roles and bindings of old clusters");
    }
    let resource = |plural| GroupResource::new(GROUP, plural);
    for (resource, objects) in [
        (resource("clusterroles"), policy.cluster_roles),
        (resource("clusterrolebindings"), policy.cluster_role_bindings),
        (resource("roles"), policy.roles),
        (resource("rolebindings"), policy.role_bindings),
    ] {
        failed = reconcile_objects(cluster, &resource, objects).await.or(failed);
    }
    cluster.lifecycle.background_tasks.task(BOOTSTRAP_POLICY_TASK).report_success();
    failed
}

/// Reconciles objects of one kind. The writes run concurrently, so that they share commits. Returns the error of an
/// object that failed, if any.
async fn reconcile_objects(cluster: &Arc<Cluster>, resource: &GroupResource, objects: Vec<Value>) -> Option<ApiError> {
    let mut writes = JoinSet::new();
    for expected in objects {
        let client = InternalClient(cluster.clone());
        if matches!(compare(&client, resource, &expected), Ok((_, Some(Reconciliation::UpToDate)))) {
            continue;
        }
        let resource = resource.clone();
        writes.spawn(async move {
            reconcile(&client, &resource, &expected).await.inspect_err(|error| {
                let (namespace, name) = (expected.namespace(), expected.name());
                tracing::error!(%error, %resource, namespace, name, "Failed to reconcile a role or binding of the bootstrap policy");
            })
        });
    }
    let mut failed = None;
    while let Some(ended) = writes.join_next().await {
        let result = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "Failed to reconcile a role or binding of the bootstrap policy");
            Err(ApiError::Internal(error.to_string()))
        });
        failed = result.err().or(failed);
    }
    failed
}

/// Compares the stored object with the expected object. Also returns the stored object. Returns null and `None` if no
/// object is stored.
fn compare(
    client: &InternalClient,
    resource: &GroupResource,
    expected: &Value,
) -> Result<(Value, Option<Reconciliation>), ApiError> {
    let Some(existing) = client.get(resource, expected.namespace(), expected.name())? else {
        return Ok((Value::Null, None));
    };
    let reconciliation = reconcile_object(&existing, expected)?;
    Ok((existing, Some(reconciliation)))
}

fn reconcile_object(existing: &Value, expected: &Value) -> Result<Reconciliation, ApiError> {
    match expected.get("roleRef") {
        Some(_) => Ok(reconcile_role_binding(existing, expected)),
        None => reconcile_role(existing, expected).map_err(|error| ApiError::Internal(error.to_string())),
    }
}

/// Creates, updates or recreates an object so that it has the expected content.
async fn reconcile(client: &InternalClient, resource: &GroupResource, expected: &Value) -> Result<(), ApiError> {
    let (namespace, name) = (expected.namespace(), expected.name());
    for _ in 0..MAX_ATTEMPTS {
        let (existing, reconciliation) = compare(client, resource, expected)?;
        let result = match reconciliation {
            None => client.create(resource, expected.clone()).await.map(drop),
            Some(Reconciliation::UpToDate) => return Ok(()),
            Some(Reconciliation::Protected) => {
                tracing::warn!(%resource, namespace, name, "Skipped a protected role or binding that lacks permissions");
                return Ok(());
            }
            Some(Reconciliation::Update(_)) => {
                // The object may have changed, so its current state decides.
                let compute = |existing: &Value| match reconcile_object(existing, expected) {
                    Ok(Reconciliation::Update(reconciled)) => reconciled,
                    _ => existing.clone(),
                };
                let updated = client.update_subresource(resource, "", (namespace, name), compute).await;
                updated.map(
                    |_| tracing::info!(%resource, namespace, name, "Added missing permissions to a role or binding"),
                )
            }
            Some(Reconciliation::Recreate) => {
                delete(client, resource, &existing).await?;
                tracing::info!(%resource, namespace, name, "Deleted a binding of the bootstrap policy to another role");
                client.create(resource, expected.clone()).await.map(drop)
            }
        };
        match result {
            Err(ApiError::AlreadyExists { .. } | ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {
                client.0.catch_up().await?;
            }
            result => return result,
        }
    }
    Err(ApiError::Internal("exceeded maximum attempts".to_owned()))
}

/// Deletes an object, unless it was already deleted or was created again.
async fn delete(client: &InternalClient, resource: &GroupResource, object: &Value) -> Result<(), ApiError> {
    let target = ObjectRef {
        resource: resource.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
    };
    let request = DeleteRequest {
        uid: object.uid().into(),
        revision: object.resource_version().parse().unwrap_or_default(),
        propagation: DeletionPropagation::Background,
    };
    match client.delete_with(&target, &request).await {
        // The create that follows fails if the object exists.
        Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => Ok(()),
        result => result,
    }
}

/// Preserves users' changes in objects whose content has moved to other objects (upstream:
/// `primeAggregatedClusterRoles`, `primeSplitClusterRoleBindings`). A data folder of this server contains such objects
/// only if users created them.
async fn migrate(client: &InternalClient, policy: &BootstrapPolicy) -> Result<(), ApiError> {
    let cluster_role = |name| client.get(&GroupResource::new(GROUP, "clusterroles"), "", name);
    for (old, new) in AGGREGATED_ROLES {
        if cluster_role(new)?.is_none()
            && let Some(mut role) = cluster_role(old)?.filter(|role| role.get("aggregationRule").is_none())
        {
            role.set_at(&["metadata", "name"], new);
            role.remove_at(&["metadata", "resourceVersion"]);
            create_migrated(client, "clusterroles", role).await?;
        }
    }
    let (old, new) = SPLIT_BINDING;
    let cluster_role_binding = |name| client.get(&GroupResource::new(GROUP, "clusterrolebindings"), "", name);
    let expected = policy.cluster_role_bindings.iter().find(|binding| binding.name() == new);
    if cluster_role_binding(new)?.is_none()
        && let Some((existing, expected)) = cluster_role_binding(old)?.zip(expected)
    {
        let mut binding = expected.clone();
        for path in [&["subjects"][..], &["metadata", "labels"], &["metadata", "annotations"]] {
            binding.set_at(path, existing.at(path).cloned().unwrap_or_default());
        }
        create_migrated(client, "clusterrolebindings", binding).await?;
    }
    Ok(())
}

async fn create_migrated(client: &InternalClient, plural: &str, object: Value) -> Result<(), ApiError> {
    let name = object.name().to_owned();
    match client.create(&GroupResource::new(GROUP, plural), object).await {
        Ok(_) => tracing::info!(plural, name, "Migrated a role or binding"),
        Err(ApiError::AlreadyExists { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
