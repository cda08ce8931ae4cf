//! Validates the names in the spec of a CRD, and the accepted names in its status (upstream:
//! `ValidateCustomResourceDefinitionNames`).

use pintle_value::{Errors, FieldPath, Value, names};

use crate::validation::strings_at;

/// Validates the names that are set.
pub(super) fn validate(errors: &mut Errors, names_object: &Value, path: &FieldPath<'_>) {
    for (field, any_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = names_object.str_at(&[field]);
        if name.is_empty() {
            continue;
        }
        let (problems, before) = if any_case {
            (names::dns1035_label(&name.to_lowercase()), "may have mixed case, but should otherwise match: ")
        } else {
            (names::dns1035_label(name), "")
        };
        if !problems.is_empty() {
            errors.invalid(&path.child(field), name, format!("{before}{}", problems.join(",")));
        }
    }
    validate_labels(errors, names_object, "shortNames", path);
    let (kind, list_kind) = (names_object.str_at(&["kind"]), names_object.str_at(&["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(&path.child("listKind"), list_kind, "kind and listKind may not be the same");
    }
    validate_labels(errors, names_object, "categories", path);
}

fn validate_labels(errors: &mut Errors, names_object: &Value, field: &str, path: &FieldPath<'_>) {
    let list = path.child(field);
    for (i, name) in strings_at(names_object, &[field]).into_iter().enumerate() {
        let problems = names::dns1035_label(name);
        if !problems.is_empty() {
            errors.invalid(&list.index(i), name, problems.join(","));
        }
    }
}
