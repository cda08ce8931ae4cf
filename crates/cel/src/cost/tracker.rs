//! Cost trackers: the actual cost of a call, from its arguments and its result (upstream: cel-go
//! `interpreter/runtimecost.go` and `apiserver/pkg/cel/library/cost.go`).

use pintle_budget as budget;

use super::{LIST_CREATE_BASE_COST, REGEX_STRING_LENGTH_COST_FACTOR, STRING_TRAVERSAL_COST_FACTOR};
use crate::value::{Map, Value};

type Args<'v, 'a> = &'v [Value<'a>];

/// The cost of traversing `size` characters or elements.
pub(crate) fn traversal_cost(size: u64) -> u64 {
    scaled(size as f64, STRING_TRAVERSAL_COST_FACTOR)
}

fn scaled(size: f64, factor: f64) -> u64 {
    (size * factor).ceil() as u64
}

/// The size that cost trackers use: 1 for values without a size, the size of the content for optionals.
pub(crate) fn actual_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => actual_size(inner),
        other => other.size().unwrap_or(1),
    }
}

/// Like [`actual_size`], but an optional counts as 1, as in the cost trackers of Kubernetes.
fn direct_size(value: Option<&Value<'_>>) -> u64 {
    value.and_then(Value::size).unwrap_or(1)
}

/// The default cost of a call.
pub(crate) fn one(_: Args<'_, '_>, _: &Value<'_>) -> u64 {
    1
}

/// Traverses the first argument.
pub(crate) fn traverse_first(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    traversal_cost(args.first().map_or(1, actual_size))
}

/// Traverses the first argument and allocates a result of the same size.
pub(crate) fn traverse_first_twice(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    scaled(direct_size(args.first()) as f64 * 2.0, STRING_TRAVERSAL_COST_FACTOR)
}

/// Traverses the result twice: once to read the parts, once to write the result.
pub(crate) fn traverse_result_twice(_: Args<'_, '_>, result: &Value<'_>) -> u64 {
    scaled(direct_size(Some(result)) as f64 * 2.0, STRING_TRAVERSAL_COST_FACTOR)
}

/// Traverses both operands up to the end of the smaller one.
pub(crate) fn traverse_smaller(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    traversal_cost(args.iter().map(actual_size).min().unwrap_or(1))
}

/// Traverses all arguments.
pub(crate) fn traverse_all(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    traversal_cost(args.iter().map(actual_size).sum())
}

/// One unit per element of the second argument.
pub(crate) fn size_of_second(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    args.get(1).map_or(1, actual_size)
}

/// Traverses the second argument for each character of the first.
pub(crate) fn traversal_product(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    args.iter().map(|arg| traversal_cost(actual_size(arg))).product()
}

/// Matches a regular expression, the second argument, against the first argument.
pub(crate) fn match_regex(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    let of = |i: usize| args.get(i).map_or(1, actual_size) as f64;
    regex_cost(of(0), of(1))
}

/// The cost of matching a regular expression of one size against a text of another size.
pub(crate) fn regex_cost(text: f64, pattern: f64) -> u64 {
    scaled(1.0 + text, STRING_TRAVERSAL_COST_FACTOR) * scaled(pattern, REGEX_STRING_LENGTH_COST_FACTOR)
}

/// Traverses the first argument recursively.
pub(crate) fn traverse_deep(args: Args<'_, '_>, _: &Value<'_>) -> u64 {
    args.first().map_or(0, deep_cost)
}

fn deep_cost(value: &Value<'_>) -> u64 {
    // A list that contains another list twice, which contains another list twice, and so on, has practically no end.
    if budget::step().is_err() {
        return 0;
    }
    match value {
        Value::String(text) => (text.len() as f64 * STRING_TRAVERSAL_COST_FACTOR) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * STRING_TRAVERSAL_COST_FACTOR) as u64,
        Value::List(list) => list.iter().map(|element| deep_cost(&element)).sum(),
        Value::Map(Map::Lazy(_)) => 1,
        Value::Map(map) => map.iter().map(|(key, value)| deep_cost(&key) + deep_cost(&value)).sum(),
        _ => 1,
    }
}

/// The cost of a call that creates a list: a base cost plus `factor` per unit of `size`.
pub(crate) fn list_creation(factor: f64, size: u64) -> u64 {
    // A negative depth makes the call fail, but upstream's cost wraps before that.
    let elements = size as f64 * factor;
    let elements = if elements < 0.0 { elements as i64 as u64 } else { elements as u64 };
    elements.wrapping_add(1 + LIST_CREATE_BASE_COST)
}

/// The cost of comparing every element of a list with every other element.
pub(crate) fn pairwise_comparison(list_arg: Option<&Value<'_>>) -> u64 {
    let size = direct_size(list_arg);
    let text = match list_arg {
        Some(Value::List(elements)) => {
            elements.get(0).is_some_and(|first| matches!(first, Value::String(_) | Value::Bytes(_)))
        }
        _ => false,
    };
    list_creation(if text { 2.0 + STRING_TRAVERSAL_COST_FACTOR } else { 2.0 }, size.saturating_mul(size))
}

/// The cost of `==`: one for opaque values, else by the smaller size. For `!=`, opaque values are no exception.
pub(crate) fn equality(a: &Value<'_>, b: &Value<'_>, positive: bool) -> u64 {
    if positive && matches!(a, Value::Opaque(_) | Value::Authorization(_)) {
        return 1;
    }
    traversal_cost(actual_size(a).min(actual_size(b)))
}
