//! URLs of calls, and the errors of their responses.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{Response, StatusCode};
use pintle_codec::json;
use pintle_outbound::BoundedBody;
use pintle_value::field::quote;

/// Maximum size of an error response's body in a message, in bytes.
const MAX_ERROR_BODY_BYTES: usize = 2048;

/// The URL of a call, with a cleaned path. Its query contains the time limit in whole seconds.
pub(crate) fn clean_url(url: &str, timeout: Duration) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (authority, path) = url.split_at(url[start..].find('/').map_or(url.len(), |at| start + at));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let timeout = pintle_value::time::Duration(i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX));
    format!("{authority}/{}?timeout={timeout}", segments.join("/"))
}

/// The delay that a busy webhook asks for, at most the remaining time of the call.
pub(crate) fn retry_after(status: StatusCode, headers: &HeaderMap, left: Duration) -> Option<Duration> {
    let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let seconds = headers.get(RETRY_AFTER).filter(|_| busy)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(left))
}

/// The message for a failed request.
pub(crate) fn transport_error_message(error: &pintle_outbound::RequestError) -> String {
    if error.is_body_error() {
        return format!("unexpected error when reading response body. Please retry. Original error: {error}");
    }
    error.to_string()
}

/// Checks that a response is successful.
///
/// # Errors
/// Returns upstream's message.
pub(crate) fn check_response(response: &Response<BoundedBody>) -> Result<(), String> {
    let essence =
        media_type(response).map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if essence.as_ref().is_some_and(|essence| essence.matches('/').count() > 1) {
        return Err("Internal error occurred: mime: unexpected content after media subtype".to_owned());
    }
    if (200..=206).contains(&response.status().as_u16()) {
        return Ok(());
    }
    let text = essence.is_none_or(|essence| essence.starts_with("text/"));
    Err(error_message(response.status(), &response.body().bytes, text))
}

/// Returns the body of a successful response.
pub(crate) fn read_body(response: Response<BoundedBody>) -> Result<Bytes, String> {
    check_response(&response)?;
    let body = response.body();
    if body.truncated {
        return Err("the response is too large".to_owned());
    }
    if body.bytes.is_empty() {
        let status = response.status().as_u16();
        let media_type = media_type(&response).unwrap_or("application/json");
        return Err(format!("0-length response with status code: {status} and content type: {media_type}"));
    }
    Ok(response.into_body().bytes)
}

fn media_type(response: &Response<BoundedBody>) -> Option<&str> {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.filter(|text| !text.is_empty())
}

/// The message for an error response (upstream: apimachinery's `NewGenericServerResponse`). A `Status` has its own
/// message.
fn error_message(status: StatusCode, body: &[u8], is_text: bool) -> String {
    if let Ok(decoded) = json::decode(body, json::DecodeOptions::default())
        && decoded.value.kind() == "Status"
        && matches!(decoded.value.api_version(), "" | "v1")
        && decoded.value.str_at(&["status"]) == "Failure"
    {
        return decoded.value.str_at(&["message"]).to_owned();
    }
    let text = if is_text {
        String::from_utf8_lossy(&body[..body.len().min(MAX_ERROR_BODY_BYTES)]).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    let message = match status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if text == "unknown" => "the server was unable to respond with a content type that the client supports",
        406 => return text,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!("an error on the server ({}) has prevented the request from succeeding", quote(&text));
        }
        code => {
            return format!("the server responded with the status code {code} but did not return more information");
        }
    };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_end_with_the_call() {
        let left = Duration::from_secs(30);
        for (status, value, expect) in [
            (429, "7", Some(7)),
            (503, "31", Some(30)),
            (500, "18446744073709551615", Some(30)),
            (500, "soon", None),
            (404, "7", None),
        ] {
            let headers = [(RETRY_AFTER, value.parse().expect("a header"))].into_iter().collect();
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(retry_after(status, &headers, left), expect.map(Duration::from_secs), "{status} {value}");
        }
    }

    #[test]
    fn url_paths_are_cleaned() {
        for (given, expect) in [
            ("https://a", "https://a/?timeout=30s"),
            ("https://a/", "https://a/?timeout=30s"),
            ("https://a:1//b/./c/../d/", "https://a:1/b/d?timeout=30s"),
            ("https://[::1]:8443/b", "https://[::1]:8443/b?timeout=30s"),
            ("https://s.n.svc:8443/p/", "https://s.n.svc:8443/p?timeout=30s"),
        ] {
            assert_eq!(clean_url(given, Duration::from_secs(30)), expect);
        }
    }
}
