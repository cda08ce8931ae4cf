//! Validates an `AuthorizationConfiguration` (upstream: `apis/apiserver/validation`, `LoadAndValidateData`).

use std::collections::{BTreeSet, HashSet};

use pintle_value::names::dns1123_subdomain;
use pintle_value::time::Duration;
use pintle_value::{Errors, FieldError, FieldPath, Str, Value, object};

use super::match_conditions::MatchConditions;
use super::{AuthorizationConfiguration, AuthorizationWebhook};
use crate::rbac::aggregate;

/// The types of authorizers, sorted.
pub const AUTHORIZER_TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

const WEBHOOK: &str = "Webhook";
/// The longest time limit of a call.
const MAX_TIMEOUT: Duration = Duration::from_seconds(30);

/// Examines a file. Returns whether it is a regular file, or Go's message of the error.
pub type FileCheck<'a> = &'a dyn Fn(&str) -> Result<bool, String>;

/// The name that an authorizer has to have, unless it is a webhook (`GetNameForAuthorizerMode`).
#[must_use]
pub fn built_in_name(kind: &str) -> String {
    kind.to_lowercase()
}

/// Validates a configuration, which has to have the required types.
pub(super) fn validate(
    configuration: &AuthorizationConfiguration,
    required: &[Str],
    files: FileCheck<'_>,
) -> Result<(), String> {
    let errors = field_errors(configuration, files);
    if !errors.is_empty() {
        return Err(errors.message());
    }
    let mut errors = Vec::new();
    let mut missing: BTreeSet<&Str> = required.iter().collect();
    for authorizer in configuration.authorizers.iter().filter(|authorizer| authorizer.kind != WEBHOOK) {
        let (kind, name) = (&authorizer.kind, &authorizer.name);
        missing.remove(kind);
        let expected = built_in_name(kind);
        if expected != *name {
            errors.push(format!("expected name {expected} for authorizer {kind} instead of {name}"));
        }
    }
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.into_iter().map(Str::as_str).collect();
        errors.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    aggregate(errors).map_or(Ok(()), Err)
}

fn field_errors(configuration: &AuthorizationConfiguration, files: FileCheck<'_>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("authorizers");
    if configuration.authorizers.is_empty() {
        errors.required(&path, "at least one authorization mode must be defined");
    }
    let (mut kinds, mut names) = (HashSet::new(), HashSet::new());
    for (i, authorizer) in configuration.authorizers.iter().enumerate() {
        let path = path.index(i);
        let (kind, name) = (&*authorizer.kind, &*authorizer.name);
        if kind.is_empty() {
            errors.required(&path.child("type"), "");
            continue;
        }
        if !AUTHORIZER_TYPES.contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &AUTHORIZER_TYPES);
            continue;
        }
        if !kinds.insert(kind) && kind != WEBHOOK {
            errors.duplicate(&path.child("type"), kind);
            continue;
        }
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if names.contains(name) {
            errors.duplicate(&path.child("name"), name);
        } else {
            let problems = dns1123_subdomain(name);
            if !problems.is_empty() {
                let detail = format!("authorizer name is invalid: {}", problems.join(", "));
                errors.invalid(&path.child("name"), name, detail);
            }
        }
        names.insert(name);
        match (&authorizer.webhook, kind == WEBHOOK) {
            (Some(webhook), true) => errors.append(webhook_errors(&path, webhook, files)),
            (None, true) => errors.required(&path.child("webhook"), "required when type=Webhook"),
            (Some(_), false) => {
                errors.invalid(&path.child("webhook"), "non-null", "may only be specified when type=Webhook");
            }
            (None, false) => {}
        }
    }
    errors
}

/// Validates a webhook. As in upstream, the paths lack the step `webhook`.
fn webhook_errors(path: &FieldPath<'_>, webhook: &AuthorizationWebhook, files: FileCheck<'_>) -> Errors {
    let mut errors = Errors::new();
    for (field, duration, max, detail) in [
        ("timeout", webhook.timeout, Some(MAX_TIMEOUT), "must be > 0s and <= 30s"),
        ("authorizedTTL", webhook.authorized_ttl, None, "must be > 0s"),
        ("unauthorizedTTL", webhook.unauthorized_ttl, None, "must be > 0s"),
    ] {
        if duration.0 == 0 {
            errors.required(&path.child(field), "");
        } else if duration.0 < 0 || max.is_some_and(|max| duration > max) {
            errors.invalid(&path.child(field), duration.to_string(), detail);
        }
    }
    check_value(&mut errors, &path.child("subjectAccessReviewVersion"), &webhook.review_version, &["v1", "v1beta1"]);
    let condition_version = path.child("matchConditionSubjectAccessReviewVersion");
    match &*webhook.match_condition_version {
        "" if webhook.match_conditions.is_empty() => {}
        "" => errors.required(&condition_version, "required if match conditions are specified"),
        "v1" => {}
        version => errors.not_supported(&condition_version, version, &["v1"]),
    }
    check_value(&mut errors, &path.child("failurePolicy"), &webhook.failure_policy, &["NoOpinion", "Deny"]);
    errors.append(connection_errors(&path.child("connectionInfo"), webhook, files));
    errors.append(MatchConditions::compile(path, &webhook.match_conditions).1);
    errors
}

/// Checks a required value, which must be one of the supported values.
fn check_value(errors: &mut Errors, path: &FieldPath<'_>, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

fn connection_errors(path: &FieldPath<'_>, webhook: &AuthorizationWebhook, files: FileCheck<'_>) -> Errors {
    let mut errors = Errors::new();
    let file_path = path.child("kubeConfigFile");
    match (&*webhook.connection_type, webhook.kubeconfig_file.as_deref()) {
        ("", _) => errors.required(&path.child("type"), ""),
        ("InClusterConfig", None) => {}
        ("InClusterConfig", Some(file)) => errors.invalid(&file_path, file, "can only be set when type=KubeConfigFile"),
        ("KubeConfigFile", None | Some("")) => errors.required(&file_path, ""),
        ("KubeConfigFile", Some(file)) if !file.starts_with('/') => {
            errors.invalid(&file_path, file, "must be an absolute path");
        }
        ("KubeConfigFile", Some(file)) => match files(file) {
            Ok(true) => {}
            Ok(false) => errors.invalid(&file_path, file, "must be a regular file"),
            Err(error) => errors.invalid(&file_path, file, format!("error loading file: {error}")),
        },
        (kind, file) => {
            // Upstream shows the whole struct, which has no JSON names.
            let shown = object! {"Type": kind, "KubeConfigFile": file.map_or(Value::Null, Value::from)};
            let supported = ["InClusterConfig", "KubeConfigFile"];
            errors.push(FieldError::not_supported(&path.child("type"), shown, supported));
        }
    }
    errors
}
