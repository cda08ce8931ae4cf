//! Handles a request's body that the answer did not need. A client that is still sending would lose the answer if the
//! connection were closed or the stream were reset. So the rest of the body is received and dropped, within bounds, as
//! Go's `net/http` does before and after an answer.

use std::future::Future;
use std::time::Duration;

use http::header::{CONNECTION, EXPECT};
use http::{HeaderMap, HeaderValue, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::Response;

/// Maximum number of bytes that are received before the answer is sent (Go: `maxPostHandlerReadBytes`).
const BYTES_BEFORE_ANSWER: u64 = 256 * 1024;
/// Time limit for the rest of the body before the answer is sent.
const TIME_BEFORE_ANSWER: Duration = Duration::from_millis(500);
/// Maximum number of bytes that are received after the answer was sent.
const BYTES_AFTER_ANSWER: u64 = 64 * 1024 * 1024;
/// Time limit for the rest of the body after the answer was sent.
const TIME_AFTER_ANSWER: Duration = Duration::from_secs(30);
/// Like [`TIME_AFTER_ANSWER`], but for a body that was not received by the deadline of its request. The client has this
/// time to notice the answer.
const TIME_AFTER_LATE_ANSWER: Duration = Duration::from_secs(2);
/// Maximum pause of the client while the rest of its body is received after the answer was sent.
const PAUSE_AFTER_ANSWER: Duration = Duration::from_secs(1);

/// The protocol version of a request, and whether its client waits for a `100 Continue` before it sends the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyProtocol {
    version: Version,
    expects_continue: bool,
}

impl BodyProtocol {
    pub(crate) fn of(version: Version, headers: &HeaderMap) -> Self {
        Self { version, expects_continue: headers.contains_key(EXPECT) }
    }
}

/// Receives the rest of a body and drops it. A small body is received before this returns, a larger body while the
/// answer is sent. If the rest exceeds the limits, the connection is closed or the stream is reset. An answer that
/// `is_late` is sent without waiting.
///
/// A stream is not reset right after its answer, although RFC 9113 (8.1) allows that. Some clients (curl) drop an
/// answer that they receive together with the reset.
pub(crate) async fn discard(mut body: Incoming, protocol: BodyProtocol, is_late: bool, response: &mut Response) {
    let is_http1 = protocol.version < Version::HTTP_2;
    // Reading the body would ask the client to send it.
    if body.is_end_stream() || (is_http1 && protocol.expects_continue) {
        return;
    }
    let is_small = !is_late && body.size_hint().lower() <= BYTES_BEFORE_ANSWER;
    if is_small && is_received(&mut body, BYTES_BEFORE_ANSWER, TIME_BEFORE_ANSWER, TIME_BEFORE_ANSWER).await {
        return;
    }
    if is_http1 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let time = if is_late { TIME_AFTER_LATE_ANSWER } else { TIME_AFTER_ANSWER };
    tokio::spawn(async move {
        is_received(&mut body, BYTES_AFTER_ANSWER, time, PAUSE_AFTER_ANSWER).await;
    });
}

/// Receives a body and drops it. Returns false if the body exceeds a limit.
fn is_received(body: &mut Incoming, limit: u64, time: Duration, pause: Duration) -> impl Future<Output = bool> {
    let receive = async move {
        let mut received = 0;
        loop {
            match timeout(pause, body.frame()).await {
                Ok(Some(Ok(frame))) => received += frame.data_ref().map_or(0, |data| data.len() as u64),
                // After an error there is nothing to receive.
                Ok(None | Some(Err(_))) => return true,
                Err(_) => return false,
            }
            if received > limit {
                return false;
            }
        }
    };
    async move { timeout(time, receive).await.unwrap_or(false) }
}
