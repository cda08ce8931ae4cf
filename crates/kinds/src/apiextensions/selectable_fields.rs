//! Validates `selectableFields` (upstream: `ValidateCustomResourceSelectableFields`).

use std::collections::HashSet;

use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::schema::{Node, field_path};

/// The maximum number of selectable fields of a version.
pub(super) const MAX_SELECTABLE: usize = 8;

const SCALAR: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                      formats are allowed.";

/// Validates the selectable fields of a schema. With `too_many`, their number is not limited.
pub(super) fn validate(errors: &mut Errors, fields: &[Value], schema: Node<'_>, too_many: bool, path: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("jsonPath");
        let text = field.str_at(&["jsonPath"]);
        if text.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let resolved = match field_path::resolve(text, schema, false) {
            Ok(resolved) => resolved,
            Err(error) => {
                errors.invalid(&path, text, format!("is an invalid path: {error}"));
                continue;
            }
        };
        if resolved.first == "metadata" {
            errors.invalid(&path, text, "must not point to fields in metadata");
        }
        if !resolved.schema.is_some_and(|node| matches!(node.text("type"), "string" | "boolean" | "integer")) {
            errors.invalid(&path, text, SCALAR);
        }
        if !seen.insert(resolved.path) {
            errors.duplicate(&path, text);
        }
    }
    if seen.len() > MAX_SELECTABLE && !too_many {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}
