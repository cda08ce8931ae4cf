//! Checks that many rules of pods are made of: names, paths of files, lists of known values, labels and selectors, and
//! the walk over all containers of a pod.

use pintle_value::{Errors, FieldPath, Value, names};

/// The lists of containers in the order in which upstream visits them.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Calls `visit` for each container of a pod spec: init containers, containers, ephemeral containers.
pub(crate) fn visit_containers<'v>(
    spec: &'v Value,
    path: &FieldPath<'_>,
    mut visit: impl FnMut(&'v Value, &FieldPath<'_>),
) {
    for list in CONTAINER_LISTS {
        let list_path = path.child(list);
        for (i, container) in spec.items_at(&[list]).iter().enumerate() {
            visit(container, &list_path.index(i));
        }
    }
}

/// All containers of a pod spec, in the order of [`visit_containers`].
pub(crate) fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|list| spec.items_at(&[list]))
}

/// The string that a pointer field holds; absence and the empty string differ.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field).and_then(Value::as_str)
}

/// One error of the kind `Invalid` per message.
pub(crate) fn invalid_each(errors: &mut Errors, path: &FieldPath<'_>, value: &str, messages: Vec<String>) {
    for message in messages {
        errors.invalid(path, value, message);
    }
}

/// Refuses what is not a DNS label.
pub(crate) fn dns_label(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::dns1123_label(value));
}

/// Refuses what is not a DNS subdomain.
pub(crate) fn dns_subdomain(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::dns1123_subdomain(value));
}

/// Refuses what is not the name of an object.
pub(crate) fn object_name(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::dns1123_subdomain_name(value, false));
}

/// Refuses what is not a qualified name.
pub(crate) fn qualified_name(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::qualified_name(value));
}

/// Requires fields not to be empty, each on its own.
pub(crate) fn require(errors: &mut Errors, object: &Value, fields: &[&str], path: &FieldPath<'_>) {
    for field in fields {
        if object.get(field).is_none_or(Value::is_empty) {
            errors.required(&path.child(field), "");
        }
    }
}

/// Refuses a value that is there and not one of those that are known.
pub(crate) fn one_of(errors: &mut Errors, path: &FieldPath<'_>, value: Option<&str>, known: &[&str]) {
    if let Some(value) = value.filter(|v| !known.contains(v)) {
        errors.not_supported(path, value, known);
    }
}

/// Requires a value, which must be one of those that are known.
pub(crate) fn required_one_of(errors: &mut Errors, path: &FieldPath<'_>, value: &str, known: &[&str]) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        one_of(errors, path, Some(value), known);
    }
}

/// Refuses a negative number.
pub(crate) fn nonnegative(errors: &mut Errors, path: &FieldPath<'_>, value: i64) {
    if value < 0 {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// Refuses what is not a positive number.
pub(crate) fn positive(errors: &mut Errors, path: &FieldPath<'_>, value: i64) {
    if value <= 0 {
        errors.invalid(path, value, "must be greater than zero");
    }
}

/// Refuses what is not the mode of a file.
pub(crate) fn file_mode(errors: &mut Errors, path: &FieldPath<'_>, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|m| !(0..=0o777).contains(m)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Refuses a path with an element `..`.
pub(crate) fn no_backsteps(errors: &mut Errors, path: &FieldPath<'_>, target: &str) {
    if target.split('/').any(|part| part == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Refuses an absolute path and one that leaves its folder.
pub(crate) fn descending_path(errors: &mut Errors, path: &FieldPath<'_>, target: &str) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(errors, path, target);
}

/// The same, and names that start with `..`, which the kubelet keeps for itself.
pub(crate) fn non_reserved_path(errors: &mut Errors, path: &FieldPath<'_>, target: &str) {
    descending_path(errors, path, target);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}

/// Refuses a port that is neither a number in range nor a well-formed name (upstream: `ValidatePortNumOrName`).
pub(crate) fn port_number_or_name(errors: &mut Errors, path: &FieldPath<'_>, port: Option<&Value>) {
    match port {
        Some(Value::String(name)) => invalid_each(errors, path, name, names::port_name(name)),
        // An absent port is the number 0.
        other => {
            let number = other.and_then(Value::as_int).unwrap_or(0);
            for message in names::port_number(number) {
                errors.invalid(path, number, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;

    #[test]
    fn paths_of_files() {
        let check = |target: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            non_reserved_path(&mut errors, &FieldPath::new("p"), target);
            assert_eq!(messages(&errors), expect, "{target}");
        };
        check("a/b", &[]);
        check("/a", &["p: Invalid value: \"/a\": must be a relative path"]);
        check("a/../b", &["p: Invalid value: \"a/../b\": must not contain '..'"]);
        check("..a", &["p: Invalid value: \"..a\": must not start with '..'"]);
        check("../a", &["p: Invalid value: \"../a\": must not contain '..'"]);
    }
}
