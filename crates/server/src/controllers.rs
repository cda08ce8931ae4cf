//! The cluster as its controllers see it (`pintle_controllers`), and their start.

use std::sync::{Arc, Weak};

use pintle_cache::{Log, Tap};
use pintle_controllers::{Compute, Deletion, Place, World, garbage, namespaces};
use pintle_registry::{ApiError, BoxFuture, Registry, Resource};
use pintle_value::Value;
use pintle_value::time::Time;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::write::{Access, delete_all};

/// Starts the controllers of a cluster. They end with it, or when the server goes down.
pub(crate) fn start(cluster: &Arc<Cluster>) {
    let world: Weak<dyn World> = Arc::downgrade(cluster) as Weak<dyn World>;
    let mut closing = cluster.closing.subscribe();
    tokio::spawn(async move {
        tokio::select! {
            ((), ()) = async { tokio::join!(namespaces(world.clone()), garbage(world.clone())) } => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
    });
}

impl World for Cluster {
    fn registry(&self) -> Arc<Registry> {
        Cluster::registry(self)
    }

    fn kinds(&self) -> watch::Receiver<()> {
        self.kinds_change.subscribe()
    }

    fn log(&self, resource: &Resource) -> Option<Arc<Log>> {
        Cluster::log(self, resource).ok()
    }

    fn tap(&self) -> Tap {
        self.cache.tap()
    }

    fn now(&self) -> Time {
        Cluster::now(self)
    }

    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>> {
        Box::pin(async move { Cluster::catch_up(&self).await })
    }

    fn creates_have_ended(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self.creates.write().await) })
    }

    fn delete_all(
        self: Arc<Self>,
        resource: Arc<Resource>,
        namespace: String,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { delete_all(&self, &resource, &namespace).await })
    }

    fn delete(self: Arc<Self>, place: Place, deletion: Deletion) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { Access(self).delete_as_asked(&place, &deletion).await })
    }

    fn change(
        self: Arc<Self>,
        place: Place,
        subresource: &'static str,
        compute: Compute,
    ) -> BoxFuture<'static, Result<Value, ApiError>> {
        Box::pin(async move {
            let Place { resource, namespace, name } = &place;
            let access = Access(self);
            access.update_subresource(resource, subresource, (namespace, name), |object| compute(object)).await
        })
    }
}
