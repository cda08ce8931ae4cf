//! The interface through which the CRD controller changes the served resources.

use std::sync::Arc;

use pintle_cache::CacheError;
use pintle_registry::{ApiError, BoxFuture, Resource};
use pintle_value::{Str, Value};

use crate::{ClusterClient, ObjectRef, UpdateFn};

/// A cluster that serves custom resources.
pub trait CrdHost: ClusterClient {
    /// True if a built-in kind stores its objects under a prefix. A CRD may name the same prefix, but never owns those
    /// objects.
    fn is_built_in(&self, prefix: &str) -> bool;

    /// True if a group has built-in kinds. Upstream never serves the custom resources of such a group.
    fn is_built_in_group(&self, group: &str) -> bool;

    /// Replaces the custom resources that are served in groups.
    fn publish(&self, groups: Vec<(Str, Vec<Arc<Resource>>)>);

    /// Opens the watch cache of a prefix and indexes the selectable fields of a resource that is stored there. If it is
    /// open and those fields may have changed, its objects are indexed again.
    fn open_watch_cache(
        self: Arc<Self>,
        prefix: Str,
        resource: Option<Arc<Resource>>,
    ) -> BoxFuture<'static, Result<(), CacheError>>;

    /// Closes the watch cache of a prefix and drops its index.
    fn close_watch_cache(&self, prefix: &str);

    /// Updates the status of a CRD like [`ClusterClient::update`], but stores it only if this server still runs the
    /// controllers then. Otherwise another server may have given the names to another CRD.
    fn update_status_as_leader(
        self: Arc<Self>,
        target: ObjectRef,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>>;

    /// Deletes all objects that a resource has now, in all namespaces.
    fn delete_all_objects(self: Arc<Self>, resource: Arc<Resource>) -> BoxFuture<'static, Result<(), ApiError>>;
}
