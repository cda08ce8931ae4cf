//! Plain responses that are not objects of the API.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::{Body, Response};

/// A plain text response.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::Full(text.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A response with JSON that is not an object of the API.
pub(crate) fn json_text(code: StatusCode, json: impl Into<Bytes>) -> Response {
    let mut response = text(code, json);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The response of Go's `http.Error`.
pub(crate) fn plain_error(code: StatusCode, message: &str) -> Response {
    let mut response = text(code, format!("{message}\n"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response of Go's `http.NotFound`, for a path that is not served.
pub(crate) fn page_not_found() -> Response {
    plain_error(StatusCode::NOT_FOUND, "404 page not found")
}
