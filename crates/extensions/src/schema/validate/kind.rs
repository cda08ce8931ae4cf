//! The type of a value (upstream: `typeValidator`).

use pintle_value::Value;

use super::failure::Outcome;
use super::numbers::is_json_integer;
use crate::schema::model::Type;
use crate::schema::part::Part;
use crate::schema::path::Path;

/// The types that are asked for: none, one, or those of `x-kubernetes-int-or-string`.
#[derive(Clone, Copy)]
enum Expected {
    Any,
    One(Type),
    IntOrString,
}

impl Expected {
    fn of(part: Part<'_>) -> Self {
        if part.is_int_or_string() {
            return Self::IntOrString;
        }
        part.ty().map_or(Self::Any, Self::One)
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

pub(super) fn check_null(part: Part<'_>, path: &Path<'_>) -> Outcome {
    let expected = Expected::of(part);
    if part.nullable() || matches!(expected, Expected::Any) {
        return fits();
    }
    misfit(path, expected.name(), "null")
}

/// Judges the type of a value that is not null; `None` where nothing is said of it.
pub(super) fn check(part: Part<'_>, value: &Value, path: &Path<'_>) -> Option<Outcome> {
    let expected = Expected::of(part);
    let format = part.format().and_then(|(name, known)| known.map(|_| name)).unwrap_or_default();
    if matches!(expected, Expected::Any) && format.is_empty() {
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
            return Some(misfit(path, format, actual_format));
        }
        // Where there is a format, it alone judges; lists have none and slip through.
        if has_text && !expected.has(Type::Number) && !expected.has(Type::Integer) {
            return Some(fits());
        }
    }
    Some(if is_expected { fits() } else { misfit(path, expected.name(), actual.name()) })
}

fn fits() -> Outcome {
    let mut outcome = Outcome::default();
    outcome.matched();
    outcome
}

fn misfit(path: &Path<'_>, ty: &str, shown: &str) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.wrong_type(path, ty, shown);
    outcome
}
