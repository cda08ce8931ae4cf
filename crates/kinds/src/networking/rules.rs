//! Checks that the rules of services, networking, discovery and RBAC kinds are made of: names, known values, labels and
//! label selectors, with upstream's wording.

use pintle_value::{Errors, FieldPath, Value, names};

use crate::labels::validate_selector;

/// The string that a pointer field holds; absence and the empty string differ.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field).and_then(Value::as_str)
}

/// The strings of an array at a path.
pub(crate) fn strings<'v>(object: &'v Value, path: &[&str]) -> Vec<&'v str> {
    object.items_at(path).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// One error of the kind `Invalid` per message.
pub(crate) fn invalid_each(
    errors: &mut Errors,
    path: &FieldPath<'_>,
    value: impl Into<Value>,
    messages: impl IntoIterator<Item = String>,
) {
    let value = value.into();
    for message in messages {
        errors.invalid(path, value.clone(), message);
    }
}

/// Requires a value, which must be one of those that are known.
pub(crate) fn required_one_of(errors: &mut Errors, path: &FieldPath<'_>, value: &str, known: &[&str]) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !known.contains(&value) {
        errors.not_supported(path, value, known);
    }
}

/// Requires the name of something that is part of a URL.
pub(crate) fn required_path_segment(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        invalid_each(errors, path, value, names::path_segment_name(value, false));
    }
}

/// True if a label selector is not valid.
pub(crate) fn bad_label_selector(selector: &Value) -> bool {
    !validate_selector(Some(selector), false, &FieldPath::root()).is_empty()
}
