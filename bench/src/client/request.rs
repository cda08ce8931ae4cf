//! Request constructors. They are cheap, because a benchmark creates millions of requests.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;

use super::HttpRequest;

/// The default media type of a request body.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request without a body.
pub(crate) fn plain(method: Method, path: impl Into<String>) -> HttpRequest {
    with_body(method, path, Bytes::new())
}

/// A GET of `path`.
pub(crate) fn get(path: impl Into<String>) -> HttpRequest {
    plain(Method::GET, path)
}

/// A GET of `path` that accepts one media type.
pub(crate) fn get_as(path: impl Into<String>, media_type: &'static str) -> HttpRequest {
    let mut request = get(path);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(media_type));
    request
}

/// A request with a JSON body.
pub(crate) fn with_body(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> HttpRequest {
    let body = body.into();
    let has_body = !body.is_empty();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    // An invalid path becomes the root, which fails the check of the status code.
    *request.uri_mut() = Uri::try_from(path.into()).unwrap_or_default();
    if has_body {
        request.headers_mut().insert(CONTENT_TYPE, JSON);
    }
    request
}

/// A PATCH of `path`.
pub(crate) fn patch(path: impl Into<String>, media_type: &'static str, body: impl Into<Bytes>) -> HttpRequest {
    let mut request = with_body(Method::PATCH, path, body);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request
}
