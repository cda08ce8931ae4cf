//! The server's own reads of stored objects, at the storage version.

use std::sync::Arc;

use memchr::memmem::Finder;
use pintle_cache::{KeyRange, Object};
use pintle_codec::json::{self, DecodeOptions, Projection};
use pintle_controllers::{CRDS_PREFIX, ELECTION_LEASE};
use pintle_registry::{ApiError, GroupResource, Resource, Scope, StoredObject, StoredObjects};
use pintle_store::{Condition, Revision};
use pintle_value::{Str, Value};

use super::Cluster;

/// Returns the key of an object in its collection.
pub(crate) fn object_key(namespace: &str, name: &str) -> Str {
    if namespace.is_empty() { name.into() } else { [namespace, "/", name].concat().into() }
}

/// The key of the CRD of a custom resource.
fn crd_key(resource: &Resource) -> Str {
    object_key("", &[&*resource.plural, ".", &*resource.group].concat())
}

/// Checks that a name can be part of a storage key (upstream: `registry.NamespaceKeyFunc`).
///
/// # Errors
/// Returns upstream's message if the name is empty or not a path segment.
pub(crate) fn check_key(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(ApiError::BadRequest("Name parameter required.".to_owned()));
    }
    let why = pintle_value::names::path_segment_name(name, false);
    if why.is_empty() {
        return Ok(());
    }
    let name = pintle_value::field::quote(name);
    Err(ApiError::BadRequest(format!("Name parameter invalid: {name}: {}", why.join(";"))))
}

/// Decodes a stored object and sets its resourceVersion. An object that a dry run creates has revision 0 and keeps its
/// own resourceVersion.
///
/// # Errors
/// Returns an error if the stored bytes are not JSON.
pub(crate) fn tree(object: &Object) -> Result<Value, ApiError> {
    tree_keeping_text(object, &[])
}

/// Like [`tree`]. The objects in these members are decoded on first use ([`DecodeOptions::kept_as_text`]).
///
/// # Errors
/// Returns an error if the stored bytes are not JSON.
pub(crate) fn tree_keeping_text(object: &Object, kept_as_text: &'static [&'static str]) -> Result<Value, ApiError> {
    let decoded = json::decode(&object.json, DecodeOptions { kept_as_text, ..DecodeOptions::STORED });
    let decoded =
        decoded.map_err(|error| ApiError::Internal(format!("failed to decode the stored object: {error}")))?;
    let mut value = decoded.value;
    set_resource_version(&mut value, object);
    Ok(value)
}

/// Sets the resourceVersion in the tree of an object, which has none if it is not stored.
pub(crate) fn set_resource_version(tree: &mut Value, object: &Object) {
    if object.revision > 0 {
        tree.set_at(&["metadata", "resourceVersion"], object.revision.to_string());
    }
}

/// An object of a watch cache.
struct CachedObject(Arc<Object>);

impl StoredObject for CachedObject {
    fn revision(&self) -> u64 {
        self.0.revision
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.0.labels())
    }

    fn decode(&self) -> Result<Value, ApiError> {
        tree(&self.0)
    }

    fn decode_fields(&self, fields: &Projection) -> Result<Value, ApiError> {
        let selected = fields.read(&self.0.json);
        selected.ok_or_else(|| ApiError::Internal("failed to decode the stored object".to_owned()))
    }

    fn may_contain(&self, text: &Finder<'_>) -> bool {
        text.find(&self.0.json).is_some()
    }
}

impl Cluster {
    /// Reads the object with this name; `namespace` is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// The resource is not served, or the stored object is corrupt.
    pub(crate) fn read_object(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        let Some(hub) = self.readable_hub(resource)? else { return Ok(None) };
        let object = self.watch_cache(&hub)?.read(&object_key(namespace, name));
        let object = object.map_err(|corrupt| self.corrupt_read_error(&hub, &corrupt))?;
        Ok(object.map(|object| Box::new(CachedObject(object)) as Box<dyn StoredObject>))
    }

    /// Returns the object with this name; `namespace` is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// The resource is not served, or the stored object is corrupt.
    pub(crate) fn get_object(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        self.read_object(resource, namespace, name)?.map(|object| object.decode()).transpose()
    }

    /// The condition that an object has not been written or deleted since it was last read; `None` if it does not
    /// exist.
    fn unchanged(&self, prefix: &str, key: &str) -> Option<Condition> {
        let revision = match self.storage_of(prefix).cache.watch_cache(prefix)?.read(key) {
            Ok(object) => object?.revision,
            Err(corrupt) => corrupt.revision,
        };
        Some(Condition::Unchanged(self.stores.cache.store_key(prefix, key).into(), Revision(revision)))
    }

    /// The conditions for the creation of an object: its namespace and its CRD have not changed since now. The deletion
    /// of a namespace or CRD also deletes the objects in it. So no object may be created after that deletion begins.
    pub(crate) fn conditions_of_create(&self, resource: &Resource, namespace: &str) -> Vec<Condition> {
        let namespaces = (resource.scope == Scope::Namespaced)
            .then(|| self.hub_of(&GroupResource::new("", "namespaces")).ok())
            .flatten();
        let namespaces = namespaces.as_ref().and_then(|namespaces| namespaces.collection());
        let namespace = namespaces.and_then(|collection| self.unchanged(&collection.prefix, namespace));
        let crd = resource.crd.as_ref().and_then(|_| self.unchanged(CRDS_PREFIX, &crd_key(resource)));
        namespace.into_iter().chain(crd).collect()
    }

    /// The condition that this server still runs the controllers. Another server that shares the store may run them
    /// instead. A server that is alone needs no condition.
    ///
    /// # Errors
    /// Another server runs the controllers.
    pub(crate) fn conditions_of_leader(&self) -> Result<Vec<Condition>, ApiError> {
        if !self.lifecycle.election.has_others() {
            return Ok(Vec::new());
        }
        let (namespace, name) = ELECTION_LEASE;
        let leases = GroupResource::new("coordination.k8s.io", "leases");
        let hub = self.hub_of(&leases)?;
        let lease = self.get_object(&leases, namespace, name)?.filter(|lease| self.lifecycle.election.holds(lease));
        let not_leader = || ApiError::Unavailable("another server runs the controllers".to_owned());
        let revision = lease.and_then(|lease| lease.resource_version().parse().ok()).ok_or_else(not_leader)?;
        let prefix = hub.collection().map(|collection| &collection.prefix).ok_or(ApiError::MethodNotAllowed)?;
        let key = self.stores.cache.store_key(prefix, &object_key(namespace, name));
        Ok(vec![Condition::Unchanged(key.into(), Revision(revision))])
    }

    /// True if the stored CRD of a resource is terminating; false for built-in kinds.
    ///
    /// # Errors
    /// The CRD does not exist any more.
    pub(crate) fn is_crd_terminating(&self, resource: &Resource) -> Result<bool, ApiError> {
        let Some(source) = &resource.crd else { return Ok(false) };
        let crds = self.stores.cache.watch_cache(CRDS_PREFIX).ok_or(ApiError::NoSuchPath)?;
        let key = crd_key(resource);
        // If the CRD cannot be read, the server continues to serve its last readable state.
        let Ok(crd) = crds.read(&key) else { return Ok(resource.terminating) };
        let crd = crd.ok_or(ApiError::NoSuchPath)?;
        Ok(source.is_terminating(crd.revision, &crd.json))
    }

    /// The revision of the last change of any object of a resource.
    ///
    /// # Errors
    /// The resource is not served.
    pub(crate) fn last_change(&self, resource: &GroupResource) -> Result<u64, ApiError> {
        let Some(hub) = self.readable_hub(resource)? else { return Ok(0) };
        Ok(self.watch_cache(&hub)?.last_change())
    }

    /// Reads all objects of a namespace or, if `namespace` is empty, of the cluster.
    ///
    /// # Errors
    /// The resource is not served, or a stored object is corrupt.
    pub(crate) fn read_objects(&self, resource: &GroupResource, namespace: &str) -> Result<StoredObjects, ApiError> {
        let Some(hub) = self.readable_hub(resource)? else { return Ok(Box::new(std::iter::empty())) };
        let watch_cache = self.watch_cache(&hub)?;
        let range = if namespace.is_empty() { KeyRange::All } else { KeyRange::Namespace(namespace.into()) };
        self.check_readable(&hub, &watch_cache, &range, None, (None, None))?;
        Ok(Box::new(watch_cache.objects(range).map(|object| Box::new(CachedObject(object)) as Box<dyn StoredObject>)))
    }
}
