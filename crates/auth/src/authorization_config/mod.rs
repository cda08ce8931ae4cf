//! The structured configuration of the authorizer chain, `AuthorizationConfiguration` (upstream:
//! `apiserver/pkg/apis/apiserver`, `pkg/kubeapiserver/authorizer/config.go`).
//!
//! - `decode`: reads a file strictly and sets defaults.
//! - `validate`: upstream's rules.
//! - `match_conditions`: the CEL expressions that select the requests of a webhook.

mod decode;
mod match_conditions;
mod validate;

use pintle_value::Str;
use pintle_value::time::Duration;

pub use decode::load;
pub use match_conditions::{MatchConditions, MatchError};
pub use validate::{AUTHORIZER_TYPES, FileCheck, built_in_name};

/// A chain of authorizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationConfiguration {
    /// The authorizers, in order.
    pub authorizers: Vec<AuthorizerConfig>,
}

impl AuthorizationConfiguration {
    /// True if a decision may have to wait for the answer of a webhook.
    #[must_use]
    pub fn asks_webhooks(&self) -> bool {
        self.authorizers.iter().any(|authorizer| authorizer.webhook.is_some())
    }
}

/// An authorizer of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizerConfig {
    /// The type: one of [`AUTHORIZER_TYPES`].
    pub kind: Str,
    /// The name, which metrics show.
    pub name: Str,
    /// The webhook, for the type `Webhook`.
    pub webhook: Option<AuthorizationWebhook>,
}

/// A webhook that authorizes requests (`WebhookConfiguration`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationWebhook {
    /// How long allowed requests are cached.
    pub authorized_ttl: Duration,
    /// Whether allowed requests are cached.
    pub cache_authorized: bool,
    /// How long other requests are cached.
    pub unauthorized_ttl: Duration,
    /// Whether other requests are cached.
    pub cache_unauthorized: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// The version of `SubjectAccessReview` to send: `v1` or `v1beta1`.
    pub review_version: Str,
    /// The version of `SubjectAccessReview` that the match conditions see: `v1`, or empty without conditions.
    pub match_condition_version: Str,
    /// The effect of a failed call: `NoOpinion` or `Deny`.
    pub failure_policy: Str,
    /// How the webhook is found: `KubeConfigFile` or `InClusterConfig`.
    pub connection_type: Str,
    /// The kubeconfig file.
    pub kubeconfig_file: Option<Str>,
    /// The CEL expressions that select requests. The webhook is called if all expressions are true.
    pub match_conditions: Vec<Str>,
}
