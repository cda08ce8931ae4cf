//! Plain responses that are not objects of the API.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::{Body, Response};

/// A plain text response.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::Full(text.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The response of Go's `http.NotFound`, for a path that is not served.
pub(crate) fn page_not_found() -> Response {
    let mut response = text(StatusCode::NOT_FOUND, "404 page not found\n");
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
