//! Validates the rules and match conditions of webhooks and policies (upstream: `validateRuleWithOperations`,
//! `validateMatchConditions` of `pkg/apis/admissionregistration/validation`).

use std::collections::BTreeSet;

use pintle_value::{Errors, FieldError, FieldPath, Value, names};
use pintle_versions::EffectiveVersion;

use super::expressions;
use crate::declarative::Rules;
use crate::validation::{invalid_each, require_one_of, str_field, strings_at, validate_one_of};

static RULE: Rules = Rules::own("admissionregistration/v1", "RuleWithOperations");

const MAX_CONDITIONS: usize = 64;

/// Sets the default scope of rules: `*`.
pub(super) fn set_rule_defaults(owner: &mut Value, field: &str) {
    let rules = owner.get_mut(field).and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        rule.set_default("scope", "*");
    }
}

/// Rejects a field value that is present and not among the known ones.
pub(super) fn validate_field_one_of(
    errors: &mut Errors,
    object: &Value,
    field: &str,
    known: &[&str],
    path: &FieldPath<'_>,
) {
    validate_one_of(errors, &path.child(field), str_field(object, field), known);
}

/// Requires a field with a value among the known ones.
pub(super) fn require_field_one_of(
    errors: &mut Errors,
    object: &Value,
    field: &str,
    known: &[&str],
    path: &FieldPath<'_>,
) {
    require_one_of(errors, &path.child(field), object.str_at(&[field]), known);
}

/// Validates a rule with operations.
pub(super) fn validate_rule(errors: &mut Errors, rule: &Value, path: &FieldPath<'_>) {
    RULE.validate_part(errors, rule, path);
}

/// Validates the resources of a rule.
pub(crate) fn validate_resources(errors: &mut Errors, list: &Value, path: &FieldPath<'_>) {
    let resources = strings_at(list, &[]);
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut with_any_subresource, mut of_any_resource) = (BTreeSet::new(), BTreeSet::new());
    let mut last_is_plain = false;
    for (i, resource) in resources.iter().enumerate() {
        let path = path.index(i);
        if resource.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((name, subresource)) = resource.split_once('/') else {
            // Upstream only remembers the last one.
            last_is_plain = *resource != "*";
            continue;
        };
        if with_any_subresource.contains(name) {
            let detail = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(&path, *resource, detail);
        }
        if of_any_resource.contains(subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {resource}");
            errors.invalid(&path, *resource, detail);
        }
        if subresource == "*" {
            with_any_subresource.insert(name);
        }
        if name == "*" {
            of_any_resource.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        errors.invalid(path, list.clone(), "if '*/*' is present, must not specify other resources");
    }
    if last_is_plain && resources.contains(&"*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, list.clone(), detail);
    }
}

/// Validates match conditions: valid unique names, and expressions that compile. A policy with a `paramKind` can use
/// `params` in them.
pub(super) fn validate_conditions(
    errors: &mut Errors,
    conditions: &[Value],
    has_params: bool,
    version: EffectiveVersion,
    path: &FieldPath<'_>,
) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        match condition.str_at(&["expression"]).trim() {
            "" => errors.required(&path.child("expression"), ""),
            expression => {
                expressions::match_condition(errors, expression, has_params, version, &path.child("expression"));
            }
        }
        let name = condition.str_at(&["name"]);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
            continue;
        }
        invalid_each(errors, &path.child("name"), name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
    }
}
