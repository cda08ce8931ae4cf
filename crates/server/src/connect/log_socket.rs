//! Logs over WebSockets (upstream: `httpstream/wsstream.Reader`). Messages from the client are ignored.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use http_body_util::BodyExt as _;
use pintle_outbound::ResponseBody;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::copy::{ClientStream, take_over};
use super::websocket::{normal_end, offered_protocols, open};
use crate::context::RequestContext;
use crate::http::{Body, Response};
use crate::read::{check_opening, switching_protocols};

/// The time in which the client may close the connection after the end of the log.
const END_TIME: Duration = Duration::from_secs(5);

/// The conversion of a log's bytes into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFraming {
    Binary,
    Base64,
}

impl LogFraming {
    /// The framing and name of the first offered protocol that is known. Without an offer it is the protocol without a
    /// name.
    fn choose<'p>(offered: &[&'p str]) -> Option<(Self, &'p str)> {
        if offered.is_empty() {
            return Some((Self::Binary, ""));
        }
        offered.iter().find_map(|protocol| match *protocol {
            "binary.k8s.io" => Some((Self::Binary, *protocol)),
            "base64.binary.k8s.io" => Some((Self::Base64, *protocol)),
            _ => None,
        })
    }

    fn message(self, bytes: Bytes) -> Message {
        match self {
            Self::Binary => Message::Binary(bytes),
            Self::Base64 => Message::Text(STANDARD.encode(&bytes).into()),
        }
    }
}

/// Sends a log over a WebSocket.
pub(super) fn respond(request: &Arc<RequestContext>, log: ResponseBody) -> Response {
    let key = match check_opening(&request.method, &request.headers) {
        Ok(key) => key,
        Err(rejection) => return rejection,
    };
    let chosen = LogFraming::choose(&offered_protocols(&request.headers)).zip(request.upgrade());
    let Some(((framing, protocol), upgrade)) = chosen else {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::FORBIDDEN;
        return response;
    };
    let response = switching_protocols(key, protocol);
    take_over(request, upgrade, response, move |client| send(client, log, framing))
}

/// Sends a log until the log ends or the client disconnects.
async fn send(client: ClientStream, mut log: ResponseBody, framing: LogFraming) {
    let (mut to_client, mut from_client) = open(client).await.split();
    let sending = async {
        // An empty message tells the client that the connection is established.
        to_client.send(framing.message(Bytes::new())).await?;
        while let Some(Ok(frame)) = log.frame().await {
            if let Ok(bytes) = frame.into_data() {
                to_client.send(framing.message(bytes)).await?;
            }
        }
        to_client.send(normal_end()).await
    };
    let receiving = async { while let Some(Ok(_)) = from_client.next().await {} };
    let mut receiving = pin!(receiving);
    tokio::select! {
        // The client closes the connection, which proves that it has read everything.
        _ = sending => drop(timeout(END_TIME, receiving).await),
        () = &mut receiving => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_protocol_is_chosen() {
        for (offered, expect) in [
            (&[][..], Some((LogFraming::Binary, ""))),
            (&["x", "base64.binary.k8s.io", "binary.k8s.io"], Some((LogFraming::Base64, "base64.binary.k8s.io"))),
            (&["binary.k8s.io"], Some((LogFraming::Binary, "binary.k8s.io"))),
            (&["x"], None),
        ] {
            assert_eq!(LogFraming::choose(offered), expect, "{offered:?}");
        }
    }
}
