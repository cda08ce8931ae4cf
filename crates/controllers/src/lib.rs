//! What the API itself promises and nobody asks for: that a namespace which goes takes its content with it. Controllers
//! read the event logs of the cluster that they are part of, and write as the server does; they know neither HTTP nor
//! the store. Each is a task that ends with its cluster, and does nothing while a controller manager is there.

mod namespaces;
mod objects;
mod others;
mod world;

pub use namespaces::namespaces;
pub use world::{Compute, World};
