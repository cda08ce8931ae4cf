//! The cluster as its controllers see it (`pintle_controllers`), and their start.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_cache::{EventStream, WatchCache};
use pintle_controllers::{
    ClusterClient, DeleteRequest, ObjectReconciler, ObjectRef, SYSTEM_NAMESPACES, ServerIdentity, ServerRegistration,
    UpdateFn, fixtures, garbage, namespaces, tokens,
};
use pintle_gates::{Feature, Gates};
use pintle_kinds::ServiceNetwork;
use pintle_registry::{ApiError, BoxFuture, GroupResource, ObjectClient, Registry, Resource};
use pintle_value::Value;
use pintle_value::time::Time;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::write::{InternalClient, delete_all};

/// What a cluster does by itself.
pub struct ControllerOptions {
    /// True if it does what the API promises, unless a controller manager is there.
    pub controllers: bool,
    /// What every namespace is to have, as one of these things: the certificates, in PEM, that clients know the server by.
    pub fixtures: Option<String>,
    /// The port that the service `kubernetes` stands for.
    pub port: u16,
    /// Where that service leads, if that is said.
    pub endpoint: Option<SocketAddr>,
    /// The name of the host, if a lease says that the server is there.
    pub hostname: Option<String>,
}

/// The address of the service `kubernetes`, which clients in the cluster know the server by.
#[must_use]
pub fn service_address() -> String {
    let (_, service) = ServiceNetwork::default().kubernetes_service(0);
    service.str_at(&["spec", "clusterIP"]).to_owned()
}

/// What is done until the cluster is left.
pub(crate) struct RunningControllers {
    leaving: watch::Sender<bool>,
    server: ServerRegistration,
    /// Keeps objects there.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl RunningControllers {
    pub(crate) fn new(controller_options: &ControllerOptions, gates: &Gates) -> Self {
        let (_, service) = ServiceNetwork::default().kubernetes_service(controller_options.port);
        let peer =
            controller_options.endpoint.filter(|_| gates.is_enabled(Feature::UNKNOWN_VERSION_INTEROPERABILITY_PROXY));
        let run = uuid::Uuid::new_v4().to_string();
        let hostname = controller_options.hostname.as_ref().filter(|_| gates.is_enabled(Feature::API_SERVER_IDENTITY));
        let identity = hostname.map(|hostname| ServerIdentity::new(hostname, &run, peer));
        let server = ServerRegistration { service, endpoint: controller_options.endpoint, identity };
        Self { leaving: watch::Sender::new(false), server, task: Mutex::default() }
    }

    /// Makes what has to be there when the server is ready, and starts the controllers of a cluster. They end with it, or
    /// when the server goes down.
    pub(crate) async fn start(&self, cluster: &Arc<Cluster>, controller_options: &ControllerOptions) {
        let client: Arc<dyn ClusterClient> = cluster.clone();
        let mut kept = self.server.objects();
        kept.extend(controller_options.fixtures.iter().flat_map(|authority| fixtures(authority)));
        let reconciler = ObjectReconciler::new(kept);
        reconciler.settle(&client, &SYSTEM_NAMESPACES).await;
        let (client, server) = (Arc::downgrade(&client), self.server.clone());
        if controller_options.controllers {
            let (client, shutdown) = (client.clone(), cluster.shutdown());
            tokio::spawn(async move {
                tokio::select! {
                    ((), (), ()) = async {
                        tokio::join!(namespaces(client.clone()), garbage(client.clone()), tokens(client.clone()))
                    } => {}
                    () = shutdown => {}
                }
            });
        }
        let (leaving, left) = (self.leaving.subscribe(), self.leaving.subscribe());
        let task = async move {
            tokio::join!(reconciler.run(client.clone(), leaving), server.stay(client, left));
        };
        *self.task.lock() = Some(tokio::spawn(task));
    }
}

impl RunningControllers {
    /// Stops reconciling the server's own objects, then withdraws the server from the cluster.
    pub(crate) async fn stop(&self, cluster: &Arc<Cluster>) {
        self.leaving.send_replace(true);
        let task = self.task.lock().take();
        if let Some(task) = task {
            let _ = task.await;
            let client: Arc<dyn ClusterClient> = cluster.clone();
            self.server.leave(&client).await;
        }
    }
}

impl ClusterClient for Cluster {
    fn registry(&self) -> Arc<Registry> {
        Cluster::registry(self)
    }

    fn kinds(&self) -> watch::Receiver<()> {
        self.registry_changed.subscribe()
    }

    fn watch_cache(&self, resource: &Resource) -> Option<Arc<WatchCache>> {
        Cluster::watch_cache(self, resource).ok()
    }

    fn event_stream(&self) -> EventStream {
        self.cache.event_stream()
    }

    fn now(&self) -> Time {
        Cluster::now(self)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Cluster::sleep(self, duration)
    }

    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>> {
        Box::pin(async move { Cluster::catch_up(&self).await })
    }

    fn creates_have_ended(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self.pending_creates.write().await) })
    }

    fn create(self: Arc<Self>, resource: GroupResource, object: Value) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { InternalClient(self).create(&resource, object).await.map(drop) })
    }

    fn delete_all(
        self: Arc<Self>,
        resource: Arc<Resource>,
        namespace: String,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { delete_all(&self, &resource, &namespace).await })
    }

    fn delete(self: Arc<Self>, place: ObjectRef, deletion: DeleteRequest) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { InternalClient(self).delete_with(&place, &deletion).await })
    }

    fn change(
        self: Arc<Self>,
        place: ObjectRef,
        subresource: &'static str,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>> {
        Box::pin(async move {
            let ObjectRef { resource, namespace, name } = &place;
            let access = InternalClient(self);
            access.update_subresource(resource, subresource, (namespace, name), |object| compute(object)).await
        })
    }
}
