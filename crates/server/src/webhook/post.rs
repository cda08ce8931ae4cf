//! Calls of the webhooks that API objects configure (upstream: apiserver's `pkg/util/webhook` on top of client-go's
//! `rest`, whose error messages clients see). Each webhook has its own client, which keeps its connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use pintle_outbound::{BoundedBody, CallLimits, Client, DialAddress, ErrorCause, RequestError};
use pintle_registry::{WebhookClientConfig, WebhookTarget};

use super::{KubeconfigClient, clean_url, read_body, retry_after, transport_error_message};
use crate::cluster::{Cluster, service_resolver};

/// Maximum number of retries when the webhook responds with `Retry-After`.
const MAX_RETRIES: usize = 10;
/// The factor between the time limit of a call and the time limit of its network operations. The network limit does not
/// depend on the cluster's clock.
const NETWORK_TIMEOUT_FACTOR: u32 = 2;

/// The reason why a call ends after its time limit (Go: the timeout of a client, or a context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeoutSource {
    /// The timeout of the client that makes the call.
    Client,
    /// The deadline of the request to which the call belongs.
    Context,
}

impl TimeoutSource {
    fn message(self) -> &'static str {
        match self {
            Self::Client => "net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            Self::Context => "context deadline exceeded",
        }
    }
}

/// The client of a webhook.
#[derive(Clone)]
pub(crate) enum WebhookClient {
    /// A client without credentials.
    Anonymous(Client),
    /// A client with the credentials of a kubeconfig's user.
    User(Arc<KubeconfigClient>),
}

impl WebhookClient {
    async fn send_to(
        &self,
        address: Option<&DialAddress>,
        request: Request<Bytes>,
        limits: CallLimits,
    ) -> Result<http::Response<BoundedBody>, RequestError> {
        match self {
            Self::Anonymous(client) => client.send_to(address, request, limits).await,
            Self::User(client) => client.send_to(address, request, limits).await,
        }
    }
}

/// The error of a call.
pub(crate) struct PostError {
    /// Upstream's message.
    pub(crate) message: String,
    /// The status of the response, if there is one.
    pub(crate) status: Option<StatusCode>,
    /// True if the certificate of the webhook lacks subject alternative names.
    pub(crate) lacks_san: bool,
}

impl PostError {
    pub(crate) fn without_response(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: None, lacks_san: false }
    }
}

/// A request that posts JSON to a webhook.
pub(crate) struct Post<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) client: &'a WebhookClient,
    pub(crate) config: &'a WebhookClientConfig,
    /// The time limit, including retries.
    pub(crate) timeout: Duration,
    pub(crate) timeout_source: TimeoutSource,
    /// Maximum size of the response, in bytes.
    pub(crate) limit: usize,
}

impl Post<'_> {
    /// Sends the request. Returns the body of a successful response.
    ///
    /// # Errors
    /// Returns upstream's message if there is no response, or if the response is not successful.
    pub(crate) async fn send(&self, body: Bytes) -> Result<Bytes, PostError> {
        // The webhook learns its time limit in whole seconds.
        let seconds = self.timeout.as_secs() + u64::from(self.timeout.subsec_nanos() > 0);
        let url = clean_url(&self.config.url(), Duration::from_secs(seconds));
        tokio::select! {
            biased;
            () = self.cluster.sleep(self.timeout) => Err(self.timed_out(&url)),
            response = self.send_with_retries(&url, body) => response,
        }
    }

    fn timed_out(&self, url: &str) -> PostError {
        PostError::without_response(format!("Post \"{url}\": {}", self.timeout_source.message()))
    }

    /// Sends the request until the response does not ask for a retry.
    async fn send_with_retries(&self, url: &str, body: Bytes) -> Result<Bytes, PostError> {
        let mut retries_left = MAX_RETRIES;
        loop {
            let route = match &self.config.target {
                WebhookTarget::Url(_) => None,
                WebhookTarget::Service { namespace, name, port, .. } => {
                    let unresolved = |error| PostError::without_response(format!("Post \"{url}\": {error}"));
                    Some(service_resolver::resolve_webhook(self.cluster, namespace, name, *port).map_err(unresolved)?)
                }
            };
            let request = Request::post(url)
                .header(ACCEPT, "application/json, */*")
                .header(CONTENT_TYPE, "application/json")
                .header(USER_AGENT, "kube-apiserver-admission")
                .body(body.clone())
                .map_err(|error| PostError::without_response(error.to_string()))?;
            let limits = CallLimits { timeout: self.timeout * NETWORK_TIMEOUT_FACTOR, max_body_bytes: self.limit };
            let response = self.client.send_to(route.as_ref(), request, limits).await;
            let response = response.map_err(|error| match error.cause {
                ErrorCause::HeadTimeout | ErrorCause::BodyTimeout => self.timed_out(url),
                _ => PostError {
                    lacks_san: error.cause.relies_on_common_name(),
                    ..PostError::without_response(transport_error_message(&error))
                },
            })?;
            let status = response.status();
            match retry_after(status, response.headers(), self.timeout) {
                Some(delay) if retries_left > 0 => {
                    retries_left -= 1;
                    self.cluster.sleep(delay).await;
                }
                _ => {
                    let failed =
                        |message: String| PostError { status: Some(status), ..PostError::without_response(message) };
                    return read_body(response).map_err(failed);
                }
            }
        }
    }
}
