//! Validates the common parts of Deployment, ReplicaSet and StatefulSet: the selector, the pod template that it must
//! match, and status counters.

use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::template;
use crate::go_json;
use crate::labels::{self, is_empty_selector, validate_selector};

/// Validates the selector of a spec, which must not be empty. `kind` is the kind in the message.
pub(super) fn require_selector(errors: &mut Errors, spec: &Value, kind: &str, path: &FieldPath<'_>) {
    let path = path.child("selector");
    let Some(selector) = spec.get("selector") else {
        errors.required(&path, "");
        return;
    };
    errors.append(validate_selector(Some(selector), false, &path));
    if is_empty_selector(selector) {
        errors.push(invalid_selector(selector, format!("empty selector is invalid for {kind}"), &path));
    }
}

/// Returns the error about an invalid selector.
pub(super) fn invalid_selector(selector: &Value, text: impl Into<String>, path: &FieldPath<'_>) -> FieldError {
    FieldError::invalid(path, selector.clone(), text).showing(go_json::print(selector))
}

/// Validates the template of a Deployment or ReplicaSet, also against the selector.
pub(super) fn validate_selector_and_template(
    context: &StrategyContext,
    errors: &mut Errors,
    spec: &Value,
    old: Option<&Value>,
    path: &FieldPath<'_>,
) {
    let template_path = path.child("template");
    let Some(selector) = labels::parse_selector(spec.get("selector")) else {
        let error = invalid_selector(&spec["selector"], "invalid label selector", &path.child("selector"));
        errors.push(error);
        return;
    };
    let labels = spec.at(&["template", "metadata", "labels"]);
    if !selector.is_everything() && !labels::matches_labels(&selector, labels) {
        template::add_selector_mismatch(errors, labels, &template_path);
    }
    let old_template = old.and_then(|old| old.get("template"));
    errors.append(template::validate(context, spec.get("template"), old_template, &template_path));
    validate_restart_policy_always(errors, spec, "ReplicaSet", &template_path);
}

/// Rejects pods that terminate on their own. `path` is the path of the template.
pub(super) fn validate_restart_policy_always(errors: &mut Errors, spec: &Value, kind: &str, path: &FieldPath<'_>) {
    let path = path.child("spec");
    let restart = spec.str_at(&["template", "spec", "restartPolicy"]);
    if restart != "Always" {
        errors.not_supported(&path.child("restartPolicy"), restart, &["Always"]);
    }
    if spec.at(&["template", "spec", "activeDeadlineSeconds"]).is_some() {
        let text = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), text);
    }
}

/// Rejects a decreasing `collisionCount`.
pub(super) fn validate_collision_count(errors: &mut Errors, object: &Value, old: &Value) {
    let count = |object: &Value| object.int_at(&["status", "collisionCount"]);
    // An absent counter is less than any other.
    if count(object) < count(old) {
        let path = FieldPath::new("status");
        errors.invalid(&path.child("collisionCount"), count(object).unwrap_or(0), "cannot be decremented");
    }
}
