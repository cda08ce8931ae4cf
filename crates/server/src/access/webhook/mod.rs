//! The webhook authorizer: asks another server with a `SubjectAccessReview` (upstream:
//! `plugin/pkg/authorizer/webhook`).

mod review;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_auth::authorization_config::{AuthorizationWebhook, MatchConditions};
use pintle_auth::review::ReviewVersion;
use pintle_auth::{
    AuthFuture, Authorization, AuthorizationAttributes, Authorizer, Decision, ExpiringCache, RulesReview, UserInfo,
};
use pintle_codec::json;
use pintle_value::{FieldPath, Str, Value};

use crate::cluster::{Cluster, MatchOutcome};
use crate::egress::EgressType;
use crate::request::log_limit::{LogLimit, Shortened};
use crate::webhook::ReviewClient;

/// Maximum number of cached answers.
const MAX_CACHED_ANSWERS: usize = 8192;
/// A request whose spec has this size in bytes or more is not cached, so that clients cannot fill the memory. Upstream
/// counts only what comes before the selectors, which may be a hundred times as long.
const MAX_CACHED_SPEC: usize = 10_000;

/// The decision in a webhook's answer, for the fuzz target that checks this decoder.
///
/// # Errors
/// The body is not a review of this version.
pub(crate) fn read_access_review(version: ReviewVersion, body: &[u8]) -> Result<Authorization, String> {
    review::decode(version, body).map(|status| status.authorization())
}

/// Decides by asking a webhook.
pub struct WebhookAuthorizer {
    cluster: Arc<Cluster>,
    /// The name in metrics.
    name: Str,
    client: ReviewClient,
    version: ReviewVersion,
    /// The time for which answers are cached, in milliseconds. Zero disables the cache.
    authorized_ttl: u64,
    unauthorized_ttl: u64,
    decision_on_error: Decision,
    conditions: MatchConditions,
    cache: ExpiringCache<review::ReviewStatus>,
}

impl WebhookAuthorizer {
    /// Creates the authorizer of a valid configuration.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or the configuration is not valid after all.
    pub fn new(cluster: &Arc<Cluster>, name: &str, webhook: &AuthorizationWebhook) -> Result<Self, String> {
        let version = ReviewVersion::parse(&webhook.review_version, "webhook authorizer")?;
        let decision_on_error = match &*webhook.failure_policy {
            "NoOpinion" => Decision::NoOpinion,
            "Deny" => Decision::Deny,
            policy => return Err(format!("unknown failurePolicy {policy:?}")),
        };
        let Some(file) = webhook.kubeconfig_file.as_deref() else {
            return Err("the connection type InClusterConfig is not allowed for kube-apiserver".to_owned());
        };
        let (conditions, errors) = MatchConditions::compile(&FieldPath::new(""), &webhook.match_conditions);
        if !errors.is_empty() {
            return Err(errors.message());
        }
        let nanos = |duration: pintle_value::time::Duration| u64::try_from(duration.0).unwrap_or_default();
        let ttl = |cached: bool, duration| if cached { nanos(duration) / 1_000_000 } else { 0 };
        let timeout = Duration::from_nanos(nanos(webhook.timeout));
        let dialer = cluster.outbound.egress.dialer(EgressType::ControlPlane);
        let client = ReviewClient::load(Path::new(file), timeout, dialer).map_err(|error| error.to_string())?;
        Ok(Self {
            cluster: cluster.clone(),
            name: name.into(),
            client,
            version,
            authorized_ttl: ttl(webhook.cache_authorized, webhook.authorized_ttl),
            unauthorized_ttl: ttl(webhook.cache_unauthorized, webhook.unauthorized_ttl),
            decision_on_error,
            conditions,
            cache: ExpiringCache::new(MAX_CACHED_ANSWERS),
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
    async fn ask(&self, spec: Value, key: Vec<u8>) -> Authorization {
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
        let metrics = self.cluster.metrics.authorization();
        let body = review::encode(self.version, &spec).into();
        let decode = |answer: &[u8]| review::decode(self.version, answer);
        let report = |result, took| metrics.record_call(&self.name, result, took);
        match self.client.post(&self.cluster, body, None, decode, &report).await {
            Ok(status) => {
                let ttl = if status.allowed { self.authorized_ttl } else { self.unauthorized_ttl };
                if ttl > 0 && key.len() < MAX_CACHED_SPEC {
                    self.cache.insert(key, status.clone(), self.cluster.clock.now().0, ttl);
                }
                status.authorization()
            }
            Err(error) => {
                static LIMIT: LogLimit = LogLimit::new();
                if let Some(unlogged) = LIMIT.allow() {
                    tracing::error!(
                        webhook = &*self.name,
                        error = %Shortened(&error.message),
                        unlogged = (unlogged > 0).then_some(unlogged),
                        "Failed to make webhook authorizer request"
                    );
                }
                if self.decision_on_error == Decision::NoOpinion {
                    metrics.record_fail_open(&self.name, error.result);
                }
                self.failed(error.message)
            }
        }
    }
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
        AuthFuture::boxed(self.ask(spec, key))
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        let error = Some("webhook authorizer does not support user rule resolution".to_owned());
        AuthFuture::ready(RulesReview { incomplete: true, error, ..RulesReview::default() })
    }
}
