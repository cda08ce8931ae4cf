//! One attempt to send a request on a connection, and whether another attempt may follow (Go: `Transport.roundTrip` and
//! `http2shouldRetryRequest`).

use std::sync::Arc;
use std::time::Duration;

use h2::Reason;
use http::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, Uri, Version};
use hyper::body::{Body, Incoming};

use crate::connection::{Http1Connection, network_error};
use crate::error::{ErrorCause, http2_error};
use crate::exchange::Exchange;
use crate::http2::StreamPermit;
use crate::idle_timer::IdleTimer;
use crate::pool::ConnectionPool;
use crate::request_body::RequestBody;

/// The maximum number of times that an unprocessed request is sent again (Go: `RoundTripOpt`).
const MAX_HTTP2_RETRIES: u32 = 7;

/// A response whose head has arrived.
pub(crate) struct Responding {
    pub(crate) response: Response<Incoming>,
    pub(crate) exchange: Exchange,
    pub(crate) idle_timer: Option<IdleTimer>,
}

/// The outcome of an attempt.
pub(crate) enum Attempt {
    Responding(Responding),
    /// An idle HTTP/1.1 connection was closed. The request may be sent again.
    Unsent(Request<RequestBody>),
    /// An HTTP/2 server has not processed the request. It may be sent again.
    Unprocessed {
        request: Request<RequestBody>,
        cause: ErrorCause,
    },
}

/// The time before a request is sent again: zero, then with exponential backoff. `None` after enough attempts.
pub(crate) fn http2_retry_delay(retries: u32) -> Option<Duration> {
    match retries {
        0 => Some(Duration::ZERO),
        1..MAX_HTTP2_RETRIES => Some(Duration::from_secs(1 << (retries - 1))),
        _ => None,
    }
}

/// Sends a request on an HTTP/1.1 connection. The server may close an idle connection at any time, so a request that
/// fails on a reused connection may be sent again. The condition is that it was not sent at all, or that the server may
/// receive it twice.
///
/// # Errors
/// The request has failed for good.
pub(crate) async fn send_http1(
    mut connection: Http1Connection,
    pool: &ConnectionPool,
    mut request: Request<RequestBody>,
    idle_timeout: Option<Duration>,
    is_reused: bool,
    may_replay: bool,
) -> Result<Attempt, ErrorCause> {
    to_http1(&mut request)?;
    request.body_mut().set_permit(None);
    let copy = if may_replay { try_clone(&request) } else { None };
    let progress = request.body().progress();
    let mut idle_timer = idle_timeout.map(|limit| IdleTimer::new(limit, progress.clone()));
    let sending = connection.sender.try_send_request(request);
    // From here on, cancellation closes the connection.
    let exchange = Exchange::http1(connection, pool.clone(), progress.clone());
    let mut error = match limit(&mut idle_timer, sending).await? {
        Ok(response) => return Ok(Attempt::Responding(Responding { response, exchange, idle_timer })),
        Err(error) => error,
    };
    match (error.take_message(), copy) {
        (Some(unsent), _) if is_reused => Ok(Attempt::Unsent(unsent)),
        (None, Some(copy)) if is_closed_connection(error.error()) => Ok(Attempt::Unsent(copy)),
        _ => Err(ErrorCause::of_request(ErrorCause::Http(error.into_error()), &progress)),
    }
}

/// Sends a request on a stream of an HTTP/2 connection.
///
/// # Errors
/// The request has failed and is not sent again.
pub(crate) async fn send_http2(
    permit: Arc<StreamPermit>,
    pool: &ConnectionPool,
    mut request: Request<RequestBody>,
    idle_timeout: Option<Duration>,
) -> Result<Attempt, ErrorCause> {
    to_http2(&mut request)?;
    request.body_mut().set_permit(Some(permit.clone()));
    let copy = try_clone(&request);
    let progress = request.body().progress();
    let mut idle_timer = idle_timeout.map(|limit| IdleTimer::new(limit, progress.clone()));
    let is_first = permit.begin_exchange();
    let sending = permit.send(request);
    // From here on, cancellation resets the stream.
    let mut exchange = Exchange::http2(permit.clone(), pool.clone(), progress.clone());
    let mut error = match limit(&mut idle_timer, sending).await? {
        Ok(response) => {
            exchange.receive_head();
            return Ok(Attempt::Responding(Responding { response, exchange, idle_timer }));
        }
        Err(error) => error,
    };
    if let Some(request) = error.take_message() {
        pool.remove(permit.connection());
        return match is_first {
            true => Err(ErrorCause::Http2NotEstablished),
            false => Ok(Attempt::Unprocessed { request, cause: ErrorCause::Http2Unusable }),
        };
    }
    let retryable = match http2_error(error.error()) {
        Some(reset) if reset.is_reset() && reset.is_remote() => {
            // A server that gets a request before the acknowledgement of its settings may report a protocol error.
            matches!(reset.reason(), Some(Reason::REFUSED_STREAM | Reason::PROTOCOL_ERROR))
        }
        // h2 reports the frame GOAWAY for the streams that the server has not processed.
        Some(go_away) if go_away.is_go_away() && go_away.is_remote() => {
            pool.remove(permit.connection());
            match go_away.reason() {
                Some(reason) if is_first && reason != Reason::NO_ERROR => return Err(ErrorCause::Http2GoAway(reason)),
                _ => true,
            }
        }
        _ => false,
    };
    let cause = ErrorCause::of_request(ErrorCause::Http2(error.into_error()), &progress);
    match (retryable, copy) {
        (false, _) => Err(cause),
        (true, Some(request)) => Ok(Attempt::Unprocessed { request, cause }),
        (true, None) => Err(ErrorCause::Http2CannotRetry(Box::new(cause))),
    }
}

/// The output of a future, unless the exchange is idle for too long.
async fn limit<T>(idle_timer: &mut Option<IdleTimer>, future: impl Future<Output = T>) -> Result<T, ErrorCause> {
    match idle_timer {
        Some(timer) => timer.limit(future).await.ok_or(ErrorCause::HeadIdleTimeout),
        None => Ok(future.await),
    }
}

/// A copy of a request to send again; `None` if its body is a stream.
fn try_clone(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// True if a request failed because the server closed the connection before it received the request.
fn is_closed_connection(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.is_canceled() || error.is_closed() || network_error(error).is_some()
}

/// Gives a request the form of HTTP/1.1: the path alone, and the host in a header.
pub(crate) fn to_http1(request: &mut Request<RequestBody>) -> Result<(), ErrorCause> {
    *request.version_mut() = Version::HTTP_11;
    // Without this header, hyper sends no body of unknown length with these methods (Go:
    // `transferWriter.shouldSendChunkedRequestBody`).
    if matches!(*request.method(), Method::GET | Method::HEAD) && request.body().size_hint().exact().is_none() {
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let Some(authority) = request.uri().authority() else { return Ok(()) };
    if !request.headers().contains_key(HOST) {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| ErrorCause::MissingHost)?;
        request.headers_mut().insert(HOST, host);
    }
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    Ok(())
}

/// Gives a request the form of HTTP/2: the host in the URI.
fn to_http2(request: &mut Request<RequestBody>) -> Result<(), ErrorCause> {
    *request.version_mut() = Version::HTTP_2;
    let Some(host) = request.headers_mut().remove(HOST) else { return Ok(()) };
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::try_from(host.as_bytes()).map_err(|_| ErrorCause::MissingHost)?);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| ErrorCause::MissingHost)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprocessed_requests_are_sent_again_with_backoff() {
        let delays: Vec<_> = (0..).map_while(http2_retry_delay).map(|delay| delay.as_secs()).collect();
        assert_eq!(delays, [0, 1, 2, 4, 8, 16, 32]);
    }
}
