//! The API over HTTP. The modules are layers; each one uses only those above it in this list:
//!
//! 1. `http`: sockets, TLS, connections, bodies
//! 2. `request`: what a request says
//! 3. `cluster`: the handles that everything shares
//! 4. `access`, `context`: who sends a request, and everything known about it
//! 5. `objects`, `conversion`, `represent`: trees and bytes, objects at versions, and what they look like on the wire
//! 6. `read`, then `write`: get, list and watch from the watch cache; writes through the guaranteed update
//! 7. `handlers`: which operation a request asks for
//! 8. `pipeline`: the path of every request
//! 9. `controllers`, `definitions`, `startup`: what runs without a request, and [`ApiServer`], which ties all together

mod access;
mod cluster;
mod context;
mod controllers;
mod conversion;
mod definitions;
mod handlers;
pub mod http;
mod objects;
mod pipeline;
mod read;
mod represent;
mod request;
mod startup;
mod write;

pub use access::AccessControl;
pub use cluster::{Cluster, Component};
pub use controllers::{ControllerOptions, service_address};
pub use handlers::version;
pub use http::Cors;
pub use startup::{AccessBuilder, ApiServer, ClusterConfig, ClusterError};
