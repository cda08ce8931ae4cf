//! The controllers that run inside the API server: the definition controller, the namespace controller, the garbage
//! collector, the token cleaner, and the reconciler of the objects that every cluster and every namespace has. They
//! read the watch caches and write as the server; they know neither HTTP nor the store. Those that
//! kube-controller-manager has too stand by while one is active.

mod client;
mod controller_manager;
mod definitions;
mod every_namespace;
#[cfg(test)]
mod fake_cluster;
mod garbage_collector;
mod informer;
mod namespaces;
mod object_reconciler;
mod objects;
mod server_registration;
mod supervisor;
mod token_cleaner;
mod work_queue;

use std::sync::Weak;

pub use client::{ClusterClient, DeleteRequest, ObjectRef, UpdateFn};
pub use definitions::{DEFINITIONS_PREFIX, DefinitionController, DefinitionHost};
pub use every_namespace::every_namespace_objects;
pub use object_reconciler::{DesiredObject, ObjectReconciler};
pub use server_registration::{SYSTEM_NAMESPACES, ServerIdentity, ServerRegistration};

use self::supervisor::supervise;

/// Runs the namespace controller, the garbage collector and the token cleaner until the cluster is gone.
pub async fn run_controllers(client: Weak<dyn ClusterClient>) {
    tokio::join!(
        supervise("namespace-controller", &client, || namespaces::run(client.clone())),
        supervise("garbage-collector-controller", &client, || garbage_collector::run(client.clone())),
        supervise("token-cleaner", &client, || token_cleaner::run(client.clone())),
    );
}
