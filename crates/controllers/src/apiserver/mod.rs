//! What the API server keeps there of itself, controller manager or not: the namespaces of the system, the service
//! `kubernetes` and where it leads, and the lease that says which servers there are (upstream: `pkg/controlplane`).

mod endpoints;
mod identity;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use pintle_registry::GroupResource;
use pintle_value::{Value, object};
use tokio::sync::watch;

pub use self::identity::Identity;
use crate::World;
use crate::keep::{Kept, Reach, Verdict, When};

/// The namespaces that every cluster has.
pub const SYSTEM_NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// A server, as its clients see it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// The service `kubernetes`, as it is made.
    pub service: Value,
    /// Where clients in the cluster reach the server, if that is to be told.
    pub endpoint: Option<SocketAddr>,
    /// Who it is, if that is to be told.
    pub identity: Option<Identity>,
}

impl ApiServer {
    /// The objects that it keeps there.
    #[must_use]
    pub fn objects(&self) -> Vec<Kept> {
        let namespace = |name: &&str| Kept {
            resource: GroupResource::new("", "namespaces"),
            reach: Reach::Cluster,
            object: object! { "metadata": object! { "name": *name } },
            judge: |_, _| Verdict::Right,
            when: When::Always,
            gives_way: false,
        };
        let mut objects: Vec<Kept> = SYSTEM_NAMESPACES.iter().map(namespace).collect();
        objects.push(Kept {
            resource: GroupResource::new("", "services"),
            reach: Reach::Namespace("default"),
            object: self.service.clone(),
            judge: judge_service,
            when: When::AtStart,
            gives_way: false,
        });
        objects.extend(self.endpoint.iter().flat_map(|endpoint| endpoints::leading_to(*endpoint)));
        objects
    }

    /// Says that the server is there, until the world ends or `leaving` turns true.
    pub async fn stay(&self, world: Weak<dyn World>, mut leaving: watch::Receiver<bool>) {
        let stays = async {
            match &self.identity {
                Some(identity) => tokio::join!(identity.hold(&world), identity::collect(&world)),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ((), ()) = stays => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    /// Says that the server goes: nothing leads to it any more. To be called when nothing of it is kept any longer.
    pub async fn leave(&self, world: &Arc<dyn World>) {
        let endpoints = async {
            if self.endpoint.is_some() {
                endpoints::withdraw(world).await;
            }
        };
        let identity = async {
            if let Some(identity) = &self.identity {
                identity.release(world).await;
            }
        };
        tokio::join!(endpoints, identity);
    }
}

/// The port may be another one than at the last start; all else is left as it is.
fn judge_service(found: &Value, wanted: &Value) -> Verdict {
    let ports = [&["spec", "ports"][..], &["spec", "type"]];
    if ports.iter().all(|path| found.at(path) == wanted.at(path)) {
        return Verdict::Right;
    }
    let mut mended = found.clone();
    for path in ports {
        mended.set_at(path, wanted.at(path).cloned());
    }
    Verdict::Mend(mended)
}
