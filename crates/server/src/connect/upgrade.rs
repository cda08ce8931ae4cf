//! Requests for another protocol, which are passed on to a backend byte for byte (upstream:
//! `util/proxy.UpgradeAwareHandler.tryUpgrade`).

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper::body::Body as _;
use pintle_outbound::{Client, ErrorCause, RequestError, ResponseBody, StreamOptions, UpgradeResponse, UpgradedStream};
use pintle_registry::ApiError;
use pintle_value::print::quote;
use pintle_value::url::escape_path;

use super::Location;
use super::copy::{BackendBody, body_for_backend, copy_both, streamed, take_over};
use super::headers::{add_forwarded_for, received, set_empty_length};
use crate::context::RequestContext;
use crate::http::{Body, Response};

/// Time limit for the body of an answer from a backend that does not switch protocols.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The error of a backend that cannot be reached.
pub(super) fn dial_error(error: &RequestError) -> ApiError {
    let cause = &error.cause;
    match cause {
        ErrorCause::Dial { .. }
        | ErrorCause::DialTimeout { .. }
        | ErrorCause::ProxyAnswer { .. }
        | ErrorCause::ProxyRefusal { .. }
        | ErrorCause::Tls(_)
        | ErrorCause::TlsTimeout
        | ErrorCause::MissingHost => ApiError::Unclassified(format!("error dialing backend: {cause}")),
        // Here upstream reads the answer itself, and a missing answer has another text.
        _ => match cause.to_string().as_str() {
            "EOF" => ApiError::Unclassified("unexpected EOF".to_owned()),
            text => ApiError::Unclassified(text.to_owned()),
        },
    }
}

/// The URI of a location.
///
/// # Errors
/// The host is not valid in a URL.
pub(super) fn uri_of(location: &Location) -> Result<Uri, ApiError> {
    let mut target = escape_path(&location.path);
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    if !location.query.is_empty() {
        target.push('?');
        target.push_str(&location.query);
    }
    if location.authority.contains('@') {
        // A URI parser would take the text before the `@` for a user, and the text after it for the host.
        let authority = quote(&location.authority);
        return Err(ApiError::Unclassified(format!("error dialing backend: {authority} is no host")));
    }
    let authority = location.tls_authority.as_ref().unwrap_or(&location.authority);
    let uri = Uri::builder().scheme(location.scheme.as_str()).authority(authority.as_str());
    let failed = |error: http::Error| ApiError::Unclassified(format!("error dialing backend: {error}"));
    uri.path_and_query(target).build().map_err(failed)
}

/// The headers that ask a backend for an upgrade.
pub(super) fn upgrade_headers(request: &RequestContext) -> HeaderMap {
    let mut headers = received(request);
    add_forwarded_for(&mut headers, request.source);
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("Go-http-client/1.1"));
    headers
}

/// A backend that has switched protocols, or its answer if it has not.
pub(super) enum Asked {
    Upgraded(http::Response<UpgradedStream>),
    NotUpgraded(Response),
}

/// Asks a backend for another protocol.
///
/// # Errors
/// The backend cannot be reached, or its answer is neither a switch of protocols nor an error.
pub(super) async fn ask(
    request: &RequestContext,
    client: &Client,
    location: &Location,
    method: Method,
    headers: HeaderMap,
    body: BackendBody,
) -> Result<Asked, ApiError> {
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = method;
    *outgoing.uri_mut() = uri_of(location)?;
    *outgoing.headers_mut() = headers;
    let answer = client
        .upgrade(outgoing, StreamOptions { dial_address: location.dial_address.as_ref(), ..StreamOptions::default() })
        .await;
    match answer.map_err(|error| dial_error(&error))? {
        UpgradeResponse::Upgraded(response) => Ok(Asked::Upgraded(response)),
        UpgradeResponse::NotUpgraded(response) if response.status().as_u16() < 400 => {
            let code = response.status().as_u16();
            Err(ApiError::Unclassified(format!("invalid upgrade response: status code {code}")))
        }
        UpgradeResponse::NotUpgraded(response) => Ok(Asked::NotUpgraded(refusal(request, *response))),
    }
}

/// The answer of a backend that does not switch protocols. The connection is closed afterwards.
fn refusal(request: &RequestContext, response: http::Response<ResponseBody>) -> Response {
    let (mut parts, body) = response.into_parts();
    super::headers::remove_hop_by_hop(&mut parts.headers);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut response = Response::new(streamed(request, body));
    *response.status_mut() = parts.status;
    *response.headers_mut() = parts.headers;
    let deadline = tokio::time::Instant::now() + ANSWER_TIME;
    response.extensions_mut().insert(crate::http::ResponseDeadline(deadline));
    response
}

/// Passes a request for another protocol on to a backend with these headers, and then copies bytes in both directions.
///
/// # Errors
/// See [`ask`].
pub(super) async fn pass_on(
    request: &Arc<RequestContext>,
    client: &Client,
    location: &Location,
    mut headers: HeaderMap,
) -> Result<Response, ApiError> {
    let body = body_for_backend(request);
    if body.is_end_stream() {
        set_empty_length(&mut headers, &request.method);
    }
    let upgraded = match ask(request, client, location, request.method.clone(), headers, body).await? {
        Asked::Upgraded(upgraded) => upgraded,
        Asked::NotUpgraded(response) => return Ok(response),
    };
    let Some(upgrade) = request.upgrade() else {
        return Err(ApiError::Unclassified("request connection cannot be hijacked".to_owned()));
    };
    let (parts, backend) = upgraded.into_parts();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = parts.headers;
    Ok(take_over(request, upgrade, response, move |client| copy_both(client, backend)))
}
