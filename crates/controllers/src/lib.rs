//! What the API itself promises and nobody asks for: that a namespace which goes takes its content with it, that what has
//! lost its owners goes too, and that a cluster has what its clients take for granted. Controllers read the event logs of
//! the cluster that they are part of, and write as the server does; they know neither HTTP nor the store. Each is a task
//! that ends with its cluster, and does nothing while a controller manager is there that does the same.

mod apiserver;
mod fixtures;
mod follow;
mod garbage;
mod keep;
mod namespaces;
mod objects;
mod others;
mod queue;
mod tokens;
mod world;

pub use apiserver::{ApiServer, Identity, SYSTEM_NAMESPACES};
pub use fixtures::fixtures;
pub use garbage::garbage;
pub use keep::{Keeper, Kept};
pub use namespaces::namespaces;
pub use tokens::tokens;
pub use world::{Compute, Deletion, Place, Propagation, World};
