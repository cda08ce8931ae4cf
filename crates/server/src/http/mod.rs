//! HTTP itself: sockets, TLS, connections, bodies. What a request means is decided elsewhere.

mod body;
mod data;
mod listener;
mod produce;
mod tls;
mod written;

pub use body::Body;
pub use data::{Data, Parts};
pub use listener::{Handler, Listener, Peer};
pub use produce::{CpuPermits, Produce, PullBody};
pub use tls::{TlsError, server_config, verifier};
pub use written::{BodySender, PushBody};

/// An answer on its way out.
pub type Response = http::Response<Body>;
