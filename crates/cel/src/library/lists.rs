//! The list functions of Kubernetes: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`, `includes` (upstream:
//! `apiserver/pkg/cel/library/lists.go`).

use std::cmp::Ordering;

use super::Library;
use crate::cost::{CallEstimate, CostEstimate, EstimatedCall, STRING_TRAVERSAL_COST_FACTOR, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{EvalResult, List, Value, compare, equal};

/// The overload ids of a function for lists of each comparable type.
macro_rules! overloads_per_type {
    ($before:literal, $after:literal) => {
        [
            (concat!("list_int", $before, $after), Type::Int),
            (concat!("list_uint", $before, $after), Type::Uint),
            (concat!("list_double", $before, $after), Type::Double),
            (concat!("list_bool", $before, $after), Type::Bool),
            (concat!("list_duration", $before, $after), Type::Duration),
            (concat!("list_timestamp", $before, $after), Type::Timestamp),
            (concat!("list_string", $before, $after), Type::String),
            (concat!("list_bytes", $before, $after), Type::Bytes),
        ]
    };
}

macro_rules! overloads_per_type_twice {
    ($name:literal) => {
        [
            (concat!("list_int_", $name, "_int"), Type::Int),
            (concat!("list_uint_", $name, "_uint"), Type::Uint),
            (concat!("list_double_", $name, "_double"), Type::Double),
            (concat!("list_bool_", $name, "_bool"), Type::Bool),
            (concat!("list_duration_", $name, "_duration"), Type::Duration),
            (concat!("list_timestamp_", $name, "_timestamp"), Type::Timestamp),
            (concat!("list_string_", $name, "_string"), Type::String),
            (concat!("list_bytes_", $name, "_bytes"), Type::Bytes),
        ]
    };
}

pub(super) fn library() -> Library {
    let a = Type::param("A");
    let search =
        |id, binding: FunctionOp| Overload::member(id, &[Type::list(a.clone()), a.clone()], Type::Int).binding(binding);
    let functions = vec![
        list_function("isSorted", overloads_per_type!("_is_sorted", "_bool"), |_| Type::Bool, is_sorted),
        sum(),
        list_function("max", overloads_per_type_twice!("max"), |t| t, |args| extreme(args, "max", Ordering::Less)),
        list_function("min", overloads_per_type_twice!("min"), |t| t, |args| extreme(args, "min", Ordering::Greater)),
        Function::new("indexOf").overload(search("list_a_index_of_int", |args| index_of(args, false))),
        Function::new("lastIndexOf").overload(search("list_a_last_index_of_int", |args| index_of(args, true))),
    ];
    let with_costs = functions
        .into_iter()
        .map(|function| function.cost_tracker(tracker::traverse_deep).cost_estimator(estimate_search));
    Library::of(with_costs.collect())
}

/// The function `includes`, which version 1 of the library added. For a list it is true if an element equals the
/// argument, for any other value if the value itself does. It never fails.
pub(super) fn includes() -> Library {
    let overload = Overload::member("list_includes_dyn_dyn", &[Type::Dyn, Type::Dyn], Type::Bool).binding(|args| {
        let [target, wanted] = args else { return Err(EvalError::no_overload()) };
        Ok(Value::Bool(match target {
            Value::List(list) => list.iter().any(|element| equal(&element, wanted)),
            other => equal(other, wanted),
        }))
    });
    let function = Function::new("includes").overload(overload);
    Library::of(vec![function.cost_tracker(tracker::traverse_deep).cost_estimator(estimate_includes)])
}

/// As for a search. The elements of a dynamic value cost one unit each.
fn estimate_includes(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    if call.elements(target).is_some() {
        return estimate_search(call);
    }
    Some(CallEstimate::cost(call.size(target).times_cost(CostEstimate::fixed(1))))
}

fn list_function(
    name: &str,
    types: [(&'static str, Type); 8],
    result: fn(Type) -> Type,
    binding: FunctionOp,
) -> Function {
    let overloads =
        types.into_iter().map(|(id, t)| Overload::member(id, &[Type::list(t.clone())], result(t)).binding(binding));
    overloads.fold(Function::new(name), Function::overload)
}

fn sum() -> Function {
    let overload =
        |id, t: Type, binding: FunctionOp| Overload::member(id, &[Type::list(t.clone())], t).binding(binding);
    Function::new("sum")
        .overload(overload("list_int_sum_int", Type::Int, |args| sum_elements(args, Value::Int(0))))
        .overload(overload("list_uint_sum_uint", Type::Uint, |args| sum_elements(args, Value::Uint(0))))
        .overload(overload("list_double_sum_double", Type::Double, |args| sum_elements(args, Value::Double(0.0))))
        .overload(overload("list_duration_sum_duration", Type::Duration, |args| sum_elements(args, Value::Duration(0))))
}

fn sum_elements<'a>(args: &[Value<'a>], zero: Value<'a>) -> EvalResult<Value<'a>> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    comparable(list).try_fold(zero, |sum, element| {
        let sum = match (sum, element?) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int),
            (Value::Uint(a), Value::Uint(b)) => {
                let sum = a.checked_add(b).map(Value::Uint);
                return sum.ok_or_else(|| EvalError::new("unsigned integer overflow"));
            }
            (Value::Double(a), Value::Double(b)) => Some(Value::Double(a + b)),
            (Value::Duration(a), Value::Duration(b)) => a.checked_add(b).map(Value::Duration),
            _ => return Err(EvalError::no_overload()),
        };
        sum.ok_or_else(|| EvalError::new("integer overflow"))
    })
}

/// The elements of a list, which must be comparable. cel-go selects the overload by the first element. So an
/// unsupported type is a missing overload only for the first element.
fn comparable<'l, 'a>(list: &'l List<'a>) -> impl Iterator<Item = EvalResult<Value<'a>>> + 'l {
    list.iter().enumerate().map(|(i, element)| match element {
        Value::Invalid(_) if i == 0 => Err(EvalError::no_overload()),
        Value::Invalid(error) => Err(error),
        Value::Null | Value::List(_) | Value::Map(_) | Value::Optional(_) | Value::Type(_) | Value::Opaque(_) => {
            Err(if i == 0 { EvalError::no_overload() } else { EvalError::new("no such overload") })
        }
        value => Ok(value),
    })
}

fn is_sorted<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut before: Option<Value<'a>> = None;
    for element in comparable(list) {
        let element = element?;
        if let Some(before) = &before
            && matches!(compare(before, &element), Ok(Ordering::Greater))
        {
            return Ok(Value::Bool(false));
        }
        before = Some(element);
    }
    Ok(Value::Bool(true))
}

/// Returns the minimum or maximum. An element replaces the current one if the current one compares to it as `worse`.
fn extreme<'a>(args: &[Value<'a>], name: &str, worse: Ordering) -> EvalResult<Value<'a>> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut best: Option<Value<'a>> = None;
    for element in comparable(list) {
        let element = element?;
        match &best {
            Some(best) if compare(best, &element).ok() != Some(worse) => {}
            _ => best = Some(element),
        }
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

fn index_of<'a>(args: &[Value<'a>], last: bool) -> EvalResult<Value<'a>> {
    let [Value::List(list), value] = args else { return Err(EvalError::no_overload()) };
    let found = |index: &usize| list.get(*index).is_some_and(|element| equal(&element, value));
    let index = if last { (0..list.len()).rev().find(found) } else { (0..list.len()).find(found) };
    Ok(Value::Int(index.map_or(-1, |index| index as i64)))
}

/// One unit per element, plus its traversal for strings and bytes. A string target is traversed once.
pub(super) fn estimate_search(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let size = call.size(target);
    let Some(elements) = call.elements(target) else {
        return Some(CallEstimate::cost(size.times_factor(STRING_TRAVERSAL_COST_FACTOR)));
    };
    let mut each = CostEstimate::fixed(1);
    if matches!(elements.ty, Type::String | Type::Bytes) {
        each = each.plus(call.size(&elements).times_factor(STRING_TRAVERSAL_COST_FACTOR));
    }
    Some(CallEstimate::cost(size.times_cost(each)))
}
