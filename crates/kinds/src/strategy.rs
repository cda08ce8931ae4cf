//! What the strategies of most kinds have in common (upstream: `pkg/registry/*/*/strategy.go`): what an update takes over
//! from the old object, when the generation goes up, and what the rules of a `status` subresource look like.

use pintle_registry::{ResetFields, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldPath, Value};

pub(crate) use pintle_value::same;

/// [`same`] of what is at a path of two objects.
pub(crate) fn same_at(a: &Value, b: &Value, path: &[&str]) -> bool {
    same(a.at(path), b.at(path))
}

/// Takes over what the old object has at a path, or its absence.
pub(crate) fn keep(object: &mut Value, old: &Value, path: &[&str]) {
    let parent = path.split_last().and_then(|(last, parents)| old.at(parents)?.as_object()?.get(last));
    match parent {
        Some(value) => object.set_at(path, value.clone()),
        None => {
            object.remove_at(path);
        }
    }
}

/// Gives a new object the generation 1.
pub(crate) fn first_generation(object: &mut Value) {
    object.set_at(&["metadata", "generation"], 1);
}

/// Raises the generation by one.
pub(crate) fn next_generation(object: &mut Value, old: &Value) {
    object.set_at(&["metadata", "generation"], old.generation().saturating_add(1));
}

/// Raises the generation if the spec changed.
pub(crate) fn generation_follows_spec(object: &mut Value, old: &Value) {
    if !same_at(object, old, &["spec"]) {
        next_generation(object, old);
    }
}

/// Sets a text that is absent or empty.
pub(crate) fn set_if_empty(object: &mut Value, field: &str, text: &str) {
    if object.str_at(&[field]).is_empty() {
        object.set(field, text);
    }
}

/// The warning about a name that is no DNS label, though pods will be named after it.
pub(crate) fn pod_name_warning(object: &Value) -> Option<String> {
    let wrong = pintle_value::names::dns1123_label(object.name());
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
             a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

/// Refuses a change of a field; `path` is where `new` and `old` are.
pub(crate) fn immutable(errors: &mut Errors, new: Option<&Value>, old: Option<&Value>, path: &FieldPath<'_>) {
    if !same(new, old) {
        let shown = new.map_or_else(|| "null".to_owned(), crate::gojson::print);
        let error = pintle_value::FieldError::invalid(path, new.cloned(), IMMUTABLE_TEXT);
        errors.push(error.showing(shown));
    }
}

/// The rules of a `status` subresource.
pub(crate) struct StatusStrategy {
    /// The paths that it may not change.
    pub(crate) keeps: &'static [&'static [&'static str]],
    /// What else is done to the new object, which comes first.
    pub(crate) prepare: fn(&mut Value, &Value),
    /// Checks the change; the new object comes first.
    pub(crate) validate: fn(&Value, &Value) -> Errors,
}

/// What a status of the newer kinds may not change: the spec and whatever of the metadata upstream resets
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

/// The fields that writes of those kinds do not set: a status owns nothing of the metadata.
pub(crate) fn reset_with_metadata(subresource: &str) -> ResetFields {
    match subresource {
        "status" => ResetFields::These(&["metadata", "spec"]),
        _ => ResetFields::These(&["status"]),
    }
}

/// Nothing else is done.
pub(crate) fn as_is(_: &mut Value, _: &Value) {}

/// Nothing is checked.
pub(crate) fn unchecked(_: &Value, _: &Value) -> Errors {
    Errors::new()
}

impl SubresourceStrategy for StatusStrategy {
    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        for path in self.keeps {
            keep(object, old, path);
        }
        (self.prepare)(object, old);
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        (self.validate)(object, old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn what_is_kept_may_be_absence() {
        let mut new = object(r#"{"spec":{"a":1},"status":{"x":1}}"#);
        keep(&mut new, &object(r#"{"spec":{"a":2},"metadata":{}}"#), &["status"]);
        assert_eq!(new, object(r#"{"spec":{"a":1}}"#));
        keep(&mut new, &object(r#"{"status":{"y":null}}"#), &["status"]);
        assert_eq!(new, object(r#"{"spec":{"a":1},"status":{"y":null}}"#));
    }
}
