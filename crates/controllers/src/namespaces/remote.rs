//! Deletes the objects that other API servers have in a namespace (upstream: `deleteAllContentForGroupVersionResource`).

use std::sync::Arc;

use futures_util::future::join_all;
use pintle_registry::{ApiError, DeletionPropagation};
use pintle_value::{Str, Value};

use super::conditions::ContentSummary;
use crate::{ClusterClient, RemoteOperation, RemoteResource};

/// Deletes the objects of all other API servers in a namespace, all at the same time, and adds what remains to the
/// summary.
pub(super) async fn delete_remote_content(
    client: &Arc<dyn ClusterClient>,
    namespace: &str,
    summary: &mut ContentSummary,
) {
    let found = client.remote_resources();
    summary.undiscovered.clone_from(&found.unknown);
    let deletable = found.preferred.iter().filter(|it| it.is_namespaced && it.has_verb("delete"));
    let deletions = deletable.map(async |resource| {
        let left = delete(client, namespace, resource).await;
        (resource.name(), left)
    });
    for (name, left) in join_all(deletions).await {
        match left {
            Ok(objects) => {
                summary.has_remote |= !objects.is_empty();
                for object in &objects {
                    let finalizers = object.items_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str);
                    summary.add(&name, finalizers.map(str::to_owned));
                }
            }
            Err(error) => summary.failures.push(error.to_string()),
        }
    }
}

/// Deletes the objects of a resource in a namespace, and returns the objects that remain.
async fn delete(
    client: &Arc<dyn ClusterClient>,
    namespace: &str,
    resource: &RemoteResource,
) -> Result<Vec<Value>, ApiError> {
    let request = |operation| client.clone().request_remote(resource.clone(), namespace.into(), operation);
    let list = async || match resource.has_verb("list") {
        true => request(RemoteOperation::List).await,
        false => Ok(Vec::new()),
    };
    let deletes_all = resource.has_verb("deletecollection");
    let deletion =
        if deletes_all { request(RemoteOperation::DeleteAll).await } else { Err(ApiError::MethodNotAllowed) };
    if let Err(error) = deletion {
        // Some API servers only say that they delete all at once.
        if !matches!(error, ApiError::MethodNotAllowed) {
            return Err(error);
        }
        for object in list().await? {
            let name = Str::from(object.name());
            let operation = RemoteOperation::Delete {
                name,
                uid: object.uid().into(),
                resource_version: Str::default(),
                propagation: DeletionPropagation::Background,
            };
            empty_if_gone(request(operation).await)?;
        }
    }
    list().await
}

/// A result, or nothing if the object is not there.
fn empty_if_gone(result: Result<Vec<Value>, ApiError>) -> Result<Vec<Value>, ApiError> {
    match result {
        Err(ApiError::NotFound { .. }) => Ok(Vec::new()),
        result => result,
    }
}
