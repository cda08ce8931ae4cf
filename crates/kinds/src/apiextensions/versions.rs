//! Validates the fields of a version beside its schema: deprecation, subresources and printer columns (upstream:
//! `validateDeprecationWarning`, `ValidateCustomResourceDefinitionSubresources`,
//! `ValidateCustomResourceColumnDefinition`).

use pintle_value::print::is_print;
use pintle_value::{Errors, FieldPath, Value};

use crate::go_json::invalid_pointer;

const MAX_WARNING: usize = 256;
const PRINTABLE: &str = "must only contain printable UTF-8 characters";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Validates the deprecation warning of a version.
pub(super) fn validate_deprecation(errors: &mut Errors, version: &Value, path: &FieldPath<'_>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let path = path.child("deprecationWarning");
    if !version.bool_at(&["deprecated"]) {
        return errors.push(invalid_pointer(&path, warning, "can only be set for deprecated versions"));
    }
    let mut invalid = |detail: &str| errors.push(invalid_pointer(&path, warning, detail));
    if warning.len() > MAX_WARNING {
        invalid(&format!("must be <= {MAX_WARNING} characters long"));
    }
    if warning.is_empty() {
        invalid("must not be an empty string");
    }
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| !is_print(*c)) {
        invalid(&format!("{PRINTABLE}; non-printable character found at index {i}"));
    }
}

/// Validates the subresources of a version, if it has any.
pub(super) fn validate_subresources(errors: &mut Errors, subresources: Option<&Value>, path: &FieldPath<'_>) {
    let Some(scale) = subresources.and_then(|found| found.get("scale")) else { return };
    let path = path.child("scale");
    for (field, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = path.child(field);
        match scale.str_at(&[field]) {
            "" => errors.required(&path, ""),
            text if simple_path(errors, text, &path) && !is_under(text, under) => {
                errors.invalid(&path, text, format!("should be a json path under {under}"));
            }
            _ => {}
        }
    }
    let (path, text) = (path.child("labelSelectorPath"), scale.str_at(&["labelSelectorPath"]));
    let anywhere = || is_under(text, ".spec") || is_under(text, ".status");
    if !text.is_empty() && simple_path(errors, text, &path) && !anywhere() {
        let detail = "should be a json path under either .spec or .status";
        errors.push(invalid_pointer(&path, text, detail));
    }
}

fn is_under(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'))
}

/// Validates a JSON path of plain field names. Returns true if it is one.
fn simple_path(errors: &mut Errors, text: &str, path: &FieldPath<'_>) -> bool {
    let good = text.starts_with('.');
    if !good {
        errors.invalid(path, text, "must be a simple json path starting with .");
    }
    good
}

/// Validates the additional printer columns.
pub(super) fn validate_columns(errors: &mut Errors, columns: &[Value], path: &FieldPath<'_>) {
    for (i, column) in columns.iter().enumerate() {
        validate_column(errors, column, &path.index(i));
    }
}

fn validate_column(errors: &mut Errors, column: &Value, path: &FieldPath<'_>) {
    if column.str_at(&["name"]).is_empty() {
        errors.required(&path.child("name"), "");
    }
    let one_of = |known: &[&str]| format!("must be one of {}", known.join(","));
    match column.str_at(&["type"]) {
        "" => errors.required(&path.child("type"), one_of(&COLUMN_TYPES)),
        kind if COLUMN_TYPES.contains(&kind) => {}
        kind => errors.invalid(&path.child("type"), kind, one_of(&COLUMN_TYPES)),
    }
    let format = column.str_at(&["format"]);
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.invalid(&path.child("format"), format, one_of(&COLUMN_FORMATS));
    }
    let path = path.child("JSONPath");
    match column.str_at(&["jsonPath"]) {
        "" => errors.required(&path, ""),
        text => {
            simple_path(errors, text, &path);
        }
    }
}
