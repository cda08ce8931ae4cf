//! The WebSockets of clients of exec, attach and port forwarding (upstream: `httpstream/wsstream`).

use http::HeaderMap;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use pintle_auth::is_websocket_request;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::copy::ClientStream;

/// Maximum size of a client's message, in bytes. Messages of kubectl have 32 KiB; upstream reads 32 MiB.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Maximum size of the buffer for a client that does not read, in bytes.
const MAX_UNSENT_BYTES: usize = 1 << 20;

/// A WebSocket of a client.
pub(super) type Socket = WebSocketStream<ClientStream>;

/// The subprotocols that a client of a WebSocket offers.
pub(super) fn offered_protocols(headers: &HeaderMap) -> Vec<&str> {
    if !is_websocket_request(headers) {
        return Vec::new();
    }
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty()).collect()
}

/// Serves a WebSocket on a connection that was taken over.
pub(super) async fn open(stream: ClientStream) -> Socket {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
        .max_write_buffer_size(MAX_UNSENT_BYTES + MAX_MESSAGE_BYTES);
    WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await
}

/// The message that ends a WebSocket as intended.
pub(super) fn normal_end() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() }))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn subprotocols_are_those_of_all_headers() {
        let mut headers = HeaderMap::new();
        headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("a, b"));
        headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("c"));
        assert!(offered_protocols(&headers).is_empty());
        headers.insert("upgrade", HeaderValue::from_static("websocket"));
        headers.insert("connection", HeaderValue::from_static("Upgrade"));
        assert_eq!(offered_protocols(&headers), ["a", "b", "c"]);
    }
}
