//! The logs of containers, which their kubelets send (upstream: `registry/core/pod/rest.LogREST` and
//! `generic/rest.LocationStreamer`).

use std::sync::Arc;

use bytes::BytesMut;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use pintle_auth::is_websocket_request;
use pintle_gates::Feature;
use pintle_outbound::{ErrorCause, ResponseBody, StreamOptions};
use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::print::quote;
use pintle_value::{Errors, FieldPath, Value, object};

use super::copy::streamed;
use super::location::{self, Location};
use super::log_socket;
use super::options::decode_options;
use super::upgrade::uri_of;
use crate::context::RequestContext;
use crate::http::{Body, Response};
use crate::request::negotiate;

/// The maximum size of a failing kubelet's answer that is read, in bytes (upstream: `maxReadLength`).
const MAX_ERROR_BYTES: usize = 50_000;

/// The parameters of a kubelet, in the order of their names.
const PARAMETERS: [&str; 8] =
    ["follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "stream", "tailLines", "timestamps"];

/// Responds with the log of a container, as it arrives.
///
/// # Errors
/// The options are invalid, there is no such container, or its kubelet cannot be reached or fails.
pub(super) async fn respond(request: &Arc<RequestContext>) -> Result<Response, ApiError> {
    let (info, cluster) = (&request.info, &request.cluster);
    negotiate::output(&request.headers, &request.query, request.endpoint())?;
    let kind = GroupVersionKind::new("", "v1", "PodLogOptions");
    let mut options =
        decode_options(&cluster.served.catalog, &kind, &request.query, None).map_err(ApiError::BadRequest)?;
    let selects_stream = cluster.gates().is_enabled(Feature::POD_LOGS_QUERY_SPLIT_STREAMS);
    if selects_stream {
        options.set_default("stream", "All");
    }
    let errors = validate(&options, selects_stream);
    if !errors.is_empty() {
        return Err(ApiError::Invalid { kind, name: info.name.clone(), errors });
    }
    let pod = location::get(cluster, "pods", &info.namespace, &info.name)?;
    let container = location::container(&pod, options.str_at(&["container"]))?;
    if pod.str_at(&["spec", "nodeName"]).is_empty() {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let kubelet = location::kubelet_of(cluster, &pod)?;
    let parameters: Vec<(&str, String)> =
        PARAMETERS.into_iter().filter_map(|name| Some((name, parameter(&options, name)?))).collect();
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let path = format!("/containerLogs/{}/{}/{container}", pod.namespace(), pod.name());
    let location = Location::of_kubelet(&kubelet, path, &parameters);
    let skip_verify = options.bool_at(&["insecureSkipTLSVerifyBackend"]);
    cluster.metrics.connections().record_log_backend(skip_verify);
    let client = cluster.outbound.kubelets.client(&kubelet, skip_verify).await?;
    let mut outgoing = Request::new(Empty::new());
    *outgoing.uri_mut() = uri_of(&location)?;
    let answer = client
        .stream(outgoing, StreamOptions { dial_address: kubelet.dial_address.as_ref(), ..StreamOptions::default() })
        .await
        .map_err(|error| {
            if matches!(error.cause, ErrorCause::Tls(_)) && error.to_string().contains("x509:") {
                cluster.metrics.connections().record_log_tls_failure();
            }
            ApiError::Unclassified(error.to_string())
        })?;
    let (parts, body) = answer.into_parts();
    // Redirects that Go's client follows, if it may.
    if matches!(parts.status.as_u16(), 301 | 302 | 303 | 307 | 308)
        && let Some(target) = parts.headers.get(LOCATION)
    {
        let target = String::from_utf8_lossy(target.as_bytes());
        return Err(ApiError::Unclassified(format!("Get {}: redirects forbidden", quote(&target))));
    }
    if !(200..=206).contains(&parts.status.as_u16()) {
        return Err(failure(parts.status, &info.name, body).await);
    }
    if is_websocket_request(&request.headers) {
        return Ok(log_socket::respond(request, body));
    }
    let mut response = Response::new(streamed(request, body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// A parameter of a kubelet; `None` if it is not set or false.
fn parameter(options: &Value, name: &str) -> Option<String> {
    let value = options.get(name)?;
    match (value.as_bool(), value.as_int(), value.as_str()) {
        (Some(false), ..) => None,
        (Some(true), ..) => Some("true".to_owned()),
        (_, Some(number), _) => Some(number.to_string()),
        (_, _, text) => text.map(str::to_owned),
    }
}

/// Validates the options (upstream: `ValidatePodLogOptions`).
fn validate(options: &Value, selects_stream: bool) -> Errors {
    let mut errors = Errors::new();
    let below = |name: &str, least: i64| options.int_at(&[name]).filter(|number| *number < least);
    if let Some(lines) = below("tailLines", 0) {
        errors.invalid(&FieldPath::new("tailLines"), lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = below("limitBytes", 1) {
        errors.invalid(&FieldPath::new("limitBytes"), bytes, "must be greater than 0");
    }
    if options.get("sinceSeconds").is_some() && options.get("sinceTime").is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.forbidden(&FieldPath::new(""), why);
    } else if let Some(seconds) = below("sinceSeconds", 1) {
        errors.invalid(&FieldPath::new("sinceSeconds"), seconds, "must be greater than 0");
    }
    match options.get("stream").and_then(Value::as_str) {
        Some(_) if !selects_stream => errors.forbidden(&FieldPath::new("stream"), "may not be specified"),
        Some(stream) if selects_stream => {
            if !matches!(stream, "All" | "Stdout" | "Stderr") {
                errors.not_supported(&FieldPath::new("stream"), stream, &["All", "Stderr", "Stdout"]);
            }
            if stream != "All" && options.get("tailLines").is_some() {
                let why = "`tailLines` and specific `stream` are mutually exclusive for now";
                errors.forbidden(&FieldPath::new(""), why);
            }
        }
        _ => {}
    }
    errors
}

/// The error for a failing kubelet's answer (upstream: `GenericHttpResponseChecker`).
async fn failure(code: StatusCode, name: &str, mut body: ResponseBody) -> ApiError {
    let mut bytes = BytesMut::new();
    while bytes.len() < MAX_ERROR_BYTES
        && let Some(frame) = body.frame().await
    {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) => return ApiError::Internal(error.to_string()),
        }
    }
    bytes.truncate(MAX_ERROR_BYTES);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::Internal(text),
        StatusCode::BAD_REQUEST => ApiError::BadRequest(text),
        code => server_response(code, name, &text),
    }
}

/// The error for an answer that contains no more than its code (upstream: `errors.NewGenericServerResponse`).
fn server_response(code: StatusCode, name: &str, text: &str) -> ApiError {
    let number = code.as_u16();
    let unknown = format!("the server responded with the status code {number} but did not return more information");
    let failed = format!("an error on the server ({}) has prevented the request from succeeding", quote(text));
    let (reason, message) = match number {
        409 => ("Conflict", "the server reported a conflict"),
        404 => ("NotFound", "the server could not find the requested resource"),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", text),
        406 if text.is_empty() || text == "unknown" => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports")
        }
        406 => ("NotAcceptable", text),
        415 => ("UnsupportedMediaType", text),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
        500.. => ("InternalError", failed.as_str()),
        _ => ("", unknown.as_str()),
    };
    let message = format!("{message} ( pods/log {name})");
    let mut status = object! { "status": "Failure", "message": message.as_str() };
    if !reason.is_empty() {
        status.set("reason", reason);
    }
    status.set("details", object! { "name": name, "kind": "pods/log" });
    status.set("code", i64::from(number));
    ApiError::Denied { message, status: Box::new(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_validated_in_upstreams_words() {
        let check = |options: Value, selects_stream: bool, expect: &str| {
            let errors = validate(&options, selects_stream);
            let message = if errors.is_empty() { String::new() } else { errors.message() };
            assert_eq!(message, expect, "{options:?}");
        };
        check(object! { "tailLines": 0, "limitBytes": 1, "sinceSeconds": 1 }, false, "");
        check(
            object! { "tailLines": -1, "limitBytes": 0 },
            false,
            "[tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be \
             greater than 0]",
        );
        check(object! { "sinceSeconds": 0 }, false, "sinceSeconds: Invalid value: 0: must be greater than 0");
        check(
            object! { "sinceSeconds": 0, "sinceTime": "2026-01-01T00:00:00Z" },
            false,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        );
        check(object! { "stream": "All" }, false, "stream: Forbidden: may not be specified");
        check(object! { "stream": "Stdout" }, true, "");
        check(
            object! { "stream": "x", "tailLines": 1 },
            true,
            "[stream: Unsupported value: \"x\": supported values: \"All\", \"Stderr\", \"Stdout\", []: Forbidden: \
             `tailLines` and specific `stream` are mutually exclusive for now]",
        );
    }
}
