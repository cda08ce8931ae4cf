//! Tokens of service accounts with which API servers authenticate themselves to admission webhooks (KEP-5793; upstream:
//! `registry/core/serviceaccount/storage/token.go`). Such a token is bound to the configuration of the webhook. The
//! server attests the API group about which its bearer may ask the webhook.

use pintle_auth::service_account::{BoundObject, WebhookConfigurationKind};
use pintle_auth::user::service_account_info;
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_gates::{Change, Feature};
use pintle_registry::{ApiError, GroupResource, WebhookClientConfig, WebhookTarget};
use pintle_value::time::Time;
use pintle_value::{Errors, FieldPath, Str, Value, names};

use crate::access::require;
use crate::context::RequestContext;

/// The longest validity of a token for a webhook, in seconds.
pub(super) const MAX_EXPIRATION_SECONDS: i64 = 10 * 60;

const GROUP: &str = "admissionregistration.k8s.io";
const VERSION: &str = "v1";
/// The attestation that a token for a webhook has. It is also the resource of the access check.
const REVIEW_GROUPS: &str = "admissionReviewAPIGroups";

/// The kind of configurations to which the spec of a request refers.
fn kind(spec: &Value) -> Option<WebhookConfigurationKind> {
    let reference = spec.get("boundObjectRef")?;
    let is_version = reference.str_at(&["apiVersion"]) == format!("{GROUP}/{VERSION}");
    WebhookConfigurationKind::named(reference.str_at(&["kind"])).filter(|_| is_version)
}

/// Validates the audiences and the attestations of a request for a token.
pub(super) fn validate(errors: &mut Errors, spec: &Value) {
    let path = FieldPath::new("spec");
    let attestations: Vec<(&str, &Value)> = spec.entries_at(&["attestations"]).collect();
    let attestations_path = path.child("attestations");
    if kind(spec).is_none() {
        if !attestations.is_empty() {
            let why = "attestations may only be specified with a webhook bound object reference";
            // Upstream forgets the other errors.
            *errors = Errors::new();
            errors.invalid(&attestations_path, by_key(&attestations), why);
        }
        return;
    }
    if spec.items_at(&["audiences"]).len() != 1 {
        let audiences = spec.get("audiences").cloned();
        errors.invalid(&path.child("audiences"), audiences, "must be length 1 when bound to a webhook config");
    }
    match attestations[..] {
        [(key, values)] => validate_attestation(errors, key, values, &attestations_path.key(key)),
        _ => {
            let why = "webhook bound requests require exactly one admissionReviewAPIGroups attestation";
            errors.invalid(&attestations_path, by_key(&attestations), why);
        }
    }
}

/// Attestations in the order of their keys. None of them is null.
fn by_key(attestations: &[(&str, &Value)]) -> Value {
    if attestations.is_empty() {
        return Value::Null;
    }
    let mut sorted = attestations.to_vec();
    sorted.sort_by_key(|(key, _)| *key);
    Value::Object(sorted.into_iter().map(|(key, values)| (key, values.clone())).collect())
}

fn validate_attestation(errors: &mut Errors, key: &str, values: &Value, path: &FieldPath<'_>) {
    if key != REVIEW_GROUPS {
        return errors.not_supported(path, key, &[REVIEW_GROUPS]);
    }
    let [group] = values.items_at(&[]) else {
        return errors.invalid(path, values.clone(), "must specify a single value");
    };
    match group.as_str().unwrap_or_default() {
        "" => errors.invalid(path, "", "may not be an empty string"),
        "*" => {}
        group => {
            for reason in names::dns1123_subdomain(group) {
                errors.invalid(path, group, format!("must specify a valid API Group: {reason}"));
            }
        }
    }
}

/// The reference of a valid request to the configuration of a webhook.
pub(super) struct WebhookReference<'a> {
    kind: WebhookConfigurationKind,
    name: &'a str,
    audience: &'a str,
    /// The API group of reviews, or `*`.
    review_group: &'a str,
}

impl<'a> WebhookReference<'a> {
    /// The reference in the spec of a request. `None` if it refers to something else.
    pub(super) fn of(request: &RequestContext, spec: &'a Value) -> Option<Self> {
        let kind = kind(spec).filter(|_| request.cluster.gates().has(Change::TOKENS_FOR_WEBHOOKS))?;
        let first = |path: &[&str]| spec.items_at(path).first().and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            kind,
            name: spec.str_at(&["boundObjectRef", "name"]),
            audience: first(&["audiences"]),
            review_group: first(&["attestations", REVIEW_GROUPS]),
        })
    }

    /// Binds a token of a service account to the configuration. Returns its uid, too.
    ///
    /// # Errors
    /// The account may not have such a token.
    pub(super) async fn bind(
        &self,
        request: &RequestContext,
        account: &Value,
        now: Time,
    ) -> Result<(Str, BoundObject), ApiError> {
        let kind = self.kind.name();
        if !request.cluster.gates().is_enabled(Feature::API_SERVER_WEBHOOK_AUTHENTICATION_TOKEN) {
            return Err(ApiError::BadRequest(format!(
                "cannot bind token to object of type {GROUP}/{VERSION}, Kind={kind} (feature gate \
                 APIServerWebhookAuthenticationToken is disabled)"
            )));
        }
        let own_audiences = &request.cluster.settings.service_accounts.audiences;
        if own_audiences.iter().any(|audience| audience == self.audience) {
            let why = "api server audiences are invalid for webhook token requests";
            return Err(ApiError::BadRequest(why.to_owned()));
        }
        self.authorize(request, account).await?;
        let Some(configuration) = self.find(request, now).await else {
            return Err(ApiError::Forbidden {
                resource: GroupResource::new("", "serviceaccounts/token"),
                name: account.name().into(),
                why: "token request denied".to_owned(),
                causes: Vec::new(),
            });
        };
        let uid = Str::from(configuration.uid());
        let bound = BoundObject::WebhookConfiguration {
            kind: self.kind,
            configuration: (configuration.name().into(), uid.clone()),
            review_group: self.review_group.into(),
        };
        Ok((uid, bound))
    }

    /// Checks that the service account itself may attest the API group.
    async fn authorize(&self, request: &RequestContext, account: &Value) -> Result<(), ApiError> {
        let user = UserInfo { uid: account.uid().into(), ..service_account_info(account.namespace(), account.name()) };
        let wanted = AuthorizationAttributes {
            verb: "attest",
            group: "authentication.k8s.io",
            version: "*",
            resource: REVIEW_GROUPS,
            name: self.review_group,
            ..AuthorizationAttributes::default()
        };
        require(&*request.access.authorizer, &user, &wanted).await
    }

    /// The configuration, if it exists and one of its webhooks is for the API group and the audience. A request for all
    /// groups needs no webhook.
    async fn find(&self, request: &RequestContext, now: Time) -> Option<Value> {
        crate::cluster::check_key(self.name).ok()?;
        request.cluster.catch_up().await.ok()?;
        let resource = GroupResource::new(GROUP, self.kind.plural());
        let configuration = request.cluster.get_object(&resource, "", self.name).ok()??;
        let deletion = configuration.time_at(&["metadata", "deletionTimestamp"]);
        if deletion.is_some_and(|at| (at.seconds, at.nanos) < (now.seconds, now.nanos)) {
            return None;
        }
        let matches = |webhook: &Value| self.has_group(webhook) && self.has_audience(webhook);
        let is_allowed = self.review_group == "*" || configuration.items_at(&["webhooks"]).iter().any(matches);
        is_allowed.then_some(configuration)
    }

    fn has_group(&self, webhook: &Value) -> bool {
        let rules = webhook.items_at(&["rules"]).iter();
        let mut groups = rules.flat_map(|rule| rule.items_at(&["apiGroups"])).filter_map(Value::as_str);
        groups.any(|group| group == "*" || group == self.review_group)
    }

    /// The audience is the URL of the webhook. The URL of a service has a port and a path.
    fn has_audience(&self, webhook: &Value) -> bool {
        match webhook.get("clientConfig").and_then(WebhookClientConfig::parse).map(|config| config.target) {
            Some(WebhookTarget::Url(url)) => url == self.audience,
            Some(WebhookTarget::Service { namespace, name, port, path }) => {
                let slash = if path.starts_with('/') { "" } else { "/" };
                self.audience == format!("https://{name}.{namespace}.svc:{port}{slash}{path}")
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spec: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        errors.invalid(&FieldPath::new("other"), 1, "no");
        validate(&mut errors, &serde_json::from_str(spec).expect("JSON"));
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn attestations_are_validated() {
        let other = "other: Invalid value: 1: no";
        let spec = |kind: &str, rest: &str| {
            format!(r#"{{"boundObjectRef":{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}"}},{rest}}}"#)
        };
        let to_webhook = |audiences: &str, attestations: &str| {
            spec("MutatingWebhookConfiguration", &format!(r#""audiences":{audiences},"attestations":{attestations}"#))
        };
        check(r#"{"boundObjectRef":null}"#, &[other]);
        check(
            r#"{"attestations":{"b":["2"],"a":[]}}"#,
            &[
                r#"spec.attestations: Invalid value: {"a":[],"b":["2"]}: attestations may only be specified with a webhook bound object reference"#,
            ],
        );
        check(
            &spec("Other", r#""attestations":{"a":[]}"#),
            &[
                r#"spec.attestations: Invalid value: {"a":[]}: attestations may only be specified with a webhook bound object reference"#,
            ],
        );
        for valid in ["apps", "*", "admissionregistration.k8s.io"] {
            check(&to_webhook(r#"["a"]"#, &format!(r#"{{"admissionReviewAPIGroups":["{valid}"]}}"#)), &[other]);
        }
        check(
            &spec("ValidatingWebhookConfiguration", r#""audiences":["a","b"]"#),
            &[
                other,
                r#"spec.audiences: Invalid value: ["a","b"]: must be length 1 when bound to a webhook config"#,
                "spec.attestations: Invalid value: null: webhook bound requests require exactly one admissionReviewAPIGroups attestation",
            ],
        );
        let key = "spec.attestations[admissionReviewAPIGroups]: Invalid value:";
        for (attestations, why) in [
            (
                r#"{"z":[]}"#,
                r#"spec.attestations[z]: Unsupported value: "z": supported values: "admissionReviewAPIGroups""#
                    .to_owned(),
            ),
            (r#"{"admissionReviewAPIGroups":[]}"#, format!("{key} []: must specify a single value")),
            (r#"{"admissionReviewAPIGroups":["a","b"]}"#, format!(r#"{key} ["a","b"]: must specify a single value"#)),
            (r#"{"admissionReviewAPIGroups":[""]}"#, format!(r#"{key} "": may not be an empty string"#)),
            (
                r#"{"admissionReviewAPIGroups":["A"]}"#,
                format!(r#"{key} "A": must specify a valid API Group: {}"#, names::dns1123_subdomain("A")[0]),
            ),
        ] {
            check(&to_webhook(r#"["a"]"#, attestations), &[other, &why]);
        }
    }
}
