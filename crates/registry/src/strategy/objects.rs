//! Access of strategies, admission and controllers to the objects of the cluster.

use std::sync::Arc;

use memchr::memmem::Finder;
use pintle_codec::json::Projection;
use pintle_value::Value;

use super::BoxFuture;
use crate::{ApiError, EquivalentResource, GroupResource, GroupVersionKind, Resource};

/// A stored object. It is decoded only on demand.
pub trait StoredObject: Send + Sync {
    /// The revision of the last write.
    fn revision(&self) -> u64;

    /// The labels.
    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;

    /// The object with its resourceVersion.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    fn decode(&self) -> Result<Value, ApiError>;

    /// The selected fields only. This costs less than decoding the whole object.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    fn decode_fields(&self, fields: &Projection) -> Result<Value, ApiError>;

    /// False if this text is nowhere in the object, neither in a name nor in a value.
    fn may_contain(&self, text: &Finder<'_>) -> bool;
}

/// An object that is already decoded.
impl StoredObject for Value {
    fn revision(&self) -> u64 {
        self.resource_version().parse().unwrap_or_default()
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        let labels = self.entries_at(&["metadata", "labels"]);
        Box::new(labels.filter_map(|(key, value)| Some((key, value.as_str()?))))
    }

    fn decode(&self) -> Result<Value, ApiError> {
        Ok(self.clone())
    }

    fn decode_fields(&self, _: &Projection) -> Result<Value, ApiError> {
        Ok(self.clone())
    }

    fn may_contain(&self, _: &Finder<'_>) -> bool {
        true
    }
}

/// Stored objects, read while they are iterated over.
pub type StoredObjects = Box<dyn Iterator<Item = Box<dyn StoredObject>> + Send>;

/// Access to the objects of the cluster at their storage version, for allocation hooks, admission and controllers.
pub trait ObjectClient: Send + Sync {
    /// Reads an object without decoding it. Returns `None` if the object does not exist. `namespace` is empty for
    /// cluster-scoped resources.
    ///
    /// # Errors
    /// Returns an error if the object cannot be read.
    fn read(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Box<dyn StoredObject>>, ApiError>;

    /// Reads the objects of a namespace, or of all namespaces if `namespace` is empty, without decoding them.
    ///
    /// # Errors
    /// Returns an error if an object cannot be read.
    fn read_all(&self, resource: &GroupResource, namespace: &str) -> Result<StoredObjects, ApiError>;

    /// Gets an object. Returns `None` if the object does not exist. `namespace` is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// Returns an error if the object cannot be read.
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        self.read(resource, namespace, name)?.map(|object| object.decode()).transpose()
    }

    /// Lists the objects of a namespace, or of all namespaces if `namespace` is empty.
    ///
    /// # Errors
    /// Returns an error if an object cannot be read.
    fn list(&self, resource: &GroupResource, namespace: &str) -> Result<Vec<Value>, ApiError> {
        self.read_all(resource, namespace)?.map(|object| object.decode()).collect()
    }

    /// The revision of the last change of any object of a resource. Values derived from the objects are valid until
    /// this revision changes.
    ///
    /// # Errors
    /// Returns an error if the resource is not served.
    fn last_change(&self, resource: &GroupResource) -> Result<u64, ApiError>;

    /// Reads the record of allocated numbers with this name, and its revision; `None` if there is none (upstream:
    /// `RangeAllocation`).
    fn range_allocation<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Option<(Value, u64)>, ApiError>> {
        Box::pin(async { Ok(None) })
    }

    /// Writes the record with this name if it still has this revision, or if it still does not exist. Returns the new
    /// revision, or `None` if another server has written the record. A client without a store keeps no record.
    fn set_range_allocation<'a>(
        &'a self,
        _name: &'a str,
        _record: Value,
        _revision: Option<u64>,
    ) -> BoxFuture<'a, Result<Option<u64>, ApiError>> {
        Box::pin(async { Ok(Some(0)) })
    }

    /// Waits until reads see everything that was committed before the call, also by other servers that share the store.
    /// After this, callers look again for objects that they did not find.
    fn refresh(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    /// True if the stored CRD of a resource is terminating. [`Resource::terminating`] follows it a little later.
    ///
    /// # Errors
    /// The CRD does not exist any more.
    fn is_crd_terminating(&self, resource: &Resource) -> Result<bool, ApiError>;

    /// The served resource for a kind at a version, if there is one.
    fn resource_of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>>;

    /// True if this group and version is served.
    fn serves(&self, group: &str, version: &str) -> bool;

    /// The other resources that serve the same objects ([`Registry::equivalent_resources`](crate::Registry)).
    fn equivalent_resources(&self, _resource: &Resource, _subresource: &str) -> Vec<EquivalentResource> {
        Vec::new()
    }

    /// Creates an object as the server itself. Defaults, admission and validation apply.
    fn create<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Updates an object as the server itself. Its resourceVersion must match if it is set.
    fn update<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Updates the status of an object as the server itself, through its subresource. Its resourceVersion must match if
    /// it is set.
    fn update_status<'a>(
        &'a self,
        resource: &'a GroupResource,
        object: Value,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Deletes an object as the server itself, with default options.
    fn delete<'a>(
        &'a self,
        resource: &'a GroupResource,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>>;
}
