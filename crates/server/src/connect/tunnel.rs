//! Port forwarding of clients that tunnel SPDY through a WebSocket, for kubelets that only speak SPDY (upstream:
//! `util/proxy.TunnelingHandler`). The bytes of SPDY are not interpreted.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Method, StatusCode};
use pintle_outbound::{Client, UpgradedStream};
use pintle_registry::ApiError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::Location;
use super::copy::{ClientStream, no_body, take_over};
use super::headers::remove_body_headers;
use super::upgrade::{Asked, ask, upgrade_headers};
use super::websocket::{normal_end, offered_protocols, open};
use crate::context::RequestContext;
use crate::http::{Response, joined_headers, plain_error};
use crate::read::{check_opening, switching_protocols};

/// The prefix of a SPDY protocol's name in the subprotocol of its tunnel.
const PREFIX: &str = "SPDY/3.1+";
/// The protocol of kubelets.
const SPDY: &str = "SPDY/3.1";
/// The header with the protocol inside SPDY.
pub(super) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Maximum number of the kubelet's bytes in one message.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;
/// The time for which the other direction continues after one direction has ended.
const REMAINING_TIME: Duration = Duration::from_secs(5);

/// True if a subprotocol is a tunnel.
fn is_tunnel(protocol: &str) -> bool {
    protocol.starts_with(PREFIX) && protocol.ends_with(".k8s.io")
}

/// True if a client asks for a tunnel.
pub(super) fn is_wanted(request: &RequestContext) -> bool {
    offered_protocols(&request.headers).into_iter().any(is_tunnel)
}

/// Connects a client with a kubelet through a tunnel.
///
/// # Errors
/// The kubelet cannot be reached, or its answer is neither a switch of protocols nor an error.
pub(super) async fn tunnel(
    request: &Arc<RequestContext>,
    client: &Client,
    location: &Location,
) -> Result<Response, ApiError> {
    let metrics = request.cluster.metrics.connections();
    let offered = offered_protocols(&request.headers);
    let mut headers = upgrade_headers(request);
    remove_body_headers(&mut headers);
    for name in [SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, STREAM_PROTOCOL] {
        headers.remove(name);
    }
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    for protocol in offered.iter().copied().filter(|protocol| is_tunnel(protocol)) {
        if let Some(Ok(protocol)) = protocol.strip_prefix(PREFIX).map(HeaderValue::from_str) {
            headers.append(STREAM_PROTOCOL, protocol);
        }
    }
    let upgraded = match ask(request, client, location, Method::POST, headers, no_body()).await? {
        Asked::Upgraded(upgraded) => upgraded,
        Asked::NotUpgraded(response) => {
            metrics.record_tunneled(response.status().as_u16());
            return Ok(response);
        }
    };
    let (parts, backend) = upgraded.into_parts();
    let value = |name| joined_headers(&parts.headers, &name).to_ascii_lowercase();
    if !value(CONNECTION).contains("upgrade") || !value(UPGRADE).contains("spdy/3.1") {
        metrics.record_tunneled(500);
        let message = "unable to upgrade: missing upgrade headers in response";
        return Ok(plain_error(StatusCode::INTERNAL_SERVER_ERROR, message));
    }
    // The client knows the protocol by the name of its tunnel.
    let protocol = format!("{PREFIX}{}", joined_headers(&parts.headers, &STREAM_PROTOCOL).trim());
    let protocol = if offered.contains(&protocol.as_str()) { protocol.as_str() } else { "" };
    let opening = check_opening(&request.method, &request.headers).ok().zip(request.upgrade());
    let Some((key, upgrade)) = opening else {
        metrics.record_tunneled(500);
        let mut response = plain_error(StatusCode::BAD_REQUEST, "Bad Request");
        response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Ok(response);
    };
    metrics.record_tunneled(101);
    let response = switching_protocols(key, protocol);
    Ok(take_over(request, upgrade, response, move |client| copy(client, backend)))
}

/// Copies the bytes of SPDY in both directions until either side ends.
async fn copy(client: ClientStream, backend: UpgradedStream) {
    let (mut to_client, mut from_client) = open(client).await.split();
    let (mut from_backend, mut to_backend) = tokio::io::split(backend);
    let upwards = async {
        // After the kubelet has disconnected, further messages are dropped, so that the client can read the rest of the
        // answer.
        let mut has_gone = false;
        while let Some(Ok(message)) = from_client.next().await {
            match message {
                Message::Binary(bytes) => {
                    has_gone = has_gone || to_backend.write_all(&bytes).await.is_err();
                    has_gone = has_gone || to_backend.flush().await.is_err();
                }
                Message::Ping(_) | Message::Pong(_) => {}
                // SPDY is binary, so a text message ends the tunnel.
                _ => break,
            }
        }
        let _ = to_backend.shutdown().await;
    };
    let downwards = async {
        let mut buffer = BytesMut::with_capacity(MAX_MESSAGE_BYTES);
        while let Ok(1..) = from_backend.read_buf(&mut buffer).await {
            let message: Bytes = buffer.split().freeze();
            if to_client.send(Message::Binary(message)).await.is_err() {
                break;
            }
            buffer.reserve(MAX_MESSAGE_BYTES);
        }
        let _ = to_client.send(normal_end()).await;
        let _ = to_client.close().await;
    };
    let (mut upwards, mut downwards) = (pin!(upwards), pin!(downwards));
    tokio::select! {
        () = &mut upwards => drop(timeout(REMAINING_TIME, downwards).await),
        () = &mut downwards => drop(timeout(REMAINING_TIME, upwards).await),
    }
}
