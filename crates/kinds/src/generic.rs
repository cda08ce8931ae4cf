//! Building blocks of strategies that most kinds share: fields that an update keeps, generations, and the strategy for
//! a `status` subresource (upstream: `pkg/registry/*/*/strategy.go`).

use pintle_registry::{ResetFields, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldPath, Value};

pub(crate) use pintle_value::same;

/// Returns true if the values at a path of two objects are the [`same`].
pub(crate) fn same_at(a: &Value, b: &Value, path: &[&str]) -> bool {
    same(a.at(path), b.at(path))
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

/// Sets the generation of a new object to 1.
pub(crate) fn set_first_generation(object: &mut Value) {
    object.set_at(&["metadata", "generation"], 1);
}

/// Increments the generation.
pub(crate) fn increment_generation(object: &mut Value, old: &Value) {
    object.set_at(&["metadata", "generation"], old.generation().saturating_add(1));
}

/// Increments the generation if the spec changed.
pub(crate) fn increment_generation_on_spec_change(object: &mut Value, old: &Value) {
    if !same_at(object, old, &["spec"]) {
        increment_generation(object, old);
    }
}

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

/// The strategy for a `status` subresource.
pub(crate) struct StatusStrategy {
    /// The paths that the subresource may not change.
    pub(crate) preserved_paths: &'static [&'static [&'static str]],
    /// Further preparation of the new object, which is the first argument.
    pub(crate) prepare: fn(&mut Value, &Value),
    /// Validates the update; the new object is the first argument.
    pub(crate) validate: fn(&Value, &Value) -> Errors,
}

/// The paths that a status update of newer kinds may not change: the spec and the metadata that upstream resets
/// (`metav1.ResetObjectMetaForStatus`).
pub(crate) const SPEC_AND_METADATA_PATHS: &[&[&str]] = &[
    &["spec"],
    &["metadata", "annotations"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "finalizers"],
    &["metadata", "generation"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
    &["metadata", "selfLink"],
];

/// The reset fields of these kinds: writes of the status own no metadata.
pub(crate) fn reset_fields_with_metadata(subresource: &str) -> ResetFields {
    match subresource {
        "status" => ResetFields::Paths(&["metadata", "spec"]),
        _ => ResetFields::Paths(&["status"]),
    }
}

/// A preparation that does nothing.
pub(crate) fn no_preparation(_: &mut Value, _: &Value) {}

/// A validation that accepts everything.
pub(crate) fn no_validation(_: &Value, _: &Value) -> Errors {
    Errors::new()
}

impl SubresourceStrategy for StatusStrategy {
    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        for path in self.preserved_paths {
            keep_old(object, old, path);
        }
        (self.prepare)(object, old);
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        (self.validate)(object, old)
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
