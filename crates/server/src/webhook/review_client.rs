//! Calls of webhooks that decide about requests: a call that fails for a while is repeated (upstream:
//! `apiserver/pkg/util/webhook`).

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use pintle_outbound::{Dialer, ErrorCause, RequestError};

use super::kubeconfig_webhook::{Backoff, KubeconfigWebhook};
use super::{KubeconfigError, read_body, transport_error_message};
use crate::cluster::Cluster;

/// The delay before the first retry (upstream: `DefaultRetryBackoff`).
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// A webhook that answers reviews.
pub(crate) struct ReviewClient {
    webhook: KubeconfigWebhook,
    first_delay: Duration,
}

/// The error of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// Upstream's message.
    pub(crate) message: String,
    /// The result in metrics: `timeout` or `error`.
    pub(crate) result: &'static str,
    /// Whether a later call can succeed.
    is_transient: bool,
}

impl CallError {
    fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: false, result: "error" }
    }

    /// An error that occurred before the response arrived.
    fn of_transport(error: &RequestError) -> Self {
        let message = transport_error_message(error);
        let is_timeout = matches!(error.cause, ErrorCause::HeadTimeout | ErrorCause::BodyTimeout);
        let is_transient =
            message.ends_with("connection reset by peer") || message.ends_with("http2: client connection lost");
        Self { message, is_transient, result: if is_timeout { "timeout" } else { "error" } }
    }

    /// An error response. As in upstream, internal errors, timeouts and 429 are transient, and 503 is not.
    fn of_status(status: StatusCode, message: String) -> Self {
        let is_timeout = status == StatusCode::GATEWAY_TIMEOUT;
        let is_internal = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
        let is_transient = is_timeout || is_internal || status == StatusCode::TOO_MANY_REQUESTS;
        Self { message, is_transient, result: if is_timeout { "timeout" } else { "error" } }
    }
}

/// An attempt in progress. It is reported when it ends, or as canceled if its request ends first.
struct Attempt<'a> {
    report: &'a (dyn Fn(&'static str, Duration) + Sync),
    started: Instant,
    result: &'static str,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        (self.report)(self.result, self.started.elapsed());
    }
}

impl ReviewClient {
    /// A client from a kubeconfig file, with a time limit for each attempt.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn load(kubeconfig: &Path, timeout: Duration, dialer: Dialer) -> Result<Self, KubeconfigError> {
        Ok(Self { webhook: KubeconfigWebhook::load(kubeconfig, timeout, dialer)?, first_delay: FIRST_DELAY })
    }

    /// The same client with another delay before the first retry.
    pub(crate) fn with_first_delay(self, first_delay: Duration) -> Self {
        Self { first_delay, ..self }
    }

    /// Posts a review until the webhook answers, the call fails permanently, or the deadline has passed. Each attempt
    /// is reported with its result and its duration.
    ///
    /// # Errors
    /// The webhook cannot be reached, responds with an error, or its answer cannot be decoded.
    pub(crate) async fn post<T>(
        &self,
        cluster: &Cluster,
        review: Bytes,
        deadline: Option<Instant>,
        decode: impl Fn(&[u8]) -> Result<T, String>,
        report: &(dyn Fn(&'static str, Duration) + Sync),
    ) -> Result<T, CallError> {
        let left = || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let mut delays = Backoff::new(self.first_delay);
        loop {
            let mut attempt = Attempt { report, started: Instant::now(), result: "canceled" };
            let result = self.attempt(cluster, &review, left()).await;
            let result = result.and_then(|body| decode(&body).map_err(CallError::permanent));
            attempt.result = result.as_ref().map_or_else(|error| error.result, |_| "success");
            drop(attempt);
            let Err(error) = result else { return result };
            let Some(delay) = delays.next().filter(|_| error.is_transient) else { return Err(error) };
            cluster.sleep(delay.min(left())).await;
            if left().is_zero() {
                return Err(error);
            }
        }
    }

    async fn attempt(&self, cluster: &Cluster, review: &Bytes, left: Duration) -> Result<Bytes, CallError> {
        let response = self.webhook.post(&*cluster.clock, review, left).await;
        let response = response.map_err(|error| CallError::of_transport(&error))?;
        let status = response.status();
        read_body(response).map_err(|message| CallError::of_status(status, message))
    }
}
