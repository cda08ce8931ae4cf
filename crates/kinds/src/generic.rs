//! Building blocks of strategies that most kinds share: fields that an update keeps, generations, and the strategy for
//! a `status` subresource (upstream: `pkg/registry/*/*/strategy.go`).

use pintle_gates::Gates;
use pintle_registry::{ClusterValidation, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldPath, Value};

pub(crate) use pintle_value::same;

use crate::gated::{Part, drop_disabled};

/// Returns true if the values at a path of two objects are the [`same`].
pub(crate) fn same_at(a: &Value, b: &Value, path: &[&str]) -> bool {
    same(a.at(path), b.at(path))
}

/// Whether an option of declarative validation is enabled: by its feature gate or, if it is the named option, because
/// the old object has the field at this path.
pub(crate) fn is_enabled_or_used(
    gates: &Gates,
    option: &str,
    old: Option<&Value>,
    (name, path): (&str, &[&str]),
) -> bool {
    let is_used = || old.and_then(|old| old.at(path)).is_some_and(|value| !value.is_null());
    gates.is_enabled_by_name(option) || (option == name && is_used())
}

/// Restores the value of the old object at a path, or its absence.
pub(crate) fn keep_old(object: &mut Value, old: &Value, path: &[&str]) {
    let parent = path.split_last().and_then(|(last, parents)| old.at(parents)?.as_object()?.get(last));
    match parent {
        Some(value) => object.set_at(path, value.clone()),
        None => {
            object.remove_at(path);
        }
    }
}

/// Gives a new object this status. An update keeps the old status.
pub(crate) fn reset_status(object: &mut Value, old: Option<&Value>, status: Value) {
    match old {
        None => object.set("status", status),
        Some(old) => keep_old(object, old, &["status"]),
    }
}

/// Sets the generation of a new object to 1. An update increments the generation if one of these parts changed.
pub(crate) fn set_generation(object: &mut Value, old: Option<&Value>, parts: &[&[&str]]) {
    match old {
        None => object.set_at(&["metadata", "generation"], 1),
        Some(old) if parts.iter().any(|part| !same_at(object, old, part)) => increment_generation(object, old),
        Some(_) => {}
    }
}

/// Increments the generation.
pub(crate) fn increment_generation(object: &mut Value, old: &Value) {
    object.set_at(&["metadata", "generation"], old.generation().saturating_add(1));
}

/// The part whose changes most kinds count.
pub(crate) const SPEC: &[&[&str]] = &[&["spec"]];

/// Sets a string that is absent or empty.
pub(crate) fn set_if_empty(object: &mut Value, field: &str, text: &str) {
    if object.str_at(&[field]).is_empty() {
        object.set(field, text);
    }
}

/// Returns the warning about an object name that is used in pod names and is not a DNS label.
pub(crate) fn pod_name_warning(object: &Value) -> Option<String> {
    let problems = pintle_value::names::dns1123_label(object.name());
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
             a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Rejects a change of a field. `path` is the path of `new` and `old`.
pub(crate) fn validate_immutable(errors: &mut Errors, new: Option<&Value>, old: Option<&Value>, path: &FieldPath<'_>) {
    if !same(new, old) {
        let shown = new.map_or_else(|| "null".to_owned(), crate::go_json::print);
        let error = pintle_value::FieldError::invalid(path, new.cloned(), IMMUTABLE_TEXT);
        errors.push(error.showing(shown));
    }
}

/// Rejects an update that changes the field at a path.
pub(crate) fn validate_immutable_at(errors: &mut Errors, object: &Value, old: Option<&Value>, path: &[&str]) {
    if let Some(old) = old {
        validate_immutable(errors, object.at(path), old.at(path), &FieldPath::new(&path.join(".")));
    }
}

/// The strategy for a `status` subresource.
pub(crate) struct StatusStrategy {
    /// The paths that the subresource may not change.
    preserved_paths: &'static [&'static [&'static str]],
    /// The part whose fields of disabled features are dropped.
    part: Option<Part>,
    /// Validates the update; the new object comes first.
    validate: fn(&StrategyContext, &Value, &Value) -> Errors,
    /// The validation that depends on the cluster.
    cluster_validation: Option<&'static dyn ClusterValidation>,
}

impl StatusStrategy {
    /// The strategy of a subresource that may not change the spec.
    pub(crate) const fn new(validate: fn(&StrategyContext, &Value, &Value) -> Errors) -> Self {
        Self { preserved_paths: SPEC, part: None, validate, cluster_validation: None }
    }

    /// The strategy of a subresource that may not change these paths.
    pub(crate) const fn preserving(mut self, paths: &'static [&'static [&'static str]]) -> Self {
        self.preserved_paths = paths;
        self
    }

    /// Drops the fields of disabled features from a part.
    pub(crate) const fn gated(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// Validates an update in the cluster, too.
    pub(crate) const fn validating_in_cluster(mut self, validation: &'static dyn ClusterValidation) -> Self {
        self.cluster_validation = Some(validation);
        self
    }
}

/// A validation of a status that accepts everything.
pub(crate) fn no_validation(_: &StrategyContext, _: &Value, _: &Value) -> Errors {
    Errors::new()
}

/// The paths that a status update of newer kinds may not change: the spec and the metadata that upstream resets
/// (`metav1.ResetObjectMetaForStatus`).
pub(crate) const SPEC_AND_METADATA: &[&[&str]] = &[
    &["spec"],
    &["metadata", "annotations"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "finalizers"],
    &["metadata", "generation"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
    &["metadata", "selfLink"],
];

impl SubresourceStrategy for StatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        for path in self.preserved_paths {
            keep_old(object, old, path);
        }
        if let Some(part) = self.part {
            drop_disabled(&context.gates, part, object, Some(old));
        }
    }

    fn validate_update(&self, context: &StrategyContext, object: &Value, old: &Value) -> Errors {
        (self.validate)(context, object, old)
    }

    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        self.cluster_validation
    }

    fn seldom_used(&self) -> &'static [&'static str] {
        // The finalize subresource of namespaces writes the spec.
        if self.preserved_paths.contains(&["spec"].as_slice()) { &["spec"] } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn keep_old_restores_absence() {
        let mut new = object(r#"{"spec":{"a":1},"status":{"x":1}}"#);
        keep_old(&mut new, &object(r#"{"spec":{"a":2},"metadata":{}}"#), &["status"]);
        assert_eq!(new, object(r#"{"spec":{"a":1}}"#));
        keep_old(&mut new, &object(r#"{"status":{"y":null}}"#), &["status"]);
        assert_eq!(new, object(r#"{"spec":{"a":1},"status":{"y":null}}"#));
    }
}
