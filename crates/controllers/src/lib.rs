//! What the API itself promises and nobody asks for: that a namespace which goes takes its content with it, that what has
//! lost its owners goes too, and that a cluster has what its clients take for granted. Controllers read the event logs of
//! the cluster that they are part of, and write as the server does; they know neither HTTP nor the store. Each is a task
//! that ends with its cluster, and does nothing while a controller manager is there that does the same.

mod apiserver;
mod client;
mod fixtures;
mod follow;
mod garbage;
mod namespaces;
mod objects;
mod others;
mod reconciler;
mod tokens;
mod work_queue;

pub use apiserver::{SYSTEM_NAMESPACES, ServerIdentity, ServerRegistration};
pub use client::{ClusterClient, DeleteRequest, ObjectRef, UpdateFn};
pub use fixtures::fixtures;
pub use garbage::garbage;
pub use namespaces::namespaces;
pub use reconciler::{DesiredObject, ObjectReconciler};
pub use tokens::tokens;
