//! The resource of each collection, and its objects.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_registry::{ApiError, DeletionPropagation, Registry, Resource};
use pintle_value::{Str, Value};

use super::graph::ObjectIdentity;
use super::metadata::ObjectMetadata;
use crate::controller_manager::CONTROLLER_MANAGER;
use crate::informer::RemoteInformer;
use crate::{ClusterClient, DeleteRequest, ObjectRef, RemoteOperation, RemoteResource};

/// A cache of the resources of collections. It is cleared when the served resources change.
#[derive(Default)]
pub(super) struct ResourceCache {
    registry: Option<Arc<Registry>>,
    by_prefix: HashMap<Str, Arc<Resource>>,
}

impl ResourceCache {
    /// The resource of a collection of this server, by its prefix; `None` if no version of it is served.
    pub(super) fn get(&mut self, client: &Arc<dyn ClusterClient>, prefix: &Str) -> Option<Arc<Resource>> {
        let registry = client.registry();
        if !self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            self.by_prefix.clear();
            self.registry = Some(registry.clone());
        }
        if let Some(resource) = self.by_prefix.get(prefix) {
            return Some(resource.clone());
        }
        let is_it =
            |resource: &&Arc<Resource>| resource.collection().is_some_and(|collection| collection.prefix == *prefix);
        let resource = registry.hubs().find(is_it)?.clone();
        self.by_prefix.insert(prefix.clone(), resource.clone());
        Some(resource)
    }

    /// A collection of this server or of another API server, by its prefix.
    pub(super) fn collection(
        &mut self,
        client: &Arc<dyn ClusterClient>,
        remote: &RemoteInformer,
        prefix: &Str,
    ) -> Option<Collection> {
        let of_other = remote.resource(prefix).cloned().map(Collection::Remote);
        of_other.or_else(|| self.get(client, prefix).map(Collection::Local))
    }
}

/// The objects of a resource.
#[derive(Clone)]
pub(super) enum Collection {
    /// This server stores them.
    Local(Arc<Resource>),
    /// Another API server has them.
    Remote(Arc<RemoteResource>),
}

/// The current state of an object.
pub(super) struct CurrentObject {
    pub(super) metadata: ObjectMetadata,
    /// The revision; 0 for an object of another API server.
    pub(super) revision: u64,
    resource_version: Str,
}

impl Collection {
    /// The current state of an object; `None` if it is gone or another object has its name.
    ///
    /// # Errors
    /// The other API server cannot be asked.
    pub(super) async fn current(
        &self,
        client: &Arc<dyn ClusterClient>,
        object: &ObjectIdentity,
    ) -> Result<Option<CurrentObject>, ApiError> {
        let current = match self {
            Collection::Local(resource) => {
                let watch_cache = client.watch_cache(resource);
                let found = watch_cache.and_then(|watch_cache| watch_cache.get(&object.key, None).ok().flatten());
                found.map(|found| CurrentObject {
                    metadata: ObjectMetadata::read(&found),
                    revision: found.revision,
                    resource_version: Str::default(),
                })
            }
            Collection::Remote(resource) => {
                let (namespace, name) = object.namespace_and_name();
                get_remote(client, resource, namespace, name).await?.map(|found| CurrentObject {
                    metadata: ObjectMetadata::of_tree(&found),
                    revision: 0,
                    resource_version: found.resource_version().into(),
                })
            }
        };
        Ok(current.filter(|current| current.metadata.uid == object.uid))
    }

    /// Updates the metadata of an object, if it still exists.
    ///
    /// # Errors
    /// The update failed.
    pub(super) async fn update(
        &self,
        client: &Arc<dyn ClusterClient>,
        object: &ObjectIdentity,
        compute: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Result<(), ApiError> {
        let uid = object.uid.clone();
        let compute = move |current: &Value| if current.uid() == uid { compute(current) } else { current.clone() };
        match self {
            Collection::Local(resource) => {
                let target = object_ref(object, resource);
                ignore_not_found(client.clone().update_as(target, "", CONTROLLER_MANAGER, Arc::new(compute)).await)
            }
            Collection::Remote(resource) => {
                let (namespace, name) = object.namespace_and_name();
                let Some(current) = get_remote(client, resource, namespace, name).await? else { return Ok(()) };
                let Some(patch) = metadata_patch(&current, &compute(&current)) else { return Ok(()) };
                let operation = RemoteOperation::Patch { name: name.into(), patch };
                let request = client.clone().request_remote((**resource).clone(), namespace.into(), operation);
                ignore_not_found(request.await)
            }
        }
    }

    /// Deletes an object, if it is still in this state.
    ///
    /// # Errors
    /// The deletion failed.
    pub(super) async fn delete(
        &self,
        client: &Arc<dyn ClusterClient>,
        object: &ObjectIdentity,
        current: CurrentObject,
        propagation: DeletionPropagation,
    ) -> Result<(), ApiError> {
        match self {
            Collection::Local(resource) => {
                let request = DeleteRequest { uid: object.uid.clone(), revision: current.revision, propagation };
                ignore_not_found(client.clone().delete(object_ref(object, resource), request).await)
            }
            Collection::Remote(resource) => {
                let (namespace, name) = object.namespace_and_name();
                let operation = RemoteOperation::Delete {
                    name: name.into(),
                    uid: object.uid.clone(),
                    resource_version: current.resource_version,
                    propagation,
                };
                let request = client.clone().request_remote((**resource).clone(), namespace.into(), operation);
                ignore_not_found(request.await)
            }
        }
    }
}

/// The metadata of an object of another API server; `None` if there is no such object.
///
/// # Errors
/// The API server cannot be asked.
pub(super) async fn get_remote(
    client: &Arc<dyn ClusterClient>,
    resource: &RemoteResource,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, ApiError> {
    let operation = RemoteOperation::Get { name: name.into() };
    match client.clone().request_remote(resource.clone(), namespace.into(), operation).await {
        Ok(found) => {
            let is_it = |found: &Value| found.name() == name && !found.uid().is_empty();
            let unexpected = || ApiError::Unclassified(format!("{}: the response is not {name:?}", resource.name()));
            found.into_iter().next().filter(is_it).map(Some).ok_or_else(unexpected)
        }
        Err(ApiError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The merge patch of the owners and finalizers that differ; `None` if none do. It applies to this state of the object
/// only.
fn metadata_patch(current: &Value, updated: &Value) -> Option<Value> {
    let mut metadata = Value::object();
    for field in ["ownerReferences", "finalizers"] {
        let (before, after) = (current.at(&["metadata", field]), updated.at(&["metadata", field]));
        if before != after {
            metadata.set(field, after.cloned().unwrap_or(Value::Null));
        }
    }
    if metadata.as_object().is_none_or(|metadata| metadata.is_empty()) {
        return None;
    }
    metadata.set("uid", current.uid());
    metadata.set("resourceVersion", current.resource_version());
    let mut patch = Value::object();
    patch.set("metadata", metadata);
    Some(patch)
}

fn ignore_not_found<T>(result: Result<T, ApiError>) -> Result<(), ApiError> {
    match result {
        Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn object_ref(object: &ObjectIdentity, resource: &Resource) -> ObjectRef {
    let (namespace, name) = object.namespace_and_name();
    ObjectRef { resource: resource.group_resource(), namespace: namespace.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn a_patch_has_what_differs_and_names_the_state() {
        let object = |finalizers: Vec<&str>| {
            let metadata = object! { "uid": "u", "resourceVersion": "7", "finalizers": finalizers };
            object! { "metadata": metadata }
        };
        assert_eq!(metadata_patch(&object(vec!["a"]), &object(vec!["a"])), None);
        let expect = object! {
            "metadata": object! { "finalizers": vec!["a"], "uid": "u", "resourceVersion": "7" },
        };
        assert_eq!(metadata_patch(&object(vec!["a", "b"]), &object(vec!["a"])), Some(expect));
        let mut without = object(Vec::new());
        without.remove_at(&["metadata", "finalizers"]);
        let patch = metadata_patch(&object(vec!["a"]), &without).expect("a patch");
        assert_eq!(patch["metadata"]["finalizers"], Value::Null);
    }
}
