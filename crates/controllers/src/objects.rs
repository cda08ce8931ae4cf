//! Objects as trees, and where they are found.

use std::sync::Arc;

use pintle_cache::{Object, WatchCache};
use pintle_registry::GroupResource;
use pintle_value::Value;

use crate::{ClusterClient, ObjectRef};

/// The tree of an object, if it can be read.
pub(crate) fn tree(object: &Object) -> Option<Value> {
    Some(pintle_codec::json::decode(&object.json, pintle_codec::json::DecodeOptions::default()).ok()?.value)
}

/// The log of a resource that is served at `v1`.
pub(crate) fn watch_cache_of(client: &Arc<dyn ClusterClient>, resource: &GroupResource) -> Option<Arc<WatchCache>> {
    let registry = client.registry();
    client.watch_cache(registry.resource(&resource.group, "v1", &resource.resource)?)
}

/// The object of a resource that is served at `v1`, with its resourceVersion, as the logs have it now.
pub(crate) fn find(client: &Arc<dyn ClusterClient>, place: &ObjectRef) -> Option<Value> {
    let ObjectRef { resource, namespace, name } = place;
    let key = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let object = watch_cache_of(client, resource)?.get(&key, None).ok().flatten()?;
    let mut found = tree(&object)?;
    found.set_at(&["metadata", "resourceVersion"], object.revision.to_string());
    Some(found)
}
