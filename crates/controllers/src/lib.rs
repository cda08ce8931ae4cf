//! What the API itself promises and nobody asks for: that a namespace which goes takes its content with it, and that what
//! has lost its owners goes too. Controllers
//! read the event logs of the cluster that they are part of, and write as the server does; they know neither HTTP nor
//! the store. Each is a task that ends with its cluster, and does nothing while a controller manager is there.

mod follow;
mod garbage;
mod namespaces;
mod objects;
mod others;
mod world;

pub use garbage::garbage;
pub use namespaces::namespaces;
pub use world::{Compute, Deletion, Place, Propagation, World};
