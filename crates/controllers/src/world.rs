//! The cluster as controllers see it.

use std::sync::Arc;

use pintle_cache::Log;
use pintle_registry::{ApiError, BoxFuture, GroupResource, Registry, Resource};
use pintle_value::Value;
use pintle_value::time::Time;
use tokio::sync::watch;

/// Makes the new object of the one there is.
pub type Compute = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// What controllers see of a cluster, and what they can do to it. Everything is done as the server itself: nobody's
/// rights are asked for, but the rules of the kinds hold.
pub trait World: Send + Sync + 'static {
    /// The kinds that are served now.
    fn registry(&self) -> Arc<Registry>;

    /// Told each time that a kind appears or goes.
    fn kinds(&self) -> watch::Receiver<()>;

    /// The log of a resource's collection, if it has one.
    fn log(&self, resource: &Resource) -> Option<Arc<Log>>;

    /// The time now.
    fn now(&self) -> Time;

    /// Waits until the logs hold everything that was committed before now. Returns the revision up to which they do.
    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>>;

    /// Waits until every create has ended that began before now.
    fn creates_have_ended(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Deletes all objects of a resource that are in a namespace now, as a client does who deletes the collection.
    fn delete_all(
        self: Arc<Self>,
        resource: Arc<Resource>,
        namespace: String,
    ) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Changes an object of the cluster's scope through one of its subresources. Returns what has become of it.
    fn change(
        self: Arc<Self>,
        resource: GroupResource,
        subresource: &'static str,
        name: String,
        compute: Compute,
    ) -> BoxFuture<'static, Result<Value, ApiError>>;
}
