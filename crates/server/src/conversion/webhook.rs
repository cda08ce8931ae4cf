//! Calls to webhooks (upstream: apiserver's `pkg/util/webhook` on top of client-go's `rest`, whose error messages
//! clients see). Each webhook has its own client, which keeps its connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode};
use pintle_codec::json;
use pintle_outbound::{BoundedBody, CallLimits, Client};
use pintle_registry::{WebhookClientConfig, WebhookTarget};
use pintle_value::field::quote;

use super::service_resolver;
use crate::cluster::Cluster;

/// Time limit for a call including retries.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the network in one attempt. It does not depend on the cluster's clock.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of retries when the webhook responds with `Retry-After`.
const MAX_RETRIES: usize = 10;
/// Maximum size of an error response's body in a message, in bytes.
const MAX_ERROR_BODY_BYTES: usize = 2048;

/// The error of a call.
pub(super) struct CallError {
    /// Upstream's message.
    pub(super) message: String,
    /// True if the webhook responded, with an error.
    pub(super) has_response: bool,
}

impl CallError {
    fn without_response(message: impl Into<String>) -> Self {
        Self { message: message.into(), has_response: false }
    }
}

/// Posts JSON to a webhook. Returns at most `limit` bytes of the response body.
///
/// # Errors
/// Returns upstream's message if there is no response, or no successful one.
pub(super) async fn post(
    cluster: &Arc<Cluster>,
    config: &WebhookClientConfig,
    body: Bytes,
    limit: usize,
) -> Result<Bytes, CallError> {
    let client = cluster.webhook_clients.get(config).map_err(CallError::without_response)?;
    let url = url(config);
    tokio::select! {
        biased;
        () = cluster.sleep(TOTAL_TIMEOUT) => Err(CallError::without_response(format!(
            "Post \"{url}\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        ))),
        response = post_with_retries(cluster, &client, config, &url, body, limit) => response,
    }
}

/// The URL of the request: the cleaned path, and the time limit as query.
fn url(webhook: &WebhookClientConfig) -> String {
    let url = webhook.url();
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
    format!("{authority}/{}?timeout={}s", segments.join("/"), TOTAL_TIMEOUT.as_secs())
}

/// Sends the request until the response does not ask for a retry.
async fn post_with_retries(
    cluster: &Arc<Cluster>,
    client: &Client,
    webhook: &WebhookClientConfig,
    url: &str,
    body: Bytes,
    limit: usize,
) -> Result<Bytes, CallError> {
    let mut retries_left = MAX_RETRIES;
    loop {
        let route = match &webhook.target {
            WebhookTarget::Url(_) => None,
            WebhookTarget::Service { namespace, name, port, .. } => {
                let unresolved = |error| CallError::without_response(format!("Post \"{url}\": {error}"));
                Some(service_resolver::resolve(cluster, namespace, name, *port).map_err(unresolved)?)
            }
        };
        let request = Request::post(url)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "kube-apiserver-admission")
            .body(body.clone())
            .map_err(|error| CallError::without_response(error.to_string()))?;
        let limits = CallLimits { timeout: ATTEMPT_TIMEOUT, max_body_bytes: limit };
        let response = client.send_to(route.as_ref(), request, limits).await;
        let response = response.map_err(|error| CallError::without_response(transport_error_message(&error)))?;
        match retry_after(response.status(), response.headers()) {
            Some(delay) if retries_left > 0 => {
                retries_left -= 1;
                cluster.sleep(delay).await;
            }
            _ => return read_body(response).map_err(|message| CallError { message, has_response: true }),
        }
    }
}

/// The delay that a busy webhook asks for.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let seconds = headers.get(RETRY_AFTER).filter(|_| busy)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The message for a failed request.
fn transport_error_message(error: &pintle_outbound::RequestError) -> String {
    if error.is_body_error() {
        return format!("unexpected error when reading response body. Please retry. Original error: {error}");
    }
    error.to_string()
}

/// Returns the body of a successful response.
fn read_body(response: http::Response<BoundedBody>) -> Result<Bytes, String> {
    let (head, body) = response.into_parts();
    let status = head.status.as_u16();
    let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.filter(|text| !text.is_empty());
    let essence = media_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if essence.as_ref().is_some_and(|essence| essence.matches('/').count() > 1) {
        return Err("Internal error occurred: mime: unexpected content after media subtype".to_owned());
    }
    if !(200..=206).contains(&status) {
        let text = essence.is_none_or(|essence| essence.starts_with("text/"));
        return Err(error_message(head.status, &body.bytes, text));
    }
    if body.truncated {
        return Err("the response is too large".to_owned());
    }
    if body.bytes.is_empty() {
        let media_type = media_type.unwrap_or("application/json");
        return Err(format!("0-length response with status code: {status} and content type: {media_type}"));
    }
    Ok(body.bytes)
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
    fn url_paths_are_cleaned() {
        let check = |target: WebhookTarget, expect: &str| {
            assert_eq!(url(&WebhookClientConfig { target, authorities: Vec::new() }), expect);
        };
        for (given, expect) in [
            ("https://a", "https://a/?timeout=30s"),
            ("https://a/", "https://a/?timeout=30s"),
            ("https://a:1//b/./c/../d/", "https://a:1/b/d?timeout=30s"),
            ("https://[::1]:8443/b", "https://[::1]:8443/b?timeout=30s"),
        ] {
            check(WebhookTarget::Url(given.into()), expect);
        }
        let (namespace, name, path) = ("n".into(), "s".into(), "/p/".into());
        check(WebhookTarget::Service { namespace, name, port: 8443, path }, "https://s.n.svc:8443/p?timeout=30s");
    }
}
