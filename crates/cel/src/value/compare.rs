//! Equality and ordering of values.

use std::cmp::Ordering;

use pintle_budget as budget;

use super::{EvalResult, Number, Value};
use crate::error::EvalError;

/// CEL's equality. Values of different types are not equal, except for numbers of the same numeric value. Invalid
/// values are not equal to anything.
#[must_use]
pub fn equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    try_equal(a, b).unwrap_or(false)
}

/// Like [`equal`], but fails if the first value contains an invalid value.
pub(crate) fn try_equal(a: &Value<'_>, b: &Value<'_>) -> EvalResult<bool> {
    budget::step()?;
    Ok(match (a, b) {
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => **a == **b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a.instant() == b.instant(),
        (Value::List(a), Value::List(b)) => return a.equals(b),
        (Value::Map(a), Value::Map(b)) => return a.equals(b),
        (Value::Invalid(error), _) => return Err(error.clone()),
        (Value::List(_) | Value::Map(_), Value::Invalid(error)) if a.is_typed() => return Err(error.clone()),
        (Value::List(_) | Value::Map(_), other) if a.is_typed() && !matches!(other, Value::Null) => {
            return Err(EvalError::no_overload());
        }
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b),
            (a, b) => a.is_none() && b.is_none(),
        },
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(&**b),
        // Upstream never finds such a value equal to another value.
        (Value::Authorization(_), _) => return Err(EvalError::no_overload()),
        (a, b) => match (Number::of(a), Number::of(b)) {
            (Some(a), Some(b)) => a.compare(b) == Some(Ordering::Equal),
            _ => false,
        },
    })
}

/// Compares two values. Fails if their types have no ordering.
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> EvalResult<Ordering> {
    Ok(match (a, b) {
        (Value::String(a), Value::String(b)) => (**a).cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => (**a).cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.instant().cmp(&b.instant()),
        (a, b) => match (Number::of(a), Number::of(b)) {
            (Some(a), Some(b)) => a.compare(b).ok_or_else(|| EvalError::new("NaN values cannot be ordered"))?,
            _ => return Err(EvalError::no_overload()),
        },
    })
}
