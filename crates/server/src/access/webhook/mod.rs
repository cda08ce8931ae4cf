//! The webhook authorizer: asks another server with a `SubjectAccessReview` (upstream: `plugin/pkg/authorizer/webhook`).

mod cache;
mod review;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use pintle_auth::authorization_config::{AuthorizationWebhook, MatchConditions};
use pintle_auth::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, Decision, RulesReview, UserInfo};
use pintle_codec::json;
use pintle_outbound::{CallLimits, ErrorCause, RequestError};
use pintle_value::{FieldPath, Str, Value};

use self::cache::ReviewCache;
use self::review::{ReviewStatus, ReviewVersion};
use crate::cluster::{Cluster, MatchOutcome};
use crate::http::random_share;
use crate::webhook::{KubeconfigClient, clean_url, read_body, retry_after, transport_error_message};

/// A request whose attributes have this size in bytes or more is not cached, so that clients cannot fill the memory.
const MAX_CACHED_ATTRIBUTES: usize = 10_000;
/// The waiting time before the first retry, and how it grows (upstream: `DefaultRetryBackoff`).
const FIRST_DELAY: Duration = Duration::from_millis(500);
const DELAY_FACTOR: f64 = 1.5;
/// The share of a delay that is added at random.
const JITTER: f64 = 0.2;
/// Maximum number of attempts.
const MAX_ATTEMPTS: usize = 5;
/// Maximum number of retries of one attempt when the webhook responds with `Retry-After`.
const MAX_RETRIES_AFTER: usize = 10;
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 3 << 20;

/// Decides by asking a webhook.
pub struct WebhookAuthorizer {
    cluster: Arc<Cluster>,
    /// The name in metrics.
    name: Str,
    client: KubeconfigClient,
    url: String,
    version: ReviewVersion,
    timeout: Duration,
    /// How long answers are cached, in milliseconds.
    authorized_ttl: u64,
    unauthorized_ttl: u64,
    decision_on_error: Decision,
    conditions: MatchConditions,
    cache: ReviewCache,
}

/// Why a call failed.
struct CallError {
    message: String,
    /// Whether the call can succeed later.
    is_transient: bool,
    /// The result in metrics.
    result: &'static str,
}

impl CallError {
    fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: false, result: "error" }
    }

    /// An error before the response was there.
    fn of_transport(error: &RequestError) -> Self {
        let message = transport_error_message(error);
        let is_timeout = matches!(error.cause, ErrorCause::HeadTimeout | ErrorCause::BodyTimeout);
        let is_transient = message.ends_with("connection reset by peer");
        Self { message, is_transient, result: if is_timeout { "timeout" } else { "error" } }
    }

    /// An error response. As upstream, internal errors, timeouts and 429 are transient, and 503 is not.
    fn of_status(status: StatusCode, message: String) -> Self {
        let is_timeout = status == StatusCode::GATEWAY_TIMEOUT;
        let is_internal = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
        let is_transient = is_timeout || is_internal || status == StatusCode::TOO_MANY_REQUESTS;
        Self { message, is_transient, result: if is_timeout { "timeout" } else { "error" } }
    }
}

impl WebhookAuthorizer {
    /// Creates the authorizer of a valid configuration.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or the configuration is not valid after all.
    pub fn new(cluster: &Arc<Cluster>, name: &str, webhook: &AuthorizationWebhook) -> Result<Self, String> {
        let version = ReviewVersion::parse(&webhook.review_version)?;
        let decision_on_error = match &*webhook.failure_policy {
            "NoOpinion" => Decision::NoOpinion,
            "Deny" => Decision::Deny,
            policy => return Err(format!("unknown failurePolicy {policy:?}")),
        };
        let Some(file) = webhook.kubeconfig_file.as_deref() else {
            return Err("the connection type InClusterConfig is not allowed for kube-apiserver".to_owned());
        };
        let client = KubeconfigClient::load(Path::new(file)).map_err(|error| error.to_string())?;
        let (conditions, errors) = MatchConditions::compile(&FieldPath::new(""), &webhook.match_conditions);
        if !errors.is_empty() {
            return Err(errors.message());
        }
        let nanos = |duration: pintle_value::time::Duration| u64::try_from(duration.0).unwrap_or_default();
        let ttl = |cached: bool, duration| if cached { nanos(duration) / 1_000_000 } else { 0 };
        let timeout = Duration::from_nanos(nanos(webhook.timeout));
        Ok(Self {
            cluster: cluster.clone(),
            name: name.into(),
            url: clean_url(&client.server, timeout),
            client,
            version,
            timeout,
            authorized_ttl: ttl(webhook.cache_authorized, webhook.authorized_ttl),
            unauthorized_ttl: ttl(webhook.cache_unauthorized, webhook.unauthorized_ttl),
            decision_on_error,
            conditions,
            cache: ReviewCache::default(),
        })
    }

    fn cached(&self, key: &[u8]) -> Option<Authorization> {
        self.cache.get(key, self.cluster.clock.now().0).map(|status| status.authorization())
    }

    /// Returns whether the match conditions select a request.
    fn matches(&self, spec: &Value) -> Result<bool, String> {
        let started = Instant::now();
        let matched = self.conditions.matches(spec);
        let outcome = match matched {
            Ok(true) => MatchOutcome::Matched,
            Ok(false) => MatchOutcome::Excluded,
            Err(_) => MatchOutcome::Failed,
        };
        self.cluster.metrics.authorization().record_match(&self.name, outcome, started.elapsed());
        matched.map_err(|error| error.to_string())
    }

    fn failed(&self, error: String) -> Authorization {
        Authorization { decision: self.decision_on_error, error: Some(error), ..Authorization::NO_OPINION }
    }

    /// Decides a request whose answer is not known.
    async fn ask(&self, spec: Value, key: Vec<u8>, attributes: &AuthorizationAttributes<'_>) -> Authorization {
        if !self.conditions.is_empty() {
            match self.matches(&spec) {
                Ok(true) => {}
                Ok(false) => return Authorization::NO_OPINION,
                Err(error) => return self.failed(error),
            }
            if let Some(authorization) = self.cached(&key) {
                return authorization;
            }
        }
        match self.call_with_backoff(&spec).await {
            Ok(status) => {
                let ttl = if status.allowed { self.authorized_ttl } else { self.unauthorized_ttl };
                let now = self.cluster.clock.now().0;
                if ttl > 0 && size(attributes) < MAX_CACHED_ATTRIBUTES {
                    self.cache.insert(key, status.clone(), now, now.saturating_add(ttl));
                }
                status.authorization()
            }
            Err(error) => {
                tracing::error!(
                    webhook = &*self.name,
                    error = error.message,
                    "Failed to make webhook authorizer request"
                );
                if self.decision_on_error == Decision::NoOpinion {
                    self.cluster.metrics.authorization().record_fail_open(&self.name, error.result);
                }
                self.failed(error.message)
            }
        }
    }

    /// Calls the webhook until it answers, or fails for good.
    async fn call_with_backoff(&self, spec: &Value) -> Result<ReviewStatus, CallError> {
        let body = bytes::Bytes::from(review::encode(self.version, spec));
        let mut delay = FIRST_DELAY;
        let mut attempt = 1;
        loop {
            let mut measured = MeasuredCall { authorizer: self, started: Instant::now(), result: "canceled" };
            let result = self.call(body.clone()).await;
            measured.result = result.as_ref().map_or_else(|error| error.result, |_| "success");
            drop(measured);
            match result {
                Err(error) if error.is_transient && attempt < MAX_ATTEMPTS => {
                    self.cluster.sleep(delay.mul_f64(1.0 + JITTER * random_share())).await;
                    delay = delay.mul_f64(DELAY_FACTOR);
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Calls the webhook, and again as long as it asks for that.
    async fn call(&self, body: bytes::Bytes) -> Result<ReviewStatus, CallError> {
        let mut retries_left = MAX_RETRIES_AFTER;
        loop {
            let mut request = Request::post(&self.url)
                .header(ACCEPT, "application/json, */*")
                .header(CONTENT_TYPE, "application/json")
                .header(USER_AGENT, "kube-apiserver");
            if let Some(authorization) = self.client.authorization() {
                request = request.header(AUTHORIZATION, authorization);
            }
            let request = request.body(body.clone()).map_err(|error| CallError::permanent(error.to_string()))?;
            let limits = CallLimits { timeout: self.timeout, max_body_bytes: MAX_RESPONSE_BYTES };
            let response = self.client.client.send(request, limits).await;
            let response = response.map_err(|error| CallError::of_transport(&error))?;
            let status = response.status();
            match retry_after(status, response.headers()) {
                Some(delay) if retries_left > 0 => {
                    retries_left -= 1;
                    self.cluster.sleep(delay).await;
                }
                _ => {
                    let body = read_body(response).map_err(|message| CallError::of_status(status, message))?;
                    return review::decode(self.version, &body).map_err(CallError::permanent);
                }
            }
        }
    }
}

/// A call in progress. It is recorded when it ends, and as canceled if its request ends before it.
struct MeasuredCall<'a> {
    authorizer: &'a WebhookAuthorizer,
    started: Instant,
    result: &'static str,
}

impl Drop for MeasuredCall<'_> {
    fn drop(&mut self) {
        let WebhookAuthorizer { cluster, name, .. } = self.authorizer;
        cluster.metrics.authorization().record_call(name, self.result, self.started.elapsed());
    }
}

/// The size of what a client can choose, in bytes.
fn size(attributes: &AuthorizationAttributes<'_>) -> usize {
    let AuthorizationAttributes { verb, group, version, resource, subresource, namespace, name, path, .. } =
        *attributes;
    [namespace, verb, group, version, resource, subresource, name, path].iter().map(|text| text.len()).sum()
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        let spec = review::spec(user, attributes);
        let key = json::encode(&spec);
        // Match conditions come first, because their metrics count every request.
        if self.conditions.is_empty()
            && let Some(authorization) = self.cached(&key)
        {
            return AuthFuture::ready(authorization);
        }
        AuthFuture::boxed(self.ask(spec, key, attributes))
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        let error = Some("webhook authorizer does not support user rule resolution".to_owned());
        AuthFuture::ready(RulesReview { incomplete: true, error, ..RulesReview::default() })
    }
}
