//! The interface through which controllers read and write a cluster.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{EventStream, WatchCache};
use pintle_gates::Gates;
use pintle_registry::{ApiError, BoxFuture, DeletionPropagation, GroupResource, Registry, Resource};
use pintle_supervisor::BackgroundTask;
use pintle_value::time::Time;
use pintle_value::{Str, Value};
use tokio::sync::{mpsc, watch};

use crate::{ApiServiceOutages, RemoteEvent, RemoteOperation, RemoteResource, RemoteResources, WorkQueues};

/// The field manager of the server's own writes.
pub const SERVER_MANAGER: &str = "kube-apiserver";

/// Computes the new object from the current one.
pub type UpdateFn = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// Names an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its group and resource.
    pub resource: GroupResource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The preconditions and the propagation policy of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The uid that the object must have.
    pub uid: Str,
    /// The revision that the object must have.
    pub revision: u64,
    /// The propagation policy: whether the object's dependents are deleted or orphaned.
    pub propagation: DeletionPropagation,
}

/// For each collection, the revision up to which a consistent read of all stores has seen it.
#[derive(Clone, Debug)]
pub struct CaughtUp {
    main: u64,
    others: HashMap<Str, Result<u64, ApiError>>,
}

impl CaughtUp {
    /// The revision of the collections that are in the main store.
    #[must_use]
    pub fn new(main: u64) -> Self {
        Self { main, others: HashMap::new() }
    }

    /// Adds the collections of another store by their prefixes.
    pub fn add(&mut self, prefixes: impl IntoIterator<Item = Str>, revision: &Result<u64, ApiError>) {
        self.others.extend(prefixes.into_iter().map(|prefix| (prefix, revision.clone())));
    }

    /// The revision of the collection of a resource.
    ///
    /// # Errors
    /// Its store could not be read.
    pub fn of(&self, resource: &Resource) -> Result<u64, ApiError> {
        let other = resource.collection().and_then(|collection| self.others.get(&collection.prefix));
        other.cloned().unwrap_or(Ok(self.main))
    }
}

/// Reads and writes a cluster as the server itself: writes need no authorization, but strategies, validation and
/// admission apply.
pub trait ClusterClient: Send + Sync + 'static {
    /// The resources that are served now.
    fn registry(&self) -> Arc<Registry>;

    /// Notifies each time that the served resources change. The receiver is closed when the cluster is gone.
    fn registry_changes(&self) -> watch::Receiver<()>;

    /// The watch cache of a resource's collection, if it is open.
    fn watch_cache(&self, resource: &Resource) -> Option<Arc<WatchCache>>;

    /// A stream of the events of all watch caches of the main store, in the order of their revisions. Only collections
    /// whose objects expire may be in another store.
    fn event_stream(&self) -> EventStream;

    /// The feature gates.
    fn gates(&self) -> &Gates;

    /// The current time.
    fn now(&self) -> Time;

    /// The metrics of the work queues.
    fn work_queues(&self) -> &WorkQueues;

    /// How often APIServices became unavailable.
    fn api_service_outages(&self) -> &ApiServiceOutages;

    /// Asks the API server of an APIService whether it serves the group version. The inner error is the message for the
    /// condition of the APIService.
    ///
    /// # Errors
    /// The outer error: the API server cannot be asked, because the APIService has no usable certificate authorities.
    fn probe_api_service(self: Arc<Self>, name: Str) -> BoxFuture<'static, Result<Result<(), String>, ApiError>>;

    /// The resources that other API servers serve now.
    fn remote_resources(&self) -> Arc<RemoteResources>;

    /// Notifies each time that the resources of other API servers change.
    fn remote_changes(&self) -> watch::Receiver<()>;

    /// Follows the objects of a resource of another API server as long as the receiver exists. The events have the
    /// prefix of the resource.
    fn follow_remote(
        self: Arc<Self>,
        resource: Arc<RemoteResource>,
        events: mpsc::Sender<(Str, RemoteEvent)>,
    ) -> BoxFuture<'static, ()>;

    /// Sends a request to another API server as this server. Returns the objects of the response.
    ///
    /// # Errors
    /// The API server cannot be reached, or refuses the request.
    fn request_remote(
        self: Arc<Self>,
        resource: RemoteResource,
        namespace: Str,
        operation: RemoteOperation,
    ) -> BoxFuture<'static, Result<Vec<Value>, ApiError>>;

    /// Completes after a duration of the cluster's clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// A background task of the cluster, by its name. Health checks report it, too.
    fn background_task(&self, name: &'static str) -> BackgroundTask;

    /// Waits until the watch caches contain everything that was committed to all stores before the call. The result is
    /// an error if the revision of the main store is unknown.
    fn catch_up_all(self: Arc<Self>) -> BoxFuture<'static, Result<CaughtUp, ApiError>>;

    /// Waits until the watch caches contain everything that was committed to the main store before the call. Returns
    /// that revision.
    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>>;

    /// True while this server runs the controllers. Of the servers that share a store, one runs them.
    fn leadership(&self) -> watch::Receiver<bool>;

    /// Records for a time that a server runs at this address. Returns the addresses of all servers that share the
    /// store.
    fn record_server_address(
        self: Arc<Self>,
        address: IpAddr,
        time_to_live: Duration,
    ) -> BoxFuture<'static, Result<Vec<IpAddr>, ApiError>>;

    /// Removes the record of a server's address. Returns the addresses of the other servers.
    fn remove_server_address(self: Arc<Self>, address: IpAddr) -> BoxFuture<'static, Result<Vec<IpAddr>, ApiError>>;

    /// Synchronizes the allocations of a kind with the allocations of other servers ([`AllocationHooks::sync`]).
    ///
    /// [`AllocationHooks::sync`]: pintle_registry::AllocationHooks::sync
    fn sync_allocations(self: Arc<Self>, resource: Arc<Resource>) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Waits until every write has ended that began before the call and for which an admission plugin has reserved
    /// something. The reservation is then given back or belongs to a stored object.
    fn wait_for_reserved_writes(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Creates an object. Its type may be missing and is completed.
    fn create(self: Arc<Self>, resource: GroupResource, object: Value) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Creates an object like [`create`](Self::create), as a field manager.
    fn create_as(
        self: Arc<Self>,
        resource: GroupResource,
        field_manager: &'static str,
        object: Value,
    ) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Deletes all objects that a resource has in a namespace now, like the request `deletecollection`.
    fn delete_collection(
        self: Arc<Self>,
        resource: Arc<Resource>,
        namespace: String,
    ) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Deletes an object.
    fn delete(self: Arc<Self>, target: ObjectRef, request: DeleteRequest) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Updates an object through a subresource or, if `subresource` is empty, the object itself. Returns the new
    /// object.
    fn update(
        self: Arc<Self>,
        target: ObjectRef,
        subresource: &'static str,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>>;

    /// Updates an object like [`update`](Self::update), as a field manager.
    fn update_as(
        self: Arc<Self>,
        target: ObjectRef,
        subresource: &'static str,
        field_manager: &'static str,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Applies a configuration as a field manager, which takes fields over from other managers. The target is an
    /// existing object, or its subresource unless `subresource` is empty.
    fn apply(
        self: Arc<Self>,
        target: ObjectRef,
        subresource: &'static str,
        field_manager: &'static str,
        configuration: Value,
    ) -> BoxFuture<'static, Result<(), ApiError>>;
}
