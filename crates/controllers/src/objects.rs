//! Lookups of stored objects in the watch caches.

use std::sync::Arc;

use pintle_cache::{Object, WatchCache};
use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;

use crate::{ClusterClient, ObjectRef};

/// The tree of an object, unless it is corrupt.
pub(crate) fn tree(object: &Object) -> Option<Value> {
    Some(pintle_codec::json::decode(&object.json, pintle_codec::json::DecodeOptions::STORED).ok()?.value)
}

/// The tree of an object with its resourceVersion, unless it is corrupt.
pub(crate) fn versioned_tree(object: &Object) -> Option<Value> {
    let mut tree = tree(object)?;
    tree.set_at(&["metadata", "resourceVersion"], object.revision.to_string());
    Some(tree)
}

/// The watch cache of a resource.
pub(crate) fn watch_cache_of(client: &Arc<dyn ClusterClient>, resource: &GroupResource) -> Option<Arc<WatchCache>> {
    let registry = client.registry();
    client.watch_cache(registry.hub_of(resource)?)
}

/// True unless a built-in resource is turned off.
pub(crate) fn is_served(client: &Arc<dyn ClusterClient>, resource: &GroupResource) -> bool {
    client.registry().hub_of(resource).is_some()
}

/// The object of a resource, with its resourceVersion, as the watch cache has it now. A corrupt object counts as
/// absent.
pub(crate) fn find(client: &Arc<dyn ClusterClient>, target: &ObjectRef) -> Option<Value> {
    try_find(client, target).ok().flatten()
}

/// Like [`find`], for a caller that deletes something if the object is absent.
///
/// # Errors
/// The object is corrupt.
pub(crate) fn try_find(client: &Arc<dyn ClusterClient>, target: &ObjectRef) -> Result<Option<Value>, ApiError> {
    let ObjectRef { resource, namespace, name } = target;
    let key = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let corrupt =
        |reason: &str| ApiError::Internal(format!("the stored object {key} of {resource} is corrupt: {reason}"));
    let Some(watch_cache) = watch_cache_of(client, resource) else { return Ok(None) };
    match watch_cache.read(&key).map_err(|error| corrupt(&error.reason.text))? {
        Some(object) => versioned_tree(&object).ok_or_else(|| corrupt("it is not JSON")).map(Some),
        None => Ok(None),
    }
}
