//! Validation of values like kube-openapi's `validation/validate`, reported like apiextensions' `validation`. Errors
//! have the same order, paths, kinds and texts. They are sorted where upstream iterates over Go maps.

mod containers;
mod junctors;
mod numbers;
mod ratcheting;
mod result;
mod scalars;
mod type_check;

use pintle_budget as budget;
use pintle_value::{Errors, Value};

use super::model::{Keyword, StructuralSchema};
use super::node::SchemaNode;
use super::value_path::ValuePath;
pub(crate) use ratcheting::OldValue;
use result::ValidationResult;

impl StructuralSchema {
    /// Validates a new object. Metadata is validated only if the schema declares it.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Errors {
        self.root().validate(None, object)
    }

    /// Validates an update. Errors of unchanged values are dropped (ratcheting).
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        self.root().validate_update(None, object, Some(old))
    }
}

impl SchemaNode<'_> {
    /// Validates a value against this node alone. `field` is its path in the object (`status`). Errors have it in their
    /// path, but paths in their texts begin at the value, as in upstream.
    #[must_use]
    pub fn validate(self, field: Option<&str>, value: &Value) -> Errors {
        check(self, value, None, &ValuePath::ROOT).errors(field)
    }

    /// Validates a value that replaces another value.
    #[must_use]
    pub fn validate_update(self, field: Option<&str>, value: &Value, old: Option<&Value>) -> Errors {
        let result = check(self, value, None, &ValuePath::ROOT);
        if result.is_valid() {
            return Errors::new();
        }
        // The old value is only needed if there are errors.
        check(self, value, old.map(OldValue), &ValuePath::ROOT).errors(field)
    }
}

/// Validates a value and its descendants.
fn check(node: SchemaNode<'_>, value: &Value, old: Option<OldValue<'_>>, path: &ValuePath<'_>) -> ValidationResult {
    let mut result = ValidationResult::default();
    if budget::step().is_err() {
        return result;
    }
    if value.is_null() {
        result.merge(type_check::check_null(node, path));
        result.merge(enumeration(node, value, path));
    } else {
        if let Some(checked) = type_check::check(node, value, path) {
            result.merge_and_count(checked);
        }
        result.merge_and_count(junctors::check(node, value, path));
        match value {
            Value::String(text) => {
                result.merge_and_count(scalars::check_string(node, text, path));
                if let Some(checked) = scalars::check_format(node, text, path) {
                    result.merge_and_count(checked);
                }
            }
            Value::Int(_) | Value::Float(_) => result.merge_and_count(numbers::check(node, value, path)),
            Value::Array(items) => result.merge_and_count(containers::check_list(node, items, old, path)),
            _ => {}
        }
        result.merge_and_count(enumeration(node, value, path));
        if let Value::Object(fields) = value {
            result.merge_and_count(containers::check_object(node, fields, old, path));
        }
        result.increment_match_count();
    }
    if !result.is_valid() && old.is_some_and(|old| old.is_unchanged(node, value)) {
        result.clear();
    }
    result
}

fn enumeration(node: SchemaNode<'_>, value: &Value, path: &ValuePath<'_>) -> ValidationResult {
    let mut result = ValidationResult::default();
    for keyword in node.keywords() {
        if let Keyword::Enum(values) = keyword {
            scalars::check_enum(node.schema, *values, value, path, &mut result);
        }
    }
    result
}
