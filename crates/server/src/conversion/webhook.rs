//! Calls to webhooks (upstream: apiserver's `pkg/util/webhook`, on top of client-go's `rest`, whose words for what goes
//! wrong clients see). Each webhook has a client of its own, which keeps its connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode};
use pintle_codec::json;
use pintle_outbound::{Body, Cause, Client, Limits};
use pintle_registry::{WebhookClientConfig, WebhookTarget};
use pintle_value::field::quote;

use super::service_resolver;
use crate::cluster::Cluster;

/// How long a webhook may take, all tries together.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the network may take for one try, whatever the cluster's clock says.
const LONGEST: Duration = Duration::from_secs(60);
/// How often a webhook that asks for it is asked again.
const TRIES: usize = 10;
/// How much of an answer that is none is told.
const TOLD: usize = 2048;

/// A call that came to nothing.
pub(super) struct CallError {
    /// Why, in upstream's words.
    pub(super) why: String,
    /// True if there was an answer, though none that says that all is well.
    pub(super) heard: bool,
}

impl CallError {
    fn unheard(why: impl Into<String>) -> Self {
        Self { why: why.into(), heard: false }
    }
}

/// Posts JSON to a webhook. Returns the body of its answer, of which at most `limit` bytes are read.
///
/// # Errors
/// There is no answer, or none of success; with upstream's message.
pub(super) async fn post(
    cluster: &Arc<Cluster>,
    config: &WebhookClientConfig,
    body: Bytes,
    limit: usize,
) -> Result<Bytes, CallError> {
    let client = cluster.webhook_clients.get(config).map_err(CallError::unheard)?;
    let url = url(config);
    tokio::select! {
        biased;
        () = cluster.sleep(PATIENCE) => Err(CallError::unheard(format!(
            "Post \"{url}\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        ))),
        answer = tries(cluster, &client, config, &url, body, limit) => answer,
    }
}

/// The URL as requests have it: its path is cleaned, and the time that there is stands in its query.
fn url(webhook: &WebhookClientConfig) -> String {
    let url = webhook.url();
    let start = url.find("://").map_or(0, |at| at + 3);
    let (authority, path) = url.split_at(url[start..].find('/').map_or(url.len(), |at| start + at));
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("{authority}/{}?timeout={}s", steps.join("/"), PATIENCE.as_secs())
}

/// Asks until there is an answer that does not put us off.
async fn tries(
    cluster: &Arc<Cluster>,
    client: &Client,
    webhook: &WebhookClientConfig,
    url: &str,
    body: Bytes,
    limit: usize,
) -> Result<Bytes, CallError> {
    let mut left = TRIES;
    loop {
        let route = match &webhook.target {
            WebhookTarget::Url(_) => None,
            WebhookTarget::Service { namespace, name, port, .. } => {
                let unknown = |error| CallError::unheard(format!("Post \"{url}\": {error}"));
                Some(service_resolver::route(cluster, namespace, name, *port).map_err(unknown)?)
            }
        };
        let request = Request::post(url)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "kube-apiserver-admission")
            .body(body.clone())
            .map_err(|error| CallError::unheard(error.to_string()))?;
        let limits = Limits { time: LONGEST, body: limit };
        let answer = client.send_by(request, route.as_ref(), limits).await;
        let answer = answer.map_err(|error| CallError::unheard(told(&error)))?;
        match put_off(answer.status(), answer.headers()) {
            Some(pause) if left > 0 => {
                left -= 1;
                cluster.sleep(pause).await;
            }
            _ => return taken(answer).map_err(|why| CallError { why, heard: true }),
        }
    }
}

/// How long a webhook that cannot answer now wants to be left alone.
fn put_off(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let seconds = headers.get(RETRY_AFTER).filter(|_| busy)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A call that came to nothing.
fn told(error: &pintle_outbound::Error) -> String {
    match &error.cause {
        cause @ (Cause::Body(_) | Cause::NoEnd) => {
            format!("unexpected error when reading response body. Please retry. Original error: {cause}")
        }
        _ => error.to_string(),
    }
}

/// The body of an answer, if that says that all is well.
fn taken(answer: http::Response<Body>) -> Result<Bytes, String> {
    let (head, body) = answer.into_parts();
    let status = head.status.as_u16();
    let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.filter(|text| !text.is_empty());
    let essence = media_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if essence.as_ref().is_some_and(|essence| essence.matches('/').count() > 1) {
        return Err("Internal error occurred: mime: unexpected content after media subtype".to_owned());
    }
    if !(200..=206).contains(&status) {
        let text = essence.is_none_or(|essence| essence.starts_with("text/"));
        return Err(refusal(head.status, &body.bytes, text));
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

/// What is said of an answer that is an error (upstream: apimachinery's `NewGenericServerResponse`): its own words, where
/// it is a `Status`.
fn refusal(status: StatusCode, body: &[u8], is_text: bool) -> String {
    if let Ok(decoded) = json::decode(body, json::DecodeOptions::default())
        && decoded.value.kind() == "Status"
        && matches!(decoded.value.api_version(), "" | "v1")
        && decoded.value.str_at(&["status"]) == "Failure"
    {
        return decoded.value.str_at(&["message"]).to_owned();
    }
    let said = if is_text {
        String::from_utf8_lossy(&body[..body.len().min(TOLD)]).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    let words = match status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if said == "unknown" => "the server was unable to respond with a content type that the client supports",
        406 => return said,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!("an error on the server ({}) has prevented the request from succeeding", quote(&said));
        }
        code => {
            return format!("the server responded with the status code {code} but did not return more information");
        }
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_cleaned() {
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
