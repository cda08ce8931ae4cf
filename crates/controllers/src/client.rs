//! The cluster as controllers see it.

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{EventStream, WatchCache};
use pintle_registry::{ApiError, BoxFuture, DeletionPropagation, GroupResource, Registry, Resource};
use pintle_value::time::Time;
use pintle_value::{Str, Value};
use tokio::sync::watch;

/// Makes the new object of the one there is.
pub type UpdateFn = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its group and resource.
    pub resource: GroupResource,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How an object is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The uid that it has to have.
    pub uid: Str,
    /// The revision that it has to have.
    pub revision: u64,
    /// What becomes of its dependents.
    pub propagation: DeletionPropagation,
}

/// What controllers see of a cluster, and what they can do to it. Everything is done as the server itself: nobody's
/// rights are asked for, but the rules of the kinds hold.
pub trait ClusterClient: Send + Sync + 'static {
    /// The kinds that are served now.
    fn registry(&self) -> Arc<Registry>;

    /// Told each time that a kind appears or goes.
    fn kinds(&self) -> watch::Receiver<()>;

    /// The log of a resource's collection, if it has one.
    fn watch_cache(&self, resource: &Resource) -> Option<Arc<WatchCache>>;

    /// A tap of all logs.
    fn event_stream(&self) -> EventStream;

    /// The time now.
    fn now(&self) -> Time;

    /// Ends when this much time has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Waits until the logs hold everything that was committed before now. Returns the revision up to which they do.
    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>>;

    /// Waits until every create has ended that began before now.
    fn creates_have_ended(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Creates an object. What it says of itself need not be complete.
    fn create(self: Arc<Self>, resource: GroupResource, object: Value) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Deletes all objects of a resource that are in a namespace now, as a client does who deletes the collection.
    fn delete_all(
        self: Arc<Self>,
        resource: Arc<Resource>,
        namespace: String,
    ) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Deletes an object, as a client does.
    fn delete(self: Arc<Self>, place: ObjectRef, deletion: DeleteRequest) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Changes an object, or what a subresource of it shows (with an empty name, the object itself). Returns what has
    /// become of it.
    fn change(
        self: Arc<Self>,
        place: ObjectRef,
        subresource: &'static str,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>>;
}
