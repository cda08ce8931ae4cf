//! Calls to webhooks (upstream: apiserver's `pkg/util/webhook` on top of client-go's `rest`, whose error messages
//! clients see). Each webhook has its own client, which keeps its connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use pintle_outbound::{CallLimits, Client};
use pintle_registry::{WebhookClientConfig, WebhookTarget};

use super::service_resolver;
use crate::cluster::Cluster;
use crate::webhook::{clean_url, read_body, retry_after, transport_error_message};

/// Time limit for a call including retries.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the network in one attempt. It does not depend on the cluster's clock.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of retries when the webhook responds with `Retry-After`.
const MAX_RETRIES: usize = 10;
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
    let url = clean_url(&config.url(), TOTAL_TIMEOUT);
    tokio::select! {
        biased;
        () = cluster.sleep(TOTAL_TIMEOUT) => Err(CallError::without_response(format!(
            "Post \"{url}\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        ))),
        response = post_with_retries(cluster, &client, config, &url, body, limit) => response,
    }
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
        match retry_after(response.status(), response.headers(), TOTAL_TIMEOUT) {
            Some(delay) if retries_left > 0 => {
                retries_left -= 1;
                cluster.sleep(delay).await;
            }
            _ => return read_body(response).map_err(|message| CallError { message, has_response: true }),
        }
    }
}
