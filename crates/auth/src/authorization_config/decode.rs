//! Reads an `AuthorizationConfiguration` of any version and sets defaults (upstream: `apis/apiserver/load`, the defaults
//! of `apis/apiserver/v1`).

use std::sync::LazyLock;

use pintle_schema::Scalar;
use pintle_value::time::Duration;
use pintle_value::{Str, Value};

use super::validate::{FileCheck, validate};
use super::{AuthorizationConfiguration, AuthorizationWebhook, AuthorizerConfig};
use crate::config_file::{ConfigFileError, ConfigScheme, ConfigTypes};

const KIND: &str = "AuthorizationConfiguration";
/// Upstream's default of `authorizedTTL` and `unauthorizedTTL`, in seconds.
const DEFAULT_AUTHORIZED_TTL: i64 = 300;
const DEFAULT_UNAUTHORIZED_TTL: i64 = 30;

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, flag) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool));
    let duration = types.scalar(Scalar::Duration);
    let mut kinds = Vec::new();
    for (version, package) in [
        ("apiserver.config.k8s.io/v1alpha1", "v1alpha1"),
        ("apiserver.config.k8s.io/v1beta1", "v1beta1"),
        ("apiserver.config.k8s.io/v1", "v1"),
    ] {
        let name = |name: &str| format!("{package}.{name}");
        let connection = types.object(&name("WebhookConnectionInfo"), &[("type", text), ("*kubeConfigFile", text)]);
        let condition = types.object(&name("WebhookMatchCondition"), &[("expression", text)]);
        let conditions = types.list(condition);
        let webhook = types.object(
            &name("WebhookConfiguration"),
            &[
                ("authorizedTTL", duration),
                ("*cacheAuthorizedRequests", flag),
                ("unauthorizedTTL", duration),
                ("*cacheUnauthorizedRequests", flag),
                ("timeout", duration),
                ("subjectAccessReviewVersion", text),
                ("matchConditionSubjectAccessReviewVersion", text),
                ("failurePolicy", text),
                ("connectionInfo", connection),
                ("matchConditions", conditions),
            ],
        );
        let authorizer =
            types.object(&name("AuthorizerConfiguration"), &[("type", text), ("name", text), ("*webhook", webhook)]);
        let authorizers = types.list(authorizer);
        let fields = [("kind", text), ("apiVersion", text), ("authorizers", authorizers)];
        kinds.push((version, KIND, types.object(&name(KIND), &fields)));
    }
    ConfigScheme { name: "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32", strict: true, types, kinds }
});

/// Decodes and validates the content of a file (`LoadAndValidateData`). The types in `required`, except `Webhook`, must
/// be present, because a reload cannot remove them.
///
/// # Errors
/// Returns upstream's message.
pub fn load(text: &[u8], required: &[Str], files: FileCheck<'_>) -> Result<AuthorizationConfiguration, String> {
    let configuration =
        decode(text).map_err(|error| format!("failed to load AuthorizationConfiguration from file: {error}"))?;
    validate(&configuration, required, files)?;
    Ok(configuration)
}

fn decode(text: &[u8]) -> Result<AuthorizationConfiguration, ConfigFileError> {
    if text.is_empty() {
        return Ok(AuthorizationConfiguration::default());
    }
    let value = SCHEME.decode(text)?.value;
    let authorizers = value.items_at(&["authorizers"]).iter().map(authorizer).collect();
    Ok(AuthorizationConfiguration { authorizers })
}

fn authorizer(value: &Value) -> AuthorizerConfig {
    AuthorizerConfig {
        kind: value.str_at(&["type"]).into(),
        name: value.str_at(&["name"]).into(),
        webhook: value.get("webhook").map(webhook),
    }
}

fn webhook(value: &Value) -> AuthorizationWebhook {
    let text = |path: &[&str]| Str::from(value.str_at(path));
    let duration = |name: &str, default: i64| {
        // The decoder has checked the text. A text that cannot be read is as invalid as a negative duration.
        let text = value.str_at(&[name]);
        let duration = if text.is_empty() { Duration(0) } else { Duration::parse(text).unwrap_or(Duration(-1)) };
        if duration.0 == 0 { Duration::from_seconds(default) } else { duration }
    };
    let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(true);
    let conditions = value.items_at(&["matchConditions"]).iter();
    AuthorizationWebhook {
        authorized_ttl: duration("authorizedTTL", DEFAULT_AUTHORIZED_TTL),
        cache_authorized: flag("cacheAuthorizedRequests"),
        unauthorized_ttl: duration("unauthorizedTTL", DEFAULT_UNAUTHORIZED_TTL),
        cache_unauthorized: flag("cacheUnauthorizedRequests"),
        timeout: duration("timeout", 0),
        review_version: text(&["subjectAccessReviewVersion"]),
        match_condition_version: text(&["matchConditionSubjectAccessReviewVersion"]),
        failure_policy: text(&["failurePolicy"]),
        connection_type: text(&["connectionInfo", "type"]),
        kubeconfig_file: value.at(&["connectionInfo", "kubeConfigFile"]).and_then(Value::as_str).map(Str::from),
        match_conditions: conditions.map(|condition| condition.str_at(&["expression"]).into()).collect(),
    }
}
