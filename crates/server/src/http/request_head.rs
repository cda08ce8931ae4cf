//! Refuses heads of HTTP/1 requests that hyper accepts and Go's `net/http` does not. A proxy in front of the server may
//! understand such a head in another way, which makes request smuggling possible (RFC 9112, 11.2). Where hyper is
//! stricter than Go, it stays stricter. `integration/tests/malformed_requests/heads.jsonl` contains the answers of
//! both.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, StatusCode, Version};

use super::Response;
use super::response::text;

/// A refused head: the status and the text of the response, both from Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RefusedHead(StatusCode, &'static str);

const BAD_REQUEST: RefusedHead = RefusedHead(StatusCode::BAD_REQUEST, "400 Bad Request");
const NO_HOST: RefusedHead = RefusedHead(StatusCode::BAD_REQUEST, "400 Bad Request: missing required Host header");
const MALFORMED_HOST: RefusedHead = RefusedHead(StatusCode::BAD_REQUEST, "400 Bad Request: malformed Host header");
const UNSUPPORTED_CODING: RefusedHead = RefusedHead(StatusCode::NOT_IMPLEMENTED, "Unsupported transfer encoding");
const UNKNOWN_EXPECTATION: RefusedHead = RefusedHead(StatusCode::EXPECTATION_FAILED, "");

impl RefusedHead {
    /// The response, after which the connection is closed.
    pub(super) fn response(self) -> Response {
        let Self(code, message) = self;
        let mut response = text(code, message);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// Checks the head of a request.
///
/// # Errors
/// Go refuses the head.
pub(super) fn check_head<B>(request: &Request<B>) -> Result<(), RefusedHead> {
    if request.version() >= Version::HTTP_2 {
        return Ok(());
    }
    check_target(request)?;
    check_host(request)?;
    check_length(request.headers())?;
    check_coding(request.headers())?;
    check_expectation(request.headers())
}

/// Checks that the target is a path or a URL, without broken escapes in the path (Go: `url.ParseRequestURI`).
fn check_target<B>(request: &Request<B>) -> Result<(), RefusedHead> {
    let uri = request.uri();
    let is_host = uri.scheme().is_none() && uri.authority().is_some();
    if is_host && *request.method() != Method::CONNECT {
        return Err(BAD_REQUEST);
    }
    let path = uri.path().as_bytes();
    let is_escape = |at: usize| path.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if memchr::memchr_iter(b'%', path).all(is_escape) { Ok(()) } else { Err(BAD_REQUEST) }
}

/// Checks that there is one host, which may be empty. HTTP/1.0 needs none.
fn check_host<B>(request: &Request<B>) -> Result<(), RefusedHead> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Err(BAD_REQUEST),
        (Some(host), None) if host.as_bytes().iter().all(|byte| is_host_byte(*byte)) => Ok(()),
        (Some(_), None) => Err(MALFORMED_HOST),
        (None, _) if request.version() < Version::HTTP_11 || *request.method() == Method::CONNECT => Ok(()),
        (None, _) => Err(NO_HOST),
    }
}

/// True for a byte that may be in a host with a port (RFC 3986, 3.2.2).
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=[']_~".contains(&byte)
}

/// Checks that the length is below 2^63. hyper has checked the rest, and has removed a length that accompanies a
/// transfer coding.
fn check_length(headers: &HeaderMap) -> Result<(), RefusedHead> {
    let Some(length) = headers.get(CONTENT_LENGTH) else { return Ok(()) };
    let length = length.to_str().ok().and_then(|digits| digits.parse::<i64>().ok());
    length.map_or(Err(BAD_REQUEST), |_| Ok(()))
}

/// Checks that the only transfer coding is `chunked`. Its trailers may not concern the body itself.
fn check_coding(headers: &HeaderMap) -> Result<(), RefusedHead> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(UNSUPPORTED_CODING);
    }
    let is_forbidden = |name: &str| {
        [CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING]
            .iter()
            .any(|header| name.trim().eq_ignore_ascii_case(header.as_str()))
    };
    let trailers = headers.get_all(TRAILER).iter().filter_map(|names| names.to_str().ok());
    if trailers.flat_map(|names| names.split(',')).any(is_forbidden) { Err(BAD_REQUEST) } else { Ok(()) }
}

/// Checks that the client has no expectation, or that `100-continue` is among its expectations.
fn check_expectation(headers: &HeaderMap) -> Result<(), RefusedHead> {
    let Some(expected) = headers.get(EXPECT) else { return Ok(()) };
    let expected = expected.as_bytes();
    let is_known = |token: &[u8]| token.eq_ignore_ascii_case(b"100-continue");
    let mut tokens = expected.split(|byte| matches!(byte, b',' | b' ' | b'\t'));
    if expected.is_empty() || tokens.any(is_known) { Ok(()) } else { Err(UNKNOWN_EXPECTATION) }
}
