//! Calls of webhooks that decide about requests: with a kubeconfig, a time limit, and retries (upstream:
//! `apiserver/pkg/util/webhook`).

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use pintle_outbound::{CallLimits, Dialer, ErrorCause, RequestError};

use super::{KubeconfigClient, KubeconfigError, clean_url, read_body, retry_after, transport_error_message};
use crate::cluster::Cluster;
use crate::http::random_share;

/// The delay before the first retry, and its growth (upstream: `DefaultRetryBackoff`).
const FIRST_DELAY: Duration = Duration::from_millis(500);
const DELAY_FACTOR: f64 = 1.5;
/// The share of a delay that is added at random.
const JITTER: f64 = 0.2;
/// Maximum number of attempts.
const MAX_ATTEMPTS: usize = 5;
/// Maximum number of retries of one attempt when the webhook responds with `Retry-After`.
const MAX_RETRIES_AFTER: usize = 10;
/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 3 << 20;

/// A webhook that answers reviews.
pub(crate) struct ReviewClient {
    client: KubeconfigClient,
    url: String,
    timeout: Duration,
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
        let client = KubeconfigClient::load(kubeconfig, dialer)?;
        Ok(Self { url: clean_url(client.server(), timeout), client, timeout, first_delay: FIRST_DELAY })
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
        let mut delay = self.first_delay;
        let mut attempts = 1;
        loop {
            let mut attempt = Attempt { report, started: Instant::now(), result: "canceled" };
            let result = self.attempt(cluster, &review, self.timeout.min(left())).await;
            let result = result.and_then(|body| decode(&body).map_err(CallError::permanent));
            attempt.result = result.as_ref().map_or_else(|error| error.result, |_| "success");
            drop(attempt);
            match result {
                Err(error) if error.is_transient && attempts < MAX_ATTEMPTS => {
                    let pause = delay.mul_f64(1.0 + JITTER * random_share());
                    cluster.sleep(pause.min(left())).await;
                    if left().is_zero() {
                        return Err(error);
                    }
                    delay = delay.mul_f64(DELAY_FACTOR);
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    /// Posts a review, and posts it again as long as the webhook asks for a retry. As in upstream, the time limit
    /// applies to all these requests and the delays between them.
    async fn attempt(&self, cluster: &Cluster, review: &Bytes, timeout: Duration) -> Result<Bytes, CallError> {
        let started = Instant::now();
        let left = || timeout.saturating_sub(started.elapsed());
        let mut retries_left = MAX_RETRIES_AFTER;
        loop {
            let request = Request::post(&self.url)
                .header(ACCEPT, "application/json, */*")
                .header(CONTENT_TYPE, "application/json")
                .header(USER_AGENT, "kube-apiserver")
                .body(review.clone())
                .map_err(|error| CallError::permanent(error.to_string()))?;
            let limits = CallLimits { timeout: left(), max_body_bytes: MAX_RESPONSE_BYTES };
            let response = self.client.send(request, limits).await;
            let response = response.map_err(|error| CallError::of_transport(&error))?;
            let status = response.status();
            match retry_after(status, response.headers(), left()) {
                Some(delay) if retries_left > 0 => {
                    retries_left -= 1;
                    cluster.sleep(delay).await;
                }
                _ => return read_body(response).map_err(|message| CallError::of_status(status, message)),
            }
        }
    }
}
