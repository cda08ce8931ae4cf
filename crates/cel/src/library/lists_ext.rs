//! cel-go's lists extension, version 3 (upstream: cel-go `ext/lists.go`).

use std::cmp::Ordering;
use std::slice::from_ref;

use pintle_budget as budget;

use super::Library;
use super::operators::missing_operator;
use crate::cost::{
    CallEstimate, CostEstimate, EstimatedCall, LIST_CREATE_BASE_COST, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate,
    tracker,
};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::program::PER_CALL_COST_LIMIT;
use crate::syntax::{
    Comprehension, Expr, ExprKind, Literal, Macro, MacroError, MacroExpansion, MacroExprFactory, UNUSED_ITER_VAR,
    expand_map,
};
use crate::types::Type;
use crate::value::{ELEMENT_BYTES, EvalResult, List, Value, compare, ensure_room, equal};

/// The maximum length of a list that `lists.range` creates. A longer list exceeds the cost limit, which is checked only
/// afterwards.
const MAX_RANGE_LENGTH: i64 = PER_CALL_COST_LIMIT as i64 + 1;

pub(super) fn library() -> Library {
    let list = Type::list(Type::param("T"));
    let dynamic = Type::list(Type::Dyn);
    let functions = vec![
        Function::new("slice").overload(
            Overload::member("list_slice", &[list.clone(), Type::Int, Type::Int], list.clone())
                .binding(slice)
                .cost_tracker(|_, result| tracker::list_creation(1.0, result.size().unwrap_or(1)))
                .cost_estimator(estimate_slice),
        ),
        Function::new("flatten")
            .overload(
                Overload::member("list_flatten", &[Type::list(list.clone())], list.clone())
                    .cost_tracker(track_flatten)
                    .cost_estimator(estimate_flatten),
            )
            .overload(
                Overload::member("list_flatten_int", &[dynamic.clone(), Type::Int], dynamic)
                    .cost_tracker(track_flatten)
                    .cost_estimator(estimate_flatten),
            )
            .binding(|args| match args {
                [Value::List(list)] => flattened(list, 1),
                [Value::List(list), Value::Int(depth)] => flattened(list, *depth),
                [other, depth @ ..] => {
                    let depth = depth.first().map(Value::type_name).unwrap_or_default();
                    Err(EvalError::new(format!("no such overload: {}.flatten({depth})", other.type_name())))
                }
                [] => Err(EvalError::no_overload()),
            }),
        sort(),
        sort_by(&list),
        Function::new("lists.range").overload(
            Overload::global("lists_range", &[Type::Int], Type::list(Type::Int))
                .binding(range)
                .cost_tracker(|_, result| tracker::list_creation(1.0, result.size().unwrap_or(1)))
                .cost_estimator(|call| {
                    let [n] = call.args else { return None };
                    Some(list_creation_estimate(1.0, SizeEstimate::fixed(size_or(n.int, u64::MAX))))
                }),
        ),
        Function::new("reverse").overload(
            Overload::member("list_reverse", from_ref(&list), list.clone())
                .binding(|args| match args {
                    [Value::List(list)] => Ok(Value::list((0..list.len()).rev().filter_map(|i| list.get(i)).collect())),
                    _ => Err(EvalError::no_overload()),
                })
                .cost_tracker(|_, result| tracker::list_creation(1.0, result.size().unwrap_or(1)))
                .cost_estimator(|call| Some(list_creation_estimate(1.0, call.size(call.target?)))),
        ),
        Function::new("distinct").measured_list(0).overload(
            Overload::member("list_distinct", from_ref(&list), list.clone())
                .binding(distinct)
                .cost_tracker(|args, _| tracker::pairwise_comparison(args.first()))
                .cost_estimator(|call| {
                    let size = call.size(call.target?);
                    Some(list_creation_estimate(2.0, size.times(size)))
                }),
        ),
    ];
    let macros = vec![Macro { function: "sortBy", is_member: true, arg_count: 2, expand: expand_sort_by }];
    Library { functions, macros, types: Vec::new() }
}

macro_rules! overloads_per_type {
    ($name:literal) => {
        [
            (concat!("list_int_", $name), Type::Int),
            (concat!("list_uint_", $name), Type::Uint),
            (concat!("list_double_", $name), Type::Double),
            (concat!("list_bool_", $name), Type::Bool),
            (concat!("list_google.protobuf.Duration_", $name), Type::Duration),
            (concat!("list_google.protobuf.Timestamp_", $name), Type::Timestamp),
            (concat!("list_string_", $name), Type::String),
            (concat!("list_bytes_", $name), Type::Bytes),
        ]
    };
}

fn sort() -> Function {
    let overloads = overloads_per_type!("sort").into_iter().map(|(id, t)| {
        Overload::member(id, &[Type::list(t.clone())], Type::list(t))
            .cost_tracker(|args, _| tracker::pairwise_comparison(args.first()))
            .cost_estimator(|call| estimate_sort(call, call.size(call.target?)))
    });
    overloads.fold(Function::new("sort").measured_list(0), Function::overload).binding(|args| match args {
        [Value::List(list)] => sorted(list, list),
        _ => Err(missing_operator("sort", args)),
    })
}

fn sort_by(list: &Type) -> Function {
    let overloads = overloads_per_type!("sortByAssociatedKeys").into_iter().map(|(id, t)| {
        Overload::member(id, &[list.clone(), Type::list(t)], list.clone())
            .cost_tracker(|args, _| tracker::pairwise_comparison(args.get(1)))
            .cost_estimator(|call| estimate_sort(call, call.size(call.args.first()?)))
    });
    overloads.fold(Function::new("@sortByAssociatedKeys").measured_list(1), Function::overload).binding(|args| {
        match args {
            [Value::List(list), Value::List(keys)] => sorted(list, keys),
            _ => Err(missing_operator("@sortByAssociatedKeys", args)),
        }
    })
}

fn slice<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return Err(EvalError::no_overload()) };
    let error = |reason: String| EvalError::new(format!("cannot slice({start}, {end}), {reason}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(error("negative indexes not supported".to_owned()));
    };
    if from > to {
        return Err(error("start index must be less than or equal to end index".to_owned()));
    }
    if list.len() < to {
        return Err(error(format!("list is length {}", list.len())));
    }
    Ok(Value::list((from..to).filter_map(|i| list.get(i)).collect()))
}

fn flattened<'a>(list: &List<'a>, depth: i64) -> EvalResult<Value<'a>> {
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten(list, depth, &mut out)?;
    Ok(Value::list(out))
}

fn flatten<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) -> EvalResult<()> {
    for element in list.iter() {
        budget::step()?;
        match &element {
            Value::List(inner) if depth > 0 => flatten(inner, depth - 1, out)?,
            _ => {
                budget::try_charge(ELEMENT_BYTES)?;
                out.push(element);
            }
        }
    }
    Ok(())
}

fn range<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::Int(n)] = args else { return Err(EvalError::no_overload()) };
    let length = (*n).min(MAX_RANGE_LENGTH);
    ensure_room(usize::try_from(length).unwrap_or(0) * ELEMENT_BYTES)?;
    Ok(Value::list((0..length).map(Value::Int).collect()))
}

fn distinct<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut unique: Vec<Value<'a>> = Vec::new();
    for element in list.iter() {
        let is_known = unique.iter().any(|known| equal(known, &element));
        // Comparing the elements of a list of a megabyte takes minutes.
        budget::spend(unique.len())?;
        if !is_known {
            unique.push(element);
        }
    }
    Ok(Value::list(unique))
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> EvalResult<Value<'a>> {
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.iter().zip(list.iter()).collect();
    let Some((first, _)) = pairs.first() else { return Ok(Value::List(list.clone())) };
    let ordered = matches!(
        first,
        Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Bool(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::String(_)
            | Value::Bytes(_)
    );
    if !ordered {
        return Err(EvalError::new("list elements must be comparable"));
    }
    let wanted = first.type_name();
    if pairs.len() > 1 && pairs.iter().any(|(key, _)| key.type_name() != wanted) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, element)| element).collect()))
}

/// Expands `target.sortBy(x, key)`: binds the target to a variable and computes the keys with a `map` comprehension.
fn expand_sort_by(
    factory: &mut MacroExprFactory<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<MacroExpansion, MacroError> {
    const INPUT: &str = "@__sortBy_input__";
    let Some(target) = target else { return Ok(MacroExpansion::NotApplicable { target, args }) };
    let input = factory.ident(INPUT);
    let sortable = matches!(
        target.kind,
        ExprKind::List { .. }
            | ExprKind::Select { .. }
            | ExprKind::Ident(_)
            | ExprKind::Comprehension(_)
            | ExprKind::Call { .. }
    );
    if !sortable {
        return Err(MacroError {
            id: target.id,
            message: "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
                .to_owned(),
        });
    }
    let copy = factory.copy(&input);
    let keys = match expand_map(factory, Some(copy), args)? {
        MacroExpansion::Expanded(keys) => keys,
        declined @ MacroExpansion::NotApplicable { .. } => return Ok(declined),
    };
    let copy = factory.copy(&input);
    let result = factory.member_call("@sortByAssociatedKeys", copy, vec![keys]);
    let iter_range = factory.list(Vec::new());
    let loop_condition = factory.literal(Literal::Bool(false));
    Ok(MacroExpansion::Expanded(factory.comprehension(Comprehension {
        iter_range,
        iter_var: UNUSED_ITER_VAR.into(),
        iter_var2: None,
        accu_var: INPUT.into(),
        accu_init: target,
        loop_condition,
        loop_step: input,
        result,
    })))
}

fn size_or(int: Option<i64>, default: u64) -> u64 {
    int.map_or(default, |int| u64::try_from(int).unwrap_or(0))
}

fn list_creation_estimate(factor: f64, size: SizeEstimate) -> CallEstimate {
    CallEstimate::sized(size.times_factor(factor).plus(CostEstimate::fixed(1 + LIST_CREATE_BASE_COST)), size)
}

fn track_flatten(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let depth = match args {
        [_, Value::Int(depth)] => *depth as f64,
        _ => 1.0,
    };
    tracker::list_creation(depth, args.first().and_then(Value::size).unwrap_or(1))
}

fn estimate_flatten(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let depth = call.args.first().map_or(1, |depth| size_or(depth.int, u64::MAX));
    Some(list_creation_estimate(depth as f64, call.size(call.target?)))
}

fn estimate_slice(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let [start, end] = call.args else { return None };
    let size = call.size(call.target?);
    let (start, end) = (size_or(start.int, 0), size_or(end.int, size.max));
    Some(list_creation_estimate(1.0, SizeEstimate::fixed(end.wrapping_sub(start))))
}

fn estimate_sort(call: &EstimatedCall<'_>, size: SizeEstimate) -> Option<CallEstimate> {
    let text = call.overload.starts_with("list_string_") || call.overload.starts_with("list_bytes_");
    Some(list_creation_estimate(if text { 2.0 + STRING_TRAVERSAL_COST_FACTOR } else { 2.0 }, size.times(size)))
}
