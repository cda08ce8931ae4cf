//! The rules that the pod groups of workloads and PodGroups have in common (upstream: the markers of
//! `k8s.io/api/scheduling/v1alpha2`).

use pintle_value::{Errors, FieldPath, Value, names};

use crate::declarative::{
    require_format, validate_format, validate_max_items, validate_range, validate_union, validate_unique,
};

pub(super) const MAX_CLAIMS: usize = 4;
const MAX_TOPOLOGY: usize = 1;
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

/// Validates how the pods of a group are scheduled.
pub(super) fn validate_policy(errors: &mut Errors, policy: &Value, path: &FieldPath<'_>) {
    validate_union(errors, policy, &["basic", "gang"], path);
    if let Some(gang) = policy.get("gang") {
        let path = path.child("gang");
        match gang.int_at(&["minCount"]).unwrap_or(0) {
            0 => errors.required(&path.child("minCount"), ""),
            _ => validate_range(errors, gang, "minCount", (1, None), &path),
        }
    }
}

/// Validates the topology constraints of a group, if there are any.
pub(super) fn validate_constraints(errors: &mut Errors, constraints: Option<&Value>, path: &FieldPath<'_>) {
    let Some(constraints) = constraints else { return };
    let (topology, list) = (constraints.items_at(&["topology"]), path.child("topology"));
    if validate_max_items(errors, topology, MAX_TOPOLOGY, &list) {
        for (i, constraint) in topology.iter().enumerate() {
            require_format(errors, constraint, "key", names::label_key, &list.index(i));
        }
    }
}

/// Validates the claims that the pods of a group share.
pub(super) fn validate_claims(errors: &mut Errors, claims: &[Value], path: &FieldPath<'_>) {
    if !validate_max_items(errors, claims, MAX_CLAIMS, path) {
        return;
    }
    validate_unique(errors, claims, "name", path);
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        validate_union(errors, claim, &["resourceClaimName", "resourceClaimTemplateName"], &path);
        require_format(errors, claim, "name", names::short_name, &path);
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            validate_format(errors, claim, field, names::long_name, &path);
        }
    }
}

/// Validates the class and the value of the priority of a group.
pub(super) fn validate_priority_class(errors: &mut Errors, group: &Value, path: &FieldPath<'_>) {
    if !group.str_at(&["priorityClassName"]).is_empty() {
        validate_format(errors, group, "priorityClassName", names::long_name, path);
    }
}

/// Validates the value of the priority of a group.
pub(super) fn validate_priority(errors: &mut Errors, group: &Value, path: &FieldPath<'_>) {
    validate_range(errors, group, "priority", (i64::from(i32::MIN), Some(HIGHEST_PRIORITY)), path);
}
