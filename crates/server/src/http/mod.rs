//! HTTP itself: sockets, TLS, connections, bodies. What a request means is decided elsewhere.

mod body;
mod listener;
mod tls;

pub use body::{Body, Outlet, Produce};
pub use listener::{Handler, Listener, Peer};
pub use tls::{TlsError, server_config, verifier};

/// An answer on its way out.
pub type Response = http::Response<Body>;
