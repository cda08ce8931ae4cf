//! Validation of strings, formats and enums (upstream: `stringValidator`, `formatValidator`, `basicCommonValidator`).

use pintle_value::Value;

use super::numbers::to_int;
use super::result::ValidationResult;
use crate::schema::model::{IndexRange, Keyword, Pattern, StructuralSchema};
use crate::schema::node::SchemaNode;
use crate::schema::value_path::ValuePath;

/// Validates a string. Reports only the first error.
pub(super) fn check_string(node: SchemaNode<'_>, text: &str, path: &ValuePath<'_>) -> ValidationResult {
    let mut result = ValidationResult::default();
    for keyword in node.keywords() {
        match keyword {
            Keyword::MaxLength(max) if length(text) > *max => result.too_long(path, *max),
            Keyword::MinLength(min) if length(text) < *min => {
                result.invalid(path, format_args!("should be at least {min} chars long"), Value::from(text));
            }
            Keyword::Pattern(at) => {
                if let Some(pattern) = node.schema.patterns.get(*at as usize) {
                    check_pattern(pattern, text, path, &mut result);
                }
            }
            _ => {}
        }
        if !result.is_valid() {
            break;
        }
    }
    result
}

fn check_pattern(pattern: &Pattern, text: &str, path: &ValuePath<'_>, result: &mut ValidationResult) {
    let source = &pattern.text;
    match pattern.is_match(text) {
        Ok(true) => {}
        Ok(false) => result.invalid(path, format_args!("should match '{source}'"), Value::from(text)),
        Err(why) => {
            let saying = format_args!("should match '{source}, but pattern is invalid: {why}'");
            result.invalid(path, saying, Value::from(text));
        }
    }
}

/// The length in characters.
fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

/// Validates the format of a string. Returns `None` without a known string format.
pub(super) fn check_format(node: SchemaNode<'_>, text: &str, path: &ValuePath<'_>) -> Option<ValidationResult> {
    let (name, format) = node.format()?;
    let format = format.filter(|format| format.is_string_format())?;
    let mut result = ValidationResult::default();
    if !format.accepts(text) {
        result.wrong_type(path, name, text);
    }
    Some(result)
}

pub(super) fn check_enum(
    schema: &StructuralSchema,
    range: IndexRange,
    value: &Value,
    path: &ValuePath<'_>,
    result: &mut ValidationResult,
) {
    if !is_listed(schema, range, value) {
        result.not_listed(path, value, range.slice(&schema.values));
    }
}

/// Go first converts the value to the type of the enum value: 1.5 becomes 1, and 65 becomes "A". Null never matches.
#[allow(clippy::cast_precision_loss)]
fn is_listed(schema: &StructuralSchema, range: IndexRange, value: &Value) -> bool {
    let has = |value: Value| schema.enums.contains(range, &schema.values, &value);
    let is_same = || schema.enums.contains(range, &schema.values, value);
    match value {
        Value::Null => false,
        Value::Int(i) => {
            let character = || u32::try_from(*i).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            is_same() || has(Value::Float(*i as f64)) || has(Value::from(String::from(character())))
        }
        Value::Float(x) => is_same() || has(Value::Int(to_int(*x))),
        _ => is_same(),
    }
}
