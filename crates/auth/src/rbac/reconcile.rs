//! Reconciles stored roles and bindings with the roles and bindings of the bootstrap policy (upstream:
//! `component-helpers/auth/rbac/reconciliation`). Extra permissions are not removed; only `kubectl auth reconcile` asks
//! for that. The functions are pure: they return the object to write, and the caller writes it.

use pintle_value::{Value, same};

use super::bootstrap::AUTO_UPDATE_ANNOTATION;
use super::covers::uncovered_rules;
use super::policy::{PolicyRule, Role};
use super::read::PolicyError;

/// The change that reconciliation makes to a stored object.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciliation {
    /// No change: the object has all expected content.
    UpToDate,
    /// No change, although something is missing: the object excludes itself by an annotation.
    Protected,
    /// The object has to be replaced with this object.
    Update(Value),
    /// The binding has to be deleted and created as expected, because it refers to another role, and the reference is
    /// immutable.
    Recreate,
}

impl Reconciliation {
    fn of(existing: &Value, reconciled: Value, is_changed: bool) -> Self {
        match is_changed {
            false => Self::UpToDate,
            true if is_protected(existing) => Self::Protected,
            true => Self::Update(reconciled),
        }
    }
}

/// Reconciles a role or cluster role. The role gets the expected labels, annotations, rules and aggregation selectors
/// that are missing. It keeps its other content, except an unexpected aggregation rule.
///
/// # Errors
/// A rule of the stored role cannot be read.
pub fn reconcile_role(existing: &Value, expected: &Value) -> Result<Reconciliation, PolicyError> {
    let mut role = existing.clone();
    let mut is_changed = add_metadata(&mut role, expected);
    let missing_rules = missing_rules(existing, expected)?;
    is_changed |= append(&mut role, &["rules"], missing_rules.into_iter().map(Value::from));
    match (existing.get("aggregationRule"), expected.get("aggregationRule")) {
        (Some(_), None) => {
            role.remove("aggregationRule");
            is_changed = true;
        }
        (_, None) => {}
        (existing, Some(expected)) => {
            let selectors = |rule: &Value| rule.items_at(&["clusterRoleSelectors"]).to_vec();
            let known = existing.map(selectors).unwrap_or_default();
            let mut missing = selectors(expected);
            missing.retain(|selector| !known.iter().any(|known| are_equal_selectors(known, selector)));
            is_changed |= append(&mut role, &["aggregationRule", "clusterRoleSelectors"], missing.into_iter());
        }
    }
    Ok(Reconciliation::of(existing, role, is_changed))
}

/// Reconciles a role binding or cluster role binding. The binding gets the expected labels, annotations and subjects
/// that are missing, and keeps its other content.
#[must_use]
pub fn reconcile_role_binding(existing: &Value, expected: &Value) -> Reconciliation {
    let role = |binding: &Value| ["apiGroup", "kind", "name"].map(|key| binding.str_at(&["roleRef", key]).to_owned());
    if role(existing) != role(expected) {
        return if is_protected(existing) { Reconciliation::Protected } else { Reconciliation::Recreate };
    }
    let mut binding = existing.clone();
    let mut is_changed = add_metadata(&mut binding, expected);
    let known = existing.items_at(&["subjects"]);
    let mut missing: Vec<Value> = Vec::new();
    for subject in expected.items_at(&["subjects"]) {
        if !known.iter().chain(&missing).any(|known| are_equal_subjects(known, subject)) {
            missing.push(subject.clone());
        }
    }
    is_changed |= append(&mut binding, &["subjects"], missing.into_iter());
    Reconciliation::of(existing, binding, is_changed)
}

/// True if an object excludes itself from reconciliation.
fn is_protected(existing: &Value) -> bool {
    existing.annotation(AUTO_UPDATE_ANNOTATION) == Some("false")
}

/// Adds the expected labels and annotations that are missing. Existing values stay. Returns whether anything was added.
fn add_metadata(object: &mut Value, expected: &Value) -> bool {
    let mut is_changed = false;
    for map in ["labels", "annotations"] {
        for (key, value) in expected.entries_at(&["metadata", map]) {
            if object.at(&["metadata", map, key]).is_none() {
                object.set_at(&["metadata", map, key], value.clone());
                is_changed = true;
            }
        }
    }
    is_changed
}

/// The permissions of the expected rules that the existing rules do not include.
fn missing_rules(existing: &Value, expected: &Value) -> Result<Vec<PolicyRule>, PolicyError> {
    // Equal rules include each other. Equality is the normal case, and the comparison is expensive.
    if same(existing.get("rules"), expected.get("rules")) {
        return Ok(Vec::new());
    }
    Ok(uncovered_rules(&Role::from_value(existing)?.rules, &Role::from_value(expected)?.rules))
}

/// Appends items to the array at a path. Returns whether anything was added.
fn append(object: &mut Value, path: &[&str], items: impl ExactSizeIterator<Item = Value>) -> bool {
    if items.len() == 0 {
        return false;
    }
    let mut list = object.items_at(path).to_vec();
    list.extend(items);
    object.set_at(path, list);
    true
}

/// Compares label selectors as upstream does. Empty parts equal absent parts.
fn are_equal_selectors(a: &Value, b: &Value) -> bool {
    a.entries_at(&["matchLabels"]).eq(b.entries_at(&["matchLabels"]))
        && same(a.get("matchExpressions"), b.get("matchExpressions"))
}

fn are_equal_subjects(a: &Value, b: &Value) -> bool {
    ["kind", "apiGroup", "name", "namespace"].iter().all(|key| a.str_at(&[key]) == b.str_at(&[key]))
}

#[cfg(test)]
mod tests;
