//! Validation of types (upstream: `typeValidator`).

use pintle_value::Value;

use super::numbers::is_json_integer;
use super::result::ValidationResult;
use crate::schema::model::Type;
use crate::schema::node::SchemaNode;
use crate::schema::value_path::ValuePath;

/// The expected types: any type, one type, or the types of `x-kubernetes-int-or-string`.
#[derive(Clone, Copy)]
enum ExpectedType {
    Any,
    One(Type),
    IntOrString,
}

impl ExpectedType {
    fn of(node: SchemaNode<'_>) -> Self {
        if node.is_int_or_string() {
            return Self::IntOrString;
        }
        node.ty().map_or(Self::Any, Self::One)
    }

    fn has(self, ty: Type) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == ty,
            Self::IntOrString => matches!(ty, Type::Integer | Type::String),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::One(ty) => ty.name(),
            Self::IntOrString => "integer,string",
        }
    }
}

pub(super) fn check_null(node: SchemaNode<'_>, path: &ValuePath<'_>) -> ValidationResult {
    let expected = ExpectedType::of(node);
    if node.is_nullable() || matches!(expected, ExpectedType::Any) {
        return type_match();
    }
    type_mismatch(path, expected.name(), "null")
}

/// Checks the type of a value that is not null. Returns `None` if the schema has neither type nor format.
pub(super) fn check(node: SchemaNode<'_>, value: &Value, path: &ValuePath<'_>) -> Option<ValidationResult> {
    let expected = ExpectedType::of(node);
    let format = node.format().and_then(|(name, known)| known.map(|_| name)).unwrap_or_default();
    if matches!(expected, ExpectedType::Any) && format.is_empty() {
        return None;
    }
    let (actual, actual_format) = match value {
        Value::Null => return None,
        Value::Bool(_) => (Type::Boolean, ""),
        Value::Int(_) => (Type::Integer, "int64"),
        Value::Float(_) => (Type::Number, "float64"),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
    };
    let whole = matches!(value, Value::Float(x) if is_json_integer(*x)) && expected.has(Type::Integer);
    let is_expected = expected.has(actual) || whole || (actual == Type::Integer && expected.has(Type::Number));
    if !format.is_empty() {
        let has_text = matches!(actual, Type::String | Type::Array);
        if !has_text && !is_expected && actual_format != format {
            return Some(type_mismatch(path, format, actual_format));
        }
        // A format takes precedence over the type. Lists pass, because formats do not apply to them.
        if has_text && !expected.has(Type::Number) && !expected.has(Type::Integer) {
            return Some(type_match());
        }
    }
    Some(if is_expected { type_match() } else { type_mismatch(path, expected.name(), actual.name()) })
}

fn type_match() -> ValidationResult {
    let mut result = ValidationResult::default();
    result.increment_match_count();
    result
}

fn type_mismatch(path: &ValuePath<'_>, ty: &str, shown: &str) -> ValidationResult {
    let mut result = ValidationResult::default();
    result.wrong_type(path, ty, shown);
    result
}
