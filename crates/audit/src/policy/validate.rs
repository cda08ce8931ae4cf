//! Validates a decoded policy (upstream: `apis/audit/validation`).

use pintle_value::Value;
use pintle_value::field::{Errors, FieldPath};
use pintle_value::names::dns1123_subdomain;

use crate::{Level, Stage};

/// The errors of a policy.
pub(super) fn validate(policy: &Value) -> Errors {
    let mut errors = Errors::new();
    validate_stages(policy, &FieldPath::root(), &mut errors);
    for (index, rule) in policy.items_at(&["rules"]).iter().enumerate() {
        validate_rule(rule, &FieldPath::new("rules").index(index), &mut errors);
    }
    errors
}

fn validate_rule(rule: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let level = rule.str_at(&["level"]);
    if level.is_empty() {
        errors.required(&path.child("level"), "");
    } else if Level::named(level).is_none() {
        errors.not_supported(&path.child("level"), level, &Level::ALL.map(Level::name));
    }
    let urls = path.child("nonResourceURLs");
    for (index, url) in rule.items_at(&["nonResourceURLs"]).iter().enumerate() {
        validate_url(url.as_str().unwrap_or_default(), &urls.index(index), errors);
    }
    for resources in rule.items_at(&["resources"]) {
        validate_resources(resources, &path.child("resources"), errors);
    }
    validate_stages(rule, path, errors);
    let has = |field: &str| !rule.items_at(&[field]).is_empty();
    if has("nonResourceURLs") && (has("resources") || has("namespaces")) {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.invalid(&urls, texts(rule, "nonResourceURLs"), detail);
    }
}

fn validate_url(url: &str, path: &FieldPath<'_>, errors: &mut Errors) {
    if url == "*" {
        return;
    }
    if !url.starts_with('/') {
        errors.invalid(path, url, "non-resource URL rules must begin with a '/' character");
    }
    if url.find('*').is_some_and(|at| at + 1 < url.len()) {
        errors.invalid(path, url, "non-resource URL wildcards '*' must be the final character of the rule");
    }
}

/// As in upstream, the paths of errors have no index.
fn validate_resources(resources: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let group = resources.str_at(&["group"]);
    if !group.is_empty() && group != "*" {
        let problems = dns1123_subdomain(group);
        if !problems.is_empty() {
            errors.invalid(&path.child("group"), group, problems.join(","));
        }
    }
    let has = |field: &str| !resources.items_at(&[field]).is_empty();
    if has("resourceNames") && !has("resources") {
        let detail = "using resourceNames requires at least one resource";
        errors.invalid(&path.child("resourceNames"), texts(resources, "resourceNames"), detail);
    }
}

fn validate_stages(value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let path = path.child("omitStages");
    for (index, stage) in value.items_at(&["omitStages"]).iter().enumerate() {
        let stage = stage.as_str().unwrap_or_default();
        if Stage::named(stage).is_none() {
            let allowed = Stage::ALL.map(Stage::name).join(",");
            errors.invalid(&path.index(index), stage, format!("allowed stages are {allowed}"));
        }
    }
}

fn texts(value: &Value, field: &str) -> Value {
    let text = |item: &Value| Value::from(item.as_str().unwrap_or_default());
    Value::Array(value.items_at(&[field]).iter().map(text).collect())
}
