//! Watches over WebSockets (RFC 6455), as upstream serves them with `golang.org/x/net/websocket`: the client upgrades the
//! request of a watch, and each event comes as a message of its own. What the client says is not listened to.

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
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use crate::context::RequestContext;
use crate::http::{Body, Response};

/// The only version of the protocol.
const VERSION: &str = "13";
/// The largest message that a client may send, though nobody reads it, in bytes.
const MESSAGE: usize = 1 << 20;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Turns the answer to a watch into the beginning of a WebSocket, if the client asks for one.
pub(crate) fn upgrade(call: &RequestContext, response: Response) -> Response {
    if !is_asked_for(&call.headers) || response.status() != StatusCode::OK {
        return response;
    }
    let Some(upgrade) = call.upgrade() else { return response };
    let framing = match response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) {
        Some(media_type) if media_type.starts_with("application/json") => Framing::Lines,
        _ => Framing::Lengths,
    };
    match handshake(&call.method, &call.headers) {
        Ok(answer) => {
            tokio::spawn(serve(upgrade, response.into_body(), framing));
            answer
        }
        Err(refusal) => refusal,
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// True if the client asks for a WebSocket (upstream: `wsstream.IsWebSocketRequest`).
fn is_asked_for(headers: &HeaderMap) -> bool {
    let upgrades = |value: &HeaderValue| value.to_str().is_ok_and(|v| v.to_ascii_lowercase().contains("upgrade"));
    text(headers, &UPGRADE).eq_ignore_ascii_case("websocket") && headers.get_all(CONNECTION).iter().any(upgrades)
}

/// The answer to a request for a WebSocket, or why it is refused. As upstream, it wants an origin but takes any, and one
/// subprotocol or none.
fn handshake(method: &Method, headers: &HeaderMap) -> Result<Response, Response> {
    if method != Method::GET {
        return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "bad method"));
    }
    let key = text(headers, &SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Err(refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    }
    if text(headers, &SEC_WEBSOCKET_VERSION) != VERSION {
        let mut refusal = refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        return Err(refusal);
    }
    if !is_uri(text(headers, &ORIGIN)) {
        return Err(refuse(StatusCode::FORBIDDEN, ""));
    }
    let protocol = text(headers, &SEC_WEBSOCKET_PROTOCOL).trim();
    if protocol.contains(',') {
        return Err(refuse(StatusCode::BAD_REQUEST, ""));
    }
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let said =
        [(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes())), (SEC_WEBSOCKET_PROTOCOL, protocol.to_owned())];
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for (name, value) in said {
        if let Ok(value) = HeaderValue::from_str(&value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
    Ok(answer)
}

fn refuse(code: StatusCode, why: &'static str) -> Response {
    let mut response = Response::new(Body::from(why));
    *response.status_mut() = code;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// True if Go's `url.ParseRequestURI` takes the text: an absolute path, or what begins with a scheme.
fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    };
    text.starts_with('/')
        || text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && rest.starts_with('/'))
}

/// How events are told apart in the body of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// By line ends; they become text.
    Lines,
    /// By lengths in four bytes before them; they become binary messages.
    Lengths,
}

impl Framing {
    /// Takes the next whole event out of the buffer.
    fn split(self, buffer: &mut BytesMut) -> Option<Bytes> {
        match self {
            Framing::Lines => {
                let end = buffer.iter().position(|b| *b == b'\n')?;
                Some(buffer.split_to(end + 1).freeze())
            }
            Framing::Lengths => {
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
            Framing::Lines => Utf8Bytes::try_from(event).ok().map(Message::Text),
            Framing::Lengths => Some(Message::Binary(event)),
        }
    }
}

/// Serves a watch until it ends or the client goes.
async fn serve(upgrade: OnUpgrade, events: Body, framing: Framing) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "no WebSocket came of the request"),
    };
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE)).max_frame_size(Some(MESSAGE));
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let code = forward(&mut socket, events, framing).await;
    // Upstream says goodbye and closes, without waiting for the client's.
    let _ = socket.close(Some(CloseFrame { code, reason: Utf8Bytes::default() })).await;
    let _ = socket.get_mut().shutdown().await;
}

/// Sends events as messages; says how the connection is to be closed.
async fn forward(socket: &mut Socket, mut events: Body, framing: Framing) -> CloseCode {
    let mut buffer = BytesMut::new();
    loop {
        tokio::select! {
            piece = events.frame() => {
                let Some(Ok(piece)) = piece.map(|piece| piece.map(http_body::Frame::into_data)) else {
                    return CloseCode::Normal;
                };
                if let Ok(piece) = piece {
                    buffer.put(piece);
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
            // Reading is what answers pings.
            said = socket.next() => match said {
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
    fn only_upgrades_to_websockets_are_taken() {
        for (headers, expect) in [
            (&[][..], false),
            (&[("upgrade", "websocket")], false),
            (&[("connection", "upgrade")], false),
            (&[("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade")], true),
            (&[("upgrade", "websocket"), ("connection", "keep-alive"), ("connection", "upgrade")], true),
            (&[("upgrade", "h2c"), ("connection", "upgrade")], false),
        ] {
            assert_eq!(is_asked_for(&request(headers)), expect, "{headers:?}");
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
            let answer = handshake(&method, &request(headers)).unwrap_or_else(|refusal| refusal);
            assert_eq!(answer.status(), code, "{headers:?}");
            if code == 101 {
                // The answer that RFC 6455 gives for its sample.
                assert_eq!(text(answer.headers(), &SEC_WEBSOCKET_ACCEPT), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
                let named = headers.iter().any(|(name, _)| *name == "sec-websocket-protocol");
                assert_eq!(text(answer.headers(), &SEC_WEBSOCKET_PROTOCOL), if named { "a" } else { "" });
            }
        }
    }

    #[test]
    fn events_are_told_apart() {
        let check = |framing: Framing, pieces: &[&[u8]], expect: &[&[u8]]| {
            let mut buffer = BytesMut::new();
            let mut found = Vec::new();
            for piece in pieces {
                buffer.extend_from_slice(piece);
                found.extend(std::iter::from_fn(|| framing.split(&mut buffer)));
            }
            assert_eq!(found, expect);
        };
        check(Framing::Lines, &[b"{}\n", b"[1]\n[2]\n[", b"3]\n"], &[b"{}\n", b"[1]\n", b"[2]\n", b"[3]\n"]);
        check(Framing::Lengths, &[b"\0\0\0\x01a\0\0\0\0\0\0", b"\0\x02b", b"c"], &[b"a", b"", b"bc"]);
    }
}
