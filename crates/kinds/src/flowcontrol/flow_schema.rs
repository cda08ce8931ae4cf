//! The strategy for FlowSchema, which assigns requests to priority levels (upstream:
//! `pkg/apis/flowcontrol/validation`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value, names};

use super::bootstrap::{flow_control_schemas, mandatory_spec};
use super::validate_conditions;
use crate::declarative::Rules;
use crate::generic::{reset_status, same, set_generation};
use crate::go_json::{self, GoType};
use crate::validation::{has_wildcard, invalid_each, strings_at};

const DEFAULT_PRECEDENCE: i64 = 1000;
const DISTINGUISHERS: [&str; 2] = ["ByNamespace", "ByUser"];
const SUBJECT_KINDS: [&str; 3] = ["Group", "ServiceAccount", "User"];
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// How upstream's internal type prints a distinguisher method.
const METHOD: GoType = GoType::Of("flowcontrol/v1.FlowDistinguisherMethod");
/// How it prints a spec.
const SPEC: GoType = GoType::Of("flowcontrol/v1.FlowSchemaSpec");

static RULES: Rules = Rules::own("flowcontrol/v1", "FlowSchemaSpec");

/// The strategy for FlowSchema.
pub(crate) struct FlowSchemaStrategy;

impl Strategy for FlowSchemaStrategy {
    fn defaults(&self, object: &mut Value) {
        if object.int_at(&["spec", "matchingPrecedence"]).unwrap_or(0) == 0 {
            object.set_at(&["spec", "matchingPrecedence"], DEFAULT_PRECEDENCE);
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        set_generation(object, old, crate::generic::SPEC);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_spec(&mut errors, object);
        if let Some(fixed) = mandatory_spec(flow_control_schemas, object.name())
            && !same(object.get("spec"), Some(&fixed))
        {
            let detail = format!("spec of '{}' must equal the fixed value", object.name());
            errors.push(go_json::invalid(&FieldPath::new("spec"), &object["spec"], &SPEC, &detail));
        }
        validate_conditions(&mut errors, object);
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&super::STATUS as &dyn SubresourceStrategy)
    }
}

fn validate_spec(errors: &mut Errors, object: &Value) {
    let path = FieldPath::new("spec");
    if object.int_at(&["spec", "matchingPrecedence"]) == Some(1) && object.name() != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(&path.child("matchingPrecedence"), 1, detail);
    }
    RULES.validate_part(errors, &object["spec"], &path);
}

/// Validates the type of a distinguisher method. Upstream shows the method, a struct, in place of its type.
pub(crate) fn validate_distinguisher(errors: &mut Errors, method: &Value, path: &FieldPath<'_>) {
    if !DISTINGUISHERS.contains(&method.str_at(&["type"])) {
        let error = pintle_value::FieldError::not_supported(&path.child("type"), method.clone(), DISTINGUISHERS);
        errors.push(error.showing(go_json::internal(Some(method), &METHOD)));
    }
}

/// Requires rules for resources or for other requests.
pub(crate) fn validate_rules(errors: &mut Errors, rule: &Value, path: &FieldPath<'_>) {
    if rule.items_at(&["resourceRules"]).is_empty() && rule.items_at(&["nonResourceRules"]).is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
}

/// Validates the subject of a rule: one name, of the field of its kind.
pub(crate) fn validate_subject(errors: &mut Errors, subject: &Value, path: &FieldPath<'_>) {
    const FIELDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.str_at(&["kind"]);
    let Some((_, own)) = FIELDS.into_iter().find(|(kind_of_field, _)| *kind_of_field == kind) else {
        errors.not_supported(&path.child("kind"), kind, &SUBJECT_KINDS);
        return;
    };
    let own_path = path.child(own);
    match subject.get(own) {
        None => errors.required(&own_path, format!("{own} is required when subject kind is '{kind}'")),
        Some(named) => {
            let name = named.str_at(&["name"]);
            if name.is_empty() {
                errors.required(&own_path.child("name"), "");
            }
            if kind == "ServiceAccount" {
                validate_account(errors, named, name, &own_path);
            }
        }
    }
    for (kind_of_field, field) in FIELDS.into_iter().filter(|(_, field)| *field != own) {
        if subject.get(field).is_some() {
            errors.forbidden(
                &path.child(field),
                format!("{field} is forbidden when subject kind is not '{kind_of_field}'"),
            );
        }
    }
}

fn validate_account(errors: &mut Errors, account: &Value, name: &str, path: &FieldPath<'_>) {
    if !name.is_empty() && name != "*" {
        invalid_each(errors, &path.child("name"), name, names::service_account_name(name, false));
    }
    let namespace = account.str_at(&["namespace"]);
    if namespace.is_empty() {
        errors.required(&path.child("namespace"), "must specify namespace for service account");
        return;
    }
    invalid_each(errors, &path.child("namespace"), namespace, names::namespace_name(namespace, false));
}

/// Requires known verbs, or `*`.
pub(crate) fn validate_verbs(errors: &mut Errors, verbs: &Value, path: &FieldPath<'_>) {
    if !has_wildcard(verbs.items_at(&[])) && strings_at(verbs, &[]).iter().any(|verb| !VERBS.contains(verb)) {
        errors.not_supported(path, verbs.clone(), &VERBS);
    }
}

/// Validates the namespaces of a rule, which a rule for cluster-scoped resources may lack.
pub(crate) fn validate_namespaces(errors: &mut Errors, rule: &Value, path: &FieldPath<'_>) {
    let path = path.child("namespaces");
    let namespaces = rule.items_at(&["namespaces"]);
    if namespaces.is_empty() && !rule.bool_at(&["clusterScope"]) {
        errors.required(&path, "resource rules that are not cluster scoped must supply at least one namespace");
    }
    if has_wildcard(namespaces) {
        if namespaces.len() > 1 {
            errors.invalid(&path, namespaces.to_vec(), "if '*' is present, must not specify other namespaces");
        }
        return;
    }
    for (i, namespace) in strings_at(rule, &["namespaces"]).into_iter().enumerate() {
        for message in names::namespace_name(namespace, false) {
            let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
            errors.invalid(&path.index(i), namespace, detail);
        }
    }
}

/// Validates the URLs of a rule, except beside `*`.
pub(crate) fn validate_urls(errors: &mut Errors, urls: &Value, path: &FieldPath<'_>) {
    let is_checked = !has_wildcard(urls.items_at(&[]));
    for (i, url) in strings_at(urls, &[]).into_iter().enumerate().filter(|_| is_checked) {
        if let Some(fault) = url_error(url) {
            errors.invalid(&path.index(i), url, fault);
        }
    }
}

fn url_error(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    if url.is_empty() {
        Some("must not be empty")
    } else if url == "/" {
        None
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn schemas() {
        let check = |spec: &str, expect: &[&str]| {
            let mut schema = object(&format!(r#"{{"metadata":{{"name":"x"}},"spec":{{{spec}}}}}"#));
            FlowSchemaStrategy.defaults(&mut schema);
            assert_eq!(messages(&FlowSchemaStrategy.validate(&context(), &schema)), expect, "{spec}");
        };
        let level = r#""priorityLevelConfiguration":{"name":"p"}"#;
        check(
            &format!(
                r#"{level},"rules":[{{"subjects":[{{"kind":"Group","group":{{"name":"g"}}}}],"resourceRules":[{{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true}}]}}]"#
            ),
            &[],
        );
        check(
            r#""matchingPrecedence":1,"distinguisherMethod":{"type":"x"},"rules":[{"subjects":[{"kind":"User","group":{"name":"g"}}]}]"#,
            &[
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
                "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"x\"}: supported values: \"ByNamespace\", \"ByUser\"",
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ],
        );
        check(
            &format!(
                r#"{level},"rules":[{{"subjects":[{{"kind":"ServiceAccount","serviceAccount":{{"name":"*"}}}}],"resourceRules":[{{"verbs":["get","*"]}}],"nonResourceRules":[{{"verbs":["x"],"nonResourceURLs":["/a*"]}}]}}]"#
            ),
            &[
                "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account",
                "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"get\",\"*\"]: if '*' is present, must not specify other verbs",
                "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
                "spec.rules[0].nonResourceRules[0].verbs: Unsupported value: [\"x\"]: supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"/a*\": wildcard can only do suffix matching",
            ],
        );
    }

    #[test]
    fn mandatory_schemas_have_fixed_specs() {
        let rule = r#"{"subjects":[{"kind":"Group","group":{"name":"system:masters"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}"#;
        let schema = |precedence: i64| {
            object(&format!(
                r#"{{"metadata":{{"name":"exempt"}},"spec":{{"priorityLevelConfiguration":{{"name":"exempt"}},"matchingPrecedence":{precedence},"rules":[{rule}]}}}}"#
            ))
        };
        let check = |schema: &Value| messages(&FlowSchemaStrategy.validate(&context(), schema));
        assert!(check(&schema(1)).is_empty());
        assert_eq!(
            check(&schema(2)),
            [
                "spec: Invalid value: {\"PriorityLevelConfiguration\":{\"Name\":\"exempt\"},\"MatchingPrecedence\":2,\"DistinguisherMethod\":null,\"Rules\":[{\"Subjects\":[{\"Kind\":\"Group\",\"User\":null,\"Group\":{\"Name\":\"system:masters\"},\"ServiceAccount\":null}],\"ResourceRules\":[{\"Verbs\":[\"*\"],\"APIGroups\":[\"*\"],\"Resources\":[\"*\"],\"ClusterScope\":true,\"Namespaces\":[\"*\"]}],\"NonResourceRules\":[{\"Verbs\":[\"*\"],\"NonResourceURLs\":[\"*\"]}]}]}: spec of 'exempt' must equal the fixed value"
            ]
        );
    }
}
