//! A webhook that a kubeconfig names, and the delays between the attempts to call it (upstream:
//! `apiserver/pkg/util/webhook`).

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use pintle_outbound::{BoundedBody, CallLimits, Dialer, RequestError};
use pintle_store::Clock;

use super::{KubeconfigClient, KubeconfigError, clean_url, retry_after};
use crate::http::random_share;

/// The growth of the delay between attempts.
const DELAY_FACTOR: f64 = 1.5;
/// The share of a delay that is added at random.
const JITTER: f64 = 0.2;
/// Maximum number of attempts.
const MAX_ATTEMPTS: usize = 5;
/// Maximum number of retries of one attempt when the webhook responds with `Retry-After`.
const MAX_RETRIES_AFTER: usize = 10;
/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 3 << 20;

/// A webhook that takes JSON.
pub(super) struct KubeconfigWebhook {
    client: KubeconfigClient,
    url: http::Uri,
    timeout: Duration,
}

impl KubeconfigWebhook {
    /// A webhook from a kubeconfig file, with a time limit for each attempt.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) fn load(kubeconfig: &Path, timeout: Duration, dialer: Dialer) -> Result<Self, KubeconfigError> {
        let client = KubeconfigClient::load(kubeconfig, dialer)?;
        let url = clean_url(client.server(), timeout).parse().map_err(|error: http::uri::InvalidUri| {
            KubeconfigError::new(format!("parse {}: {error}", client.server()))
        })?;
        Ok(Self { url, client, timeout })
    }

    /// Posts JSON, and posts it again as long as the webhook asks for a retry. As in upstream, the time limit applies to
    /// all these requests and the delays between them. The limit is shorter if less time is left.
    ///
    /// # Errors
    /// The webhook does not respond.
    pub(super) async fn post(
        &self,
        clock: &dyn Clock,
        json: &Bytes,
        left: Duration,
    ) -> Result<Response<BoundedBody>, RequestError> {
        let (timeout, started) = (self.timeout.min(left), Instant::now());
        let left = || timeout.saturating_sub(started.elapsed());
        let mut retries_left = MAX_RETRIES_AFTER;
        loop {
            let mut request = Request::new(json.clone());
            *request.method_mut() = Method::POST;
            request.uri_mut().clone_from(&self.url);
            let headers = request.headers_mut();
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver"));
            let limits = CallLimits { timeout: left(), max_body_bytes: MAX_RESPONSE_BYTES };
            let response = self.client.send(request, limits).await?;
            match retry_after(response.status(), response.headers(), left()) {
                Some(delay) if retries_left > 0 => {
                    retries_left -= 1;
                    clock.sleep(delay).await;
                }
                _ => return Ok(response),
            }
        }
    }
}

/// The delays between attempts. The iterator ends when no further attempt is made.
pub(super) struct Backoff {
    delay: Duration,
    attempts: usize,
}

impl Backoff {
    /// The delays that begin with this one.
    pub(super) fn new(first: Duration) -> Self {
        Self { delay: first, attempts: 1 }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.attempts == MAX_ATTEMPTS {
            return None;
        }
        self.attempts += 1;
        let delay = self.delay.mul_f64(1.0 + JITTER * random_share());
        self.delay = self.delay.mul_f64(DELAY_FACTOR);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_until_the_last_attempt() {
        let delays: Vec<f64> = Backoff::new(Duration::from_secs(10)).map(|delay| delay.as_secs_f64()).collect();
        assert_eq!(delays.len(), 4);
        for (delay, expect) in delays.iter().zip([10.0, 15.0, 22.5, 33.75]) {
            assert!((expect..=expect * 1.2).contains(delay), "{delay} {expect}");
        }
    }
}
