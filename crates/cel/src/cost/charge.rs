//! What calls cost.

use super::{LIST_COST, PER_CHARACTER, PER_PATTERN_CHARACTER};
use crate::value::{Map, Value};

type Args<'v, 'a> = &'v [Value<'a>];

/// What looking at so many characters or elements costs.
pub(crate) fn traversal(size: u64) -> u64 {
    scaled(size as f64, PER_CHARACTER)
}

fn scaled(size: f64, cost: f64) -> u64 {
    (size * cost).ceil() as u64
}

/// The size that counts: 1 for what has none, what is inside for optionals.
pub(crate) fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => size(inner),
        other => other.size().unwrap_or(1),
    }
}

/// The same, but optionals count as 1, as in the rules of Kubernetes.
fn own_size(value: Option<&Value<'_>>) -> u64 {
    value.and_then(Value::size).unwrap_or(1)
}

pub(crate) fn one(_: Args<'_, '_>, _: &Value<'_>) -> u64 {
    1
}

/// A walk over the first argument.
pub(crate) fn first(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    traversal(args.first().map_or(1, size))
}

/// A walk over the first argument that makes another one of it.
pub(crate) fn first_twice(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    scaled(own_size(args.first()) as f64 * 2.0, PER_CHARACTER)
}

/// A walk over the result that was made.
pub(crate) fn result_twice(_: Args<'_, '_>, result: &Value<'_>) -> u64 {
    scaled(own_size(Some(result)) as f64 * 2.0, PER_CHARACTER)
}

/// A comparison that ends with the smaller of two.
pub(crate) fn smaller(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    traversal(args.iter().map(size).min().unwrap_or(1))
}

/// Both together.
pub(crate) fn both(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    traversal(args.iter().map(size).sum())
}

/// Every element of the second argument.
pub(crate) fn elements_of_second(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    args.get(1).map_or(1, size)
}

/// The first argument for every character of the second.
pub(crate) fn product(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    args.iter().map(|arg| traversal(size(arg))).product()
}

/// A regular expression, the second argument, over the first.
pub(crate) fn pattern(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    let of = |i: usize| args.get(i).map_or(1, size) as f64;
    regex(of(0), of(1))
}

/// A regular expression of a size over a text of a size.
pub(crate) fn regex(text: f64, pattern: f64) -> u64 {
    scaled(1.0 + text, PER_CHARACTER) * scaled(pattern, PER_PATTERN_CHARACTER)
}

/// Every part of the first argument, however deep.
pub(crate) fn whole(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    args.first().map_or(0, parts)
}

fn parts(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * PER_CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * PER_CHARACTER) as u64,
        Value::List(list) => list.iter().map(|element| parts(&element)).sum(),
        Value::Map(Map::Fields(_)) => 1,
        Value::Map(map) => map.iter().map(|(key, value)| parts(&key) + parts(&value)).sum(),
        _ => 1,
    }
}

/// A call that makes a list, at a cost per unit of size.
pub(crate) fn list(per_unit: f64, size: u64) -> u64 {
    // A depth below zero is answered with an error, but its cost wraps first.
    let elements = size as f64 * per_unit;
    let elements = if elements < 0.0 { elements as i64 as u64 } else { elements as u64 };
    elements.wrapping_add(1 + LIST_COST)
}

/// A call that compares every element of a list to every other.
pub(crate) fn compare_all(list_arg: Option<&Value<'_>>) -> u64 {
    let size = own_size(list_arg);
    let text = match list_arg {
        Some(Value::List(elements)) => {
            elements.get(0).is_some_and(|first| matches!(first, Value::String(_) | Value::Bytes(_)))
        }
        _ => false,
    };
    list(if text { 2.0 + PER_CHARACTER } else { 2.0 }, size.saturating_mul(size))
}
