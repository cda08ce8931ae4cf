//! Requests, made cheaply: a benchmark makes millions.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;

use super::Outgoing;

/// The media type of what is sent unless a request says otherwise.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request without a body.
pub(crate) fn plain(method: Method, path: impl Into<String>) -> Outgoing {
    with_body(method, path, Bytes::new())
}

/// A request for what is at `path`.
pub(crate) fn get(path: impl Into<String>) -> Outgoing {
    plain(Method::GET, path)
}

/// A request for what is at `path`, in a form.
pub(crate) fn accepting(path: impl Into<String>, media_type: &'static str) -> Outgoing {
    let mut request = get(path);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(media_type));
    request
}

/// A request with a body of JSON.
pub(crate) fn with_body(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> Outgoing {
    let body = body.into();
    let has_body = !body.is_empty();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    // A path that is none is asked for at the root, where the answer's code will tell.
    *request.uri_mut() = Uri::try_from(path.into()).unwrap_or_default();
    if has_body {
        request.headers_mut().insert(CONTENT_TYPE, JSON);
    }
    request
}

/// The request that patches what is at `path`.
pub(crate) fn patch(path: impl Into<String>, media_type: &'static str, body: impl Into<Bytes>) -> Outgoing {
    let mut request = with_body(Method::PATCH, path, body);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request
}
