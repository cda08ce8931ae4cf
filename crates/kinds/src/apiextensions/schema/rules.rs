//! Validates the structure of the rules in `x-kubernetes-validations` (upstream: the last part of
//! `ValidateCustomResourceDefinitionOpenAPISchema`). [`super::validator`] is responsible for their expressions.

use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::field_path;
use super::node::Node;
use super::unsupported;
use crate::go_json;

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const NOT_EMPTY: &str = "must be non-empty if specified";
const ONE_LINE: &str = "must not contain line breaks";

/// Validates everything that does not require compiling expressions.
pub(super) fn validate_shape(errors: &mut Errors, node: Node<'_>, path: &FieldPath<'_>) {
    let list = path.child("x-kubernetes-validations");
    for (i, rule) in node.0.items_at(&["x-kubernetes-validations"]).iter().enumerate() {
        let path = list.index(i);
        validate_rule_and_message(errors, rule, &path);
        let expression = rule.str_at(&["messageExpression"]);
        if !expression.is_empty() && expression.trim().is_empty() {
            errors.required(&path.child("messageExpression"), "messageExpression must be non-empty if specified");
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason)) {
            let error = FieldError::not_supported(&path.child("reason"), reason, REASONS);
            errors.push(error.showing(go_json::print(&reason.into())));
        }
        validate_field_path(errors, node, rule.str_at(&["fieldPath"]), &path.child("fieldPath"));
    }
}

fn validate_rule_and_message(errors: &mut Errors, rule: &Value, path: &FieldPath<'_>) {
    let (expression, message) = (rule.str_at(&["rule"]).trim(), rule.str_at(&["message"]));
    if expression.is_empty() {
        errors.required(&path.child("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&path.child("message"), message, NOT_EMPTY);
    } else if has_line_breaks(message.trim()) {
        errors.invalid(&path.child("message"), message, ONE_LINE);
    } else if has_line_breaks(expression) && message.is_empty() {
        errors.required(&path.child("message"), "message must be specified if rule contains line breaks");
    }
}

fn validate_field_path(errors: &mut Errors, node: Node<'_>, field: &str, path: &FieldPath<'_>) {
    if field.is_empty() {
        return;
    }
    if field.trim().is_empty() {
        errors.invalid(path, field, NOT_EMPTY);
    }
    if has_line_breaks(field) {
        errors.invalid(path, field, ONE_LINE);
    }
    // If the schema cannot have fields, upstream reports that instead of this error.
    if unsupported::fault(node).is_none() && field_path::resolve(field, node, true).is_err() {
        errors.invalid(path, field, "must be a valid path");
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
