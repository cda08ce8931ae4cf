//! Plain requests that are passed on to a backend, with streamed bodies in both directions (Go:
//! `httputil.ReverseProxy`; upstream: `util/proxy.UpgradeAwareHandler` and its `Transport`).

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION, UPGRADE};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use hyper::body::Body as _;
use pintle_admission::AdmissionRecorder;
use pintle_outbound::{Client, ErrorCause, StreamOptions};
use pintle_registry::ApiError;
use pintle_value::print::quote;
use pintle_value::url::escape_path;

use super::Location;
use super::copy::{body_for_backend, streamed};
use super::headers::{add_own_cache_control, forwarded, received, remove_cors, remove_hop_by_hop, set_empty_length};
use super::proxies::clean;
use super::rewrite::{LinkRewriter, rewritten};
use super::upgrade::uri_of;
use crate::context::RequestContext;
use crate::http::{Body, Response, header_text, joined_headers, text};

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// The options of a request that is passed on. Proxies of pods, services and nodes differ in them from API servers.
pub(super) struct ForwardOptions {
    /// The headers for the backend.
    pub(super) headers: HeaderMap,
    /// The query for the backend, escaped.
    pub(super) query: String,
    /// True to tell the backend its own host, as upstream does with API servers.
    pub(super) names_backend: bool,
    /// True if the client never gets a redirect (CVE-2022-3172).
    pub(super) refuses_redirects: bool,
    /// Maximum time until the head of the response has arrived.
    pub(super) head_timeout: Option<Duration>,
}

impl ForwardOptions {
    /// The options of a proxy of a pod, service or node.
    pub(super) fn of_proxy(request: &RequestContext) -> Self {
        Self {
            headers: forwarded(received(request), request.source),
            query: request.uri.query().unwrap_or_default().to_owned(),
            names_backend: false,
            refuses_redirects: false,
            head_timeout: None,
        }
    }
}

/// Passes a request on to a backend. Redirects and links to the backend are changed so that they lead through the
/// proxy.
///
/// # Errors
/// The backend cannot be reached.
pub(super) async fn forward(
    request: &Arc<RequestContext>,
    client: &Client,
    mut location: Location,
    options: ForwardOptions,
) -> Result<Response, ApiError> {
    let path = &request.info.path;
    location.query = options.query;
    if path.ends_with('/') && !location.path.ends_with('/') {
        location.path.push('/');
    }
    if location.path.is_empty() && matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(redirect_to_root(path, request.uri.query()));
    }
    let rewriter = LinkRewriter::new(path, &location, &request_host(request));
    let unreachable =
        |why: &dyn std::fmt::Display| ApiError::Unavailable(format!("error trying to reach service: {why}"));
    let uri = uri_of(&location).map_err(|error| unreachable(&error))?;
    let mut headers = options.headers;
    headers.remove(&FORWARDED_URI);
    if let Ok(value) = HeaderValue::from_str(&forwarded_uri(rewriter.prefix(), &location.path)) {
        headers.insert(FORWARDED_URI, value);
    }
    if options.names_backend
        && let Ok(host) = HeaderValue::from_str(&location.authority)
        && let Ok(scheme) = HeaderValue::from_str(&location.scheme)
    {
        headers.insert(FORWARDED_HOST, host);
        headers.insert(FORWARDED_PROTO, scheme);
    }
    let body = body_for_backend(request);
    if body.is_end_stream() {
        set_empty_length(&mut headers, &request.method);
    }
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = uri;
    *outgoing.headers_mut() = headers;
    let stream_options = StreamOptions {
        dial_address: location.dial_address.as_ref(),
        head_timeout: options.head_timeout,
        ..StreamOptions::default()
    };
    let answer = client.stream(outgoing, stream_options).await;
    if let Err(error) = &answer
        && options.names_backend
        && error.cause.relies_on_common_name()
    {
        let (host, _) = location.authority.rsplit_once(':').unwrap_or((&location.authority, ""));
        request.recorder.annotate_missing_san(host);
    }
    let answer = answer.map_err(|error| match error.cause {
        ErrorCause::HeadTimeout => unreachable(&"context deadline exceeded"),
        cause => unreachable(&cause),
    })?;
    let (mut parts, body) = answer.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let protocol = quote(header_text(&parts.headers, &UPGRADE));
        let why = format!("backend tried to switch protocol {protocol} when \"\" was requested");
        return Err(ApiError::Unclassified(why));
    }
    let target = joined_headers(&parts.headers, &LOCATION);
    if options.refuses_redirects && parts.status.is_redirection() && !target.is_empty() {
        let message = "the backend attempted to redirect this request, which is not permitted";
        return Ok(text(StatusCode::BAD_GATEWAY, message.to_owned()));
    }
    remove_hop_by_hop(&mut parts.headers);
    remove_cors(&mut parts.headers);
    let mut is_page = false;
    if target.is_empty() {
        let media_type = header_text(&parts.headers, &CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
        is_page = media_type == "text/html" && request.method != Method::HEAD;
    } else {
        let rewritten = rewriter
            .rewrite(&target)
            .map_err(|error| ApiError::Internal(format!("error trying to parse Location header: {error}")))?;
        if let Ok(value) = HeaderValue::from_str(&rewritten) {
            parts.headers.insert(LOCATION, value);
        }
    }
    add_own_cache_control(&mut parts.headers);
    let body = if is_page {
        let encoding = joined_headers(&parts.headers, &http::header::CONTENT_ENCODING);
        let rewrite = move |link: &str| rewriter.rewrite(link);
        let page =
            rewritten(body, &encoding, rewrite, &request.cluster.limits.bodies, &request.cluster.limits.cpu_permits)
                .await;
        let page = page.map_err(|error| unreachable(&error))?;
        if let Some(length) = page.changed_length {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        page.into_body(request)
    } else {
        streamed(request, body)
    };
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    *response.headers_mut() = parts.headers;
    Ok(response)
}

/// The host to which the client sent its request.
fn request_host(request: &RequestContext) -> String {
    let named = request.uri.authority().map(|authority| authority.as_str());
    named.unwrap_or_else(|| header_text(&request.headers, &http::header::HOST)).to_owned()
}

/// The path of the client's request, in the form for the backend.
fn forwarded_uri(prefix: &str, path: &str) -> String {
    let parts: Vec<String> =
        [prefix.to_owned(), escape_path(path)].into_iter().filter(|part| !part.is_empty()).collect();
    let mut uri = if parts.is_empty() { String::new() } else { clean(&parts.join("/")) };
    if path.ends_with('/') {
        uri.push('/');
    }
    uri
}

/// Adds the slash without which relative links of a page would not work.
fn redirect_to_root(path: &str, query: Option<&str>) -> Response {
    let query = query.filter(|query| !query.is_empty()).map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    // Control characters become spaces, so a line break in the path cannot end the header.
    let target: String = format!("{path}/{query}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if let Ok(target) = HeaderValue::from_bytes(target.as_bytes()) {
        response.headers_mut().insert(LOCATION, target);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_learn_the_path_of_the_client() {
        let prefix = "/api/v1/namespaces/n/pods/p/proxy";
        for (path, expect) in [
            ("/", "/api/v1/namespaces/n/pods/p/proxy/"),
            ("/a b/", "/api/v1/namespaces/n/pods/p/proxy/a%20b/"),
            ("/a", "/api/v1/namespaces/n/pods/p/proxy/a"),
        ] {
            assert_eq!(forwarded_uri(prefix, path), expect);
        }
    }

    #[test]
    fn the_root_without_a_slash_is_redirected() {
        let target = |response: Response| header_text(response.headers(), &LOCATION).to_owned();
        assert_eq!(target(redirect_to_root("/x/proxy", None)), "/x/proxy/");
        assert_eq!(target(redirect_to_root("/x/proxy", Some("a=b"))), "/x/proxy/?a=b");
        assert_eq!(target(redirect_to_root("/x\r\ny", None)), "/x  y/");
    }
}
