//! HTTP transport: sockets, TLS, connections, bodies. This module does not interpret requests.

use ::http::HeaderMap;
use ::http::header::{HeaderName, HeaderValue};

mod accept;
mod activity;
mod body;
mod chunk;
mod connection;
mod content;
pub(crate) mod cors;
mod expiring_source;
mod layer;
mod lingering_close;
mod listener;
mod observed_body;
mod open_body;
mod plain_http;
mod pull_body;
mod push_body;
mod request_head;
mod response;
mod stream_executor;
mod tls;
pub(crate) mod unread_body;
mod unresponsive_watches;
mod unwind;
mod upgrade_end;
mod write_timeout;

pub use body::Body;
pub use chunk::{Chunk, ChunkParts};
pub(crate) use connection::ConnectionGuard;
pub(crate) use connection::random_share;
pub(crate) use content::serve_content;
pub use cors::Cors;
pub(crate) use expiring_source::BodyOwner;
pub use listener::{Handler, Listener, ListenerOptions, Peer};
pub use observed_body::{BodyEnd, BodyObserver, ObservedBody};
pub(crate) use open_body::{LastResponse, ResponseDeadline};
pub use pull_body::{BodySource, CpuPermits, PermitFuture, PullBody};
pub use push_body::{BodySender, PushBody};
pub(crate) use response::{json_text, page_not_found, plain_error, text};
pub(crate) use stream_executor::move_to_own_task;
pub use tls::{ServingCertificate, TlsConfig, TlsError, TlsProtocols, authorities, server_config};
pub use unresponsive_watches::UnresponsiveWatches;
pub(crate) use unwind::{catch_panic, panic_response, panic_text};
pub(crate) use upgrade_end::UpgradeEnd;

/// The value of the first header with this name; empty if there is none. Invalid UTF-8 becomes U+FFFD, because such a
/// value must not count as a missing header.
pub(crate) fn header_text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).map_or("", |value| std::str::from_utf8(value.as_bytes()).unwrap_or("\u{fffd}"))
}

/// The values of all headers with this name, with commas between them. See [`header_text`].
pub(crate) fn joined_headers(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    values.join(",")
}

/// Sets a response header. An invalid value is left out.
pub(crate) fn set_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// A response and its body.
pub type Response = http::Response<Body>;
