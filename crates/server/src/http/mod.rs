//! HTTP itself: sockets, TLS, connections, bodies. What a request means is decided elsewhere.

mod body;
mod chunk;
pub(crate) mod cors;
mod listener;
mod pull_body;
mod push_body;
mod response;
mod tls;

pub use body::Body;
pub use chunk::{Chunk, ChunkParts};
pub use cors::Cors;
pub use listener::{Handler, Listener, Peer};
pub use pull_body::{BodySource, CpuPermits, PullBody};
pub use push_body::{BodySender, PushBody};
pub(crate) use response::{page_not_found, text};
pub use tls::{TlsError, server_config, verifier};

/// An answer on its way out.
pub type Response = http::Response<Body>;
