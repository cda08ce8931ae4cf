//! Watches over WebSockets (RFC 6455), as upstream serves them with `golang.org/x/net/websocket`. The client upgrades
//! the request of a watch, and each event is a message. Messages from the client are ignored.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, CONTENT_TYPE, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use pintle_auth::is_websocket_request;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use crate::context::RequestContext;
use crate::http::{Body, ConnectionGuard, Response, UpgradeEnd};

/// The supported version of the protocol.
const PROTOCOL_VERSION: &str = "13";
/// Maximum size of a client's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Upgrades the response of a watch to a WebSocket if the client asks for one.
pub(crate) fn upgrade(request: &RequestContext, response: Response) -> Response {
    if !is_websocket_request(&request.headers) || response.status() != StatusCode::OK {
        return response;
    }
    let Some(upgrade) = request.upgrade() else { return response };
    let framing = match response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) {
        Some(media_type) if media_type.starts_with("application/json") => EventFraming::Lines,
        _ => EventFraming::Lengths,
    };
    match handshake(&request.method, &request.headers) {
        Ok(mut switching_protocols) => {
            let (end, guard) = UpgradeEnd::new();
            switching_protocols.extensions_mut().insert(end);
            let served = serve_on(request.connection.upgrade(), serve(upgrade, response.into_body(), framing));
            tokio::spawn(async move {
                served.await;
                drop(guard);
            });
            switching_protocols
        }
        Err(rejection) => rejection,
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Returns the response of the handshake, or the error response. As in upstream, the handshake requires an origin but
/// accepts any, and at most one subprotocol.
fn handshake(method: &Method, headers: &HeaderMap) -> Result<Response, Response> {
    let key = check_opening(method, headers)?;
    if !is_uri(text(headers, &ORIGIN)) {
        return Err(reject(StatusCode::FORBIDDEN, ""));
    }
    let protocol = text(headers, &SEC_WEBSOCKET_PROTOCOL).trim();
    if protocol.contains(',') {
        return Err(reject(StatusCode::BAD_REQUEST, ""));
    }
    Ok(switching_protocols(key, protocol))
}

/// Checks the headers that every client of a WebSocket sends, and returns its key.
///
/// # Errors
/// Returns the response for a client that does not ask for a WebSocket of this version.
pub(crate) fn check_opening<'h>(method: &Method, headers: &'h HeaderMap) -> Result<&'h str, Response> {
    if method != Method::GET {
        return Err(reject(StatusCode::METHOD_NOT_ALLOWED, "bad method"));
    }
    let key = text(headers, &SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Err(reject(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    }
    if text(headers, &SEC_WEBSOCKET_VERSION) != PROTOCOL_VERSION {
        let mut rejection = reject(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        rejection.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(PROTOCOL_VERSION));
        return Err(rejection);
    }
    Ok(key)
}

/// The response that begins a WebSocket, with a subprotocol if one was chosen.
pub(crate) fn switching_protocols(key: &str, protocol: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let received =
        [(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes())), (SEC_WEBSOCKET_PROTOCOL, protocol.to_owned())];
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for (name, value) in received {
        if let Ok(value) = HeaderValue::from_str(&value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
    response
}

fn reject(code: StatusCode, why: &'static str) -> Response {
    let mut response = Response::new(Body::from(why));
    *response.status_mut() = code;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// True if Go's `url.ParseRequestURI` accepts the text: an absolute path, or a scheme followed by a slash.
fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    };
    text.starts_with('/')
        || text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && rest.starts_with('/'))
}

/// The framing of events in the body of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventFraming {
    /// Events end with newlines. They become text messages.
    Lines,
    /// A length of four bytes precedes each event. Events become binary messages.
    Lengths,
}

impl EventFraming {
    /// Takes the next complete event out of the buffer.
    fn split(self, buffer: &mut BytesMut) -> Option<Bytes> {
        match self {
            EventFraming::Lines => {
                let end = buffer.iter().position(|b| *b == b'\n')?;
                Some(buffer.split_to(end + 1).freeze())
            }
            EventFraming::Lengths => {
                let length = usize::try_from(u32::from_be_bytes(*buffer.first_chunk()?)).ok()?;
                if buffer.len() - 4 < length {
                    return None;
                }
                buffer.advance(4);
                Some(buffer.split_to(length).freeze())
            }
        }
    }

    fn message(self, event: Bytes) -> Option<Message> {
        match self {
            EventFraming::Lines => Utf8Bytes::try_from(event).ok().map(Message::Text),
            EventFraming::Lengths => Some(Message::Binary(event)),
        }
    }
}

/// Counts a connection as open while it is served with another protocol. Stops serving when the connection has to be
/// closed.
async fn serve_on(connection: Option<Arc<ConnectionGuard>>, served: impl Future<Output = ()>) {
    // Without a connection, the client has disconnected.
    let Some(connection) = connection else { return };
    tokio::select! {
        () = served => {}
        () = connection.closed() => {}
    }
}

/// Serves a watch until it ends or the client disconnects.
async fn serve(upgrade: OnUpgrade, events: Body, framing: EventFraming) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "Failed to upgrade to a WebSocket"),
    };
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE_BYTES)).max_frame_size(Some(MAX_MESSAGE_BYTES));
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let code = forward(&mut socket, events, framing).await;
    // As in upstream, the server closes the connection without waiting for the client's close frame.
    let _ = socket.close(Some(CloseFrame { code, reason: Utf8Bytes::default() })).await;
    let _ = socket.get_mut().shutdown().await;
}

/// Sends events as messages. Returns the close code of the connection.
async fn forward(socket: &mut Socket, mut events: Body, framing: EventFraming) -> CloseCode {
    let mut buffer = BytesMut::new();
    loop {
        tokio::select! {
            chunk = events.frame() => {
                let Some(Ok(chunk)) = chunk.map(|chunk| chunk.map(http_body::Frame::into_data)) else {
                    return CloseCode::Normal;
                };
                if let Ok(chunk) = chunk {
                    buffer.put(chunk);
                }
                while let Some(message) = framing.split(&mut buffer).and_then(|event| framing.message(event)) {
                    if socket.feed(message).await.is_err() {
                        return CloseCode::Normal;
                    }
                }
                if socket.flush().await.is_err() {
                    return CloseCode::Normal;
                }
            }
            // Reading also answers pings.
            received = socket.next() => match received {
                Some(Ok(_)) => {}
                Some(Err(Error::Protocol(_))) => return CloseCode::Protocol,
                Some(Err(_)) | None => return CloseCode::Normal,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        };
        headers.iter().map(header).collect()
    }

    #[test]
    fn only_websocket_upgrades_are_recognized() {
        for (headers, expect) in [
            (&[][..], false),
            (&[("upgrade", "websocket")], false),
            (&[("connection", "upgrade")], false),
            (&[("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade")], true),
            (&[("upgrade", "websocket"), ("connection", "keep-alive"), ("connection", "upgrade")], true),
            (&[("upgrade", "h2c"), ("connection", "upgrade")], false),
        ] {
            assert_eq!(is_websocket_request(&request(headers)), expect, "{headers:?}");
        }
    }

    #[test]
    fn handshakes_are_checked_in_upstreams_order() {
        let (key, version, origin) = (
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("origin", "http://x"),
        );
        let protocol = |value| ("sec-websocket-protocol", value);
        for (method, headers, code) in [
            ("POST", &[key, version, origin][..], 405),
            ("GET", &[version, origin], 400),
            ("GET", &[key, origin], 400),
            ("GET", &[key, ("sec-websocket-version", "8"), origin], 400),
            ("GET", &[key, version], 403),
            ("GET", &[key, version, ("origin", "null")], 403),
            ("GET", &[key, version, origin, protocol("a, b")], 400),
            ("GET", &[key, version, origin], 101),
            ("GET", &[key, version, ("origin", "/")], 101),
            ("GET", &[key, version, origin, protocol(" a ")], 101),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let response = handshake(&method, &request(headers)).unwrap_or_else(|rejection| rejection);
            assert_eq!(response.status(), code, "{headers:?}");
            if code == 101 {
                // This value is the sample response of RFC 6455.
                assert_eq!(text(response.headers(), &SEC_WEBSOCKET_ACCEPT), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
                let named = headers.iter().any(|(name, _)| *name == "sec-websocket-protocol");
                assert_eq!(text(response.headers(), &SEC_WEBSOCKET_PROTOCOL), if named { "a" } else { "" });
            }
        }
    }

    #[test]
    fn events_are_split_by_their_framing() {
        let check = |framing: EventFraming, chunks: &[&[u8]], expect: &[&[u8]]| {
            let mut buffer = BytesMut::new();
            let mut found = Vec::new();
            for chunk in chunks {
                buffer.extend_from_slice(chunk);
                found.extend(std::iter::from_fn(|| framing.split(&mut buffer)));
            }
            assert_eq!(found, expect);
        };
        check(EventFraming::Lines, &[b"{}\n", b"[1]\n[2]\n[", b"3]\n"], &[b"{}\n", b"[1]\n", b"[2]\n", b"[3]\n"]);
        check(EventFraming::Lengths, &[b"\0\0\0\x01a\0\0\0\0\0\0", b"\0\x02b", b"c"], &[b"a", b"", b"bc"]);
    }
}
