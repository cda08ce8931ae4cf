//! The order of values of any type: numbers, then strings, booleans, lists, maps and null. Upstream sorts keys and set
//! items this way, which determines the order in `fieldsV1` (upstream: structured-merge-diff's `value.Compare`).

use std::cmp::Ordering;

use pintle_value::{Object, Value};

/// Compares two values of any type. An integer and a float are compared as floats.
#[must_use]
pub fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            a.as_float().partial_cmp(&b.as_float()).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare_values(a, b));
            first_difference(pairs).then_with(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_objects(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// True if two values are equal. An integer equals the float of the same value.
#[must_use]
pub fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((ak, a), (bk, b))| ak == bk && values_equal(a, b))
        }
        (Value::Float(_), Value::Int(_)) | (Value::Int(_), Value::Float(_)) => a.as_float() == b.as_float(),
        _ => a == b,
    }
}

fn compare_objects(a: &Object, b: &Object) -> Ordering {
    let pairs = a.iter().zip(b.iter()).map(|((ak, a), (bk, b))| ak.cmp(bk).then_with(|| compare_values(a, b)));
    first_difference(pairs).then_with(|| a.len().cmp(&b.len()))
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
