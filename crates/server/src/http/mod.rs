//! HTTP transport: sockets, TLS, connections, bodies. This module does not interpret requests.

mod body;
mod chunk;
mod content;
pub(crate) mod cors;
mod listener;
mod pull_body;
mod push_body;
mod response;
mod tls;

pub use body::Body;
pub use chunk::{Chunk, ChunkParts};
pub(crate) use content::serve_content;
pub use cors::Cors;
pub use listener::{Handler, Listener, Peer};
pub use pull_body::{BodySource, CpuPermits, PullBody};
pub use push_body::{BodySender, PushBody};
pub(crate) use response::{page_not_found, text};
pub use tls::{TlsError, server_config, verifier};

/// A response and its body.
pub type Response = http::Response<Body>;
