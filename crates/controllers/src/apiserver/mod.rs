//! What the API server keeps there of itself, controller manager or not: the namespaces of the system, the service
//! `kubernetes` and where it leads, and the lease that says which servers there are (upstream: `pkg/controlplane`).

mod endpoints;
mod identity;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use pintle_registry::GroupResource;
use pintle_value::{Value, object};
use tokio::sync::watch;

pub use self::identity::ServerIdentity;
use crate::ClusterClient;
use crate::reconciler::{DesiredObject, Diff, NamespaceScope, When};

/// The namespaces that every cluster has.
pub const SYSTEM_NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// A server, as its clients see it.
#[derive(Clone, Debug)]
pub struct ServerRegistration {
    /// The service `kubernetes`, as it is made.
    pub service: Value,
    /// Where clients in the cluster reach the server, if that is to be told.
    pub endpoint: Option<SocketAddr>,
    /// Who it is, if that is to be told.
    pub identity: Option<ServerIdentity>,
}

impl ServerRegistration {
    /// The objects that it keeps there.
    #[must_use]
    pub fn objects(&self) -> Vec<DesiredObject> {
        let namespace = |name: &&str| DesiredObject {
            resource: GroupResource::new("", "namespaces"),
            namespace_scope: NamespaceScope::Cluster,
            object: object! { "metadata": object! { "name": *name } },
            judge: |_, _| Diff::Right,
            when: When::Always,
            gives_way: false,
        };
        let mut objects: Vec<DesiredObject> = SYSTEM_NAMESPACES.iter().map(namespace).collect();
        objects.push(DesiredObject {
            resource: GroupResource::new("", "services"),
            namespace_scope: NamespaceScope::Namespace("default"),
            object: self.service.clone(),
            judge: judge_service,
            when: When::AtStart,
            gives_way: false,
        });
        objects.extend(self.endpoint.iter().flat_map(|endpoint| endpoints::leading_to(*endpoint)));
        objects
    }

    /// Says that the server is there, until the world ends or `leaving` turns true.
    pub async fn stay(&self, client: Weak<dyn ClusterClient>, mut leaving: watch::Receiver<bool>) {
        let stays = async {
            match &self.identity {
                Some(identity) => tokio::join!(identity.hold(&client), identity::collect(&client)),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ((), ()) = stays => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    /// Says that the server goes: nothing leads to it any more. To be called when nothing of it is kept any longer.
    pub async fn leave(&self, client: &Arc<dyn ClusterClient>) {
        let endpoints = async {
            if self.endpoint.is_some() {
                endpoints::withdraw(client).await;
            }
        };
        let identity = async {
            if let Some(identity) = &self.identity {
                identity.release(client).await;
            }
        };
        tokio::join!(endpoints, identity);
    }
}

/// The port may be another one than at the last start; all else is left as it is.
fn judge_service(found: &Value, wanted: &Value) -> Diff {
    let ports = [&["spec", "ports"][..], &["spec", "type"]];
    if ports.iter().all(|path| found.at(path) == wanted.at(path)) {
        return Diff::Right;
    }
    let mut mended = found.clone();
    for path in ports {
        mended.set_at(path, wanted.at(path).cloned());
    }
    Diff::Update(mended)
}
