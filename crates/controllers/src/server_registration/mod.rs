//! The objects that the API server publishes about itself: the system namespaces, the service `kubernetes` with its
//! endpoints, and the server's identity lease (upstream: `pkg/controlplane`). A controller manager publishes none of
//! them.

mod endpoints;
mod lease;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use pintle_registry::GroupResource;
use pintle_value::{Value, object};
use tokio::sync::watch;

pub(crate) use self::lease::{LEASE_NAMESPACE, has_identity_lease, lease_ref, leases};
pub use self::lease::{ServerIdentity, server_name};
use crate::ClusterClient;
use crate::object_reconciler::{DesiredObject, Diff, NamespaceScope, UpdatePolicy};
use crate::objects::is_served;
use crate::supervisor::{stopped, supervise};

/// The name of the background task that renews the server's lease.
pub const LEASE_TASK: &str = "apiserver-identity-lease-controller";
/// The name of the background task that deletes expired leases.
pub const LEASE_COLLECTOR_TASK: &str = "apiserver-identity-lease-garbage-collector";
/// The name of the background task that publishes the endpoints of servers that share a store.
pub const ENDPOINTS_TASK: &str = "kubernetes-service-endpoints";
/// The namespaces that every cluster has.
pub const SYSTEM_NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// The published facts about a server.
#[derive(Clone, Debug)]
pub struct ServerRegistration {
    /// The service `kubernetes`.
    pub service: Value,
    /// The address at which clients in the cluster reach the server, if the server publishes it.
    pub endpoint: Option<SocketAddr>,
    /// True if other servers share the store, whose endpoints are published too.
    pub shares_store: bool,
    /// The identity whose lease the server holds, if it has one.
    pub identity: Option<ServerIdentity>,
}

impl ServerRegistration {
    /// The objects that have to exist while the server runs.
    #[must_use]
    pub fn objects(&self) -> Vec<DesiredObject> {
        let namespace = |name: &&str| {
            let object = object! { "metadata": object! { "name": *name } };
            DesiredObject::cluster_scoped(GroupResource::new("", "namespaces"), object)
        };
        let mut objects: Vec<DesiredObject> = SYSTEM_NAMESPACES.iter().map(namespace).collect();
        objects.push(DesiredObject {
            resource: GroupResource::new("", "services"),
            namespace_scope: NamespaceScope::Namespace("default"),
            object: self.service.clone(),
            compare: compare_service,
            update_policy: UpdatePolicy::OnStart,
            yields_to_controller_manager: false,
        });
        let own = self.endpoint.filter(|_| !self.shares_store);
        objects.extend(own.iter().flat_map(|own| endpoints::endpoint_objects(&[own.ip()], own.port())));
        objects
    }

    /// Renews the server's lease, deletes expired leases, and publishes the endpoints of servers that share the store.
    /// Runs until the cluster is gone or `stopping` turns true. Without an identity, or if leases are turned off, it
    /// does nothing.
    pub fn run(
        &self,
        client: &Arc<dyn ClusterClient>,
        stopping: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let identity = self.identity.clone().filter(|_| is_served(client, &lease::leases()));
        let leases = identity.map(|identity| {
            let renew = move |client| {
                let identity = identity.clone();
                async move { identity.renew_lease(&client).await }
            };
            let collect = |client| async move { lease::delete_expired_leases(&client).await };
            (
                run_until_stopped(client, LEASE_TASK, stopping.clone(), renew),
                run_until_stopped(client, LEASE_COLLECTOR_TASK, stopping.clone(), collect),
            )
        });
        let endpoints = self.endpoint.filter(|_| self.shares_store).map(|endpoint| {
            let reconcile = move |client| async move { endpoints::reconcile_shared(&client, endpoint).await };
            run_until_stopped(client, ENDPOINTS_TASK, stopping, reconcile)
        });
        async move {
            let leases = async {
                if let Some((renew, collect)) = leases {
                    tokio::join!(renew, collect);
                }
            };
            let endpoints = async {
                if let Some(endpoints) = endpoints {
                    endpoints.await;
                }
            };
            tokio::join!(leases, endpoints);
        }
    }

    /// Withdraws the endpoints and the lease of a server that stops. Its [`objects`](Self::objects) must not be
    /// reconciled any more.
    pub async fn deregister(&self, client: &Arc<dyn ClusterClient>) {
        let endpoints = async {
            match self.endpoint {
                Some(endpoint) if self.shares_store => endpoints::withdraw_shared(client, endpoint).await,
                Some(_) => endpoints::withdraw(client).await,
                None => {}
            }
        };
        let identity = async {
            if let Some(identity) = &self.identity {
                identity.release_lease(client).await;
            }
        };
        tokio::join!(endpoints, identity);
    }
}

/// Supervises a task, and aborts it when `stopping` turns true.
fn run_until_stopped<F, Start>(
    client: &Arc<dyn ClusterClient>,
    name: &'static str,
    mut stopping: watch::Receiver<bool>,
    start: Start,
) -> impl Future<Output = ()> + Send + use<F, Start>
where
    F: Future<Output = ()> + Send + 'static,
    Start: Fn(Weak<dyn ClusterClient>) -> F + Send + Sync,
{
    let supervised = supervise(client, name, || false, start);
    async move {
        tokio::select! {
            () = supervised => {}
            () = stopped(&mut stopping) => {}
        }
    }
}

/// The port may have changed since the last start. All other fields stay as they are.
fn compare_service(current: &Value, desired: &Value) -> Diff {
    let fields = [&["spec", "ports"][..], &["spec", "type"]];
    if fields.iter().all(|path| current.at(path) == desired.at(path)) {
        return Diff::UpToDate;
    }
    let mut updated = current.clone();
    for path in fields {
        updated.set_at(path, desired.at(path).cloned());
    }
    Diff::Update(updated)
}
