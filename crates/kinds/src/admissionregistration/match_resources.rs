//! The constraints of policies and bindings that say which resources they match (upstream: `MatchResources`).

use std::collections::BTreeSet;

use pintle_value::{Errors, FieldPath, Value, names};

use super::match_rules::{require_field_one_of, set_rule_defaults, validate_rule};
use crate::labels::validate_selector;
use crate::validation::{invalid_each, strings_at, validate_one_of};

const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
/// The operations that rules of mutating policies can match: there is nothing to mutate in a delete.
pub(super) const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Sets the defaults of `matchConstraints` or `matchResources`.
pub(super) fn set_match_defaults(resources: Option<&mut Value>) {
    let Some(resources) = resources else { return };
    resources.set_default("matchPolicy", "Equivalent");
    resources.set_default("namespaceSelector", Value::object());
    resources.set_default("objectSelector", Value::object());
    set_rule_defaults(resources, "resourceRules");
    set_rule_defaults(resources, "excludeResourceRules");
}

/// Validates `matchConstraints` or `matchResources`.
pub(super) fn validate_match(errors: &mut Errors, resources: &Value, path: &FieldPath<'_>) {
    require_field_one_of(errors, resources, "matchPolicy", &MATCH_POLICIES, path);
    for field in ["namespaceSelector", "objectSelector"] {
        match resources.get(field) {
            None => errors.required(&path.child(field), ""),
            selector => errors.append(validate_selector(selector, false, &path.child(field))),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = path.child(field);
        for (i, rule) in resources.items_at(&[field]).iter().enumerate() {
            let path = list.index(i);
            let list = path.child("resourceNames");
            let mut seen = BTreeSet::new();
            for (j, name) in rule.items_at(&["resourceNames"]).iter().enumerate() {
                let name = name.as_str().unwrap_or_default();
                invalid_each(errors, &list.index(j), name, names::path_segment_name(name, false));
                if !seen.insert(name) {
                    errors.duplicate(&list.index(j), name);
                }
            }
            validate_rule(errors, rule, &path);
        }
    }
}

/// Rejects rule operations that this type of policy cannot have. Upstream's path has no indices.
pub(super) fn validate_operations(
    errors: &mut Errors,
    resources: &Value,
    known: Option<&[&str]>,
    path: &FieldPath<'_>,
) {
    let Some(known) = known else { return };
    let path = path.child("resourceRules");
    for rule in resources.items_at(&["resourceRules"]) {
        for operation in strings_at(rule, &["operations"]) {
            validate_one_of(errors, &path.child("operations"), Some(operation), known);
        }
    }
}
