//! More list functions: cel-go's lists extension, version 3.

use std::cmp::Ordering;
use std::slice::from_ref as just;

use super::Library;
use super::operators::lacking;
use crate::cost::{CallEstimate, CallSizes, CostEstimate, LIST_COST, PER_CHARACTER, SizeEstimate, charge};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::syntax::{
    Comprehension, Expansion, Expr, ExprKind, Literal, Macro, MacroContext, MacroError, UNUSED, expand_map,
};
use crate::types::Type;
use crate::value::{List, Outcome, Value, compare, equal};

/// The longest list that `lists.range` makes before the cost is looked at.
const LONGEST_RANGE: i64 = 10_000_000;

pub(super) fn library() -> Library {
    let list = Type::list(Type::param("T"));
    let dynamic = Type::list(Type::Dyn);
    let functions = vec![
        Function::new("slice").overload(
            Overload::member("list_slice", &[list.clone(), Type::Int, Type::Int], list.clone())
                .run(slice)
                .charge(|_, result| charge::list(1.0, result.size().unwrap_or(1)))
                .estimate(estimate_slice),
        ),
        Function::new("flatten")
            .overload(
                Overload::member("list_flatten", &[Type::list(list.clone())], list.clone())
                    .charge(charge_flatten)
                    .estimate(estimate_flatten),
            )
            .overload(
                Overload::member("list_flatten_int", &[dynamic.clone(), Type::Int], dynamic)
                    .charge(charge_flatten)
                    .estimate(estimate_flatten),
            )
            .run(|args| match args {
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
                .run(range)
                .charge(|_, result| charge::list(1.0, result.size().unwrap_or(1)))
                .estimate(|call| {
                    let [n] = call.args else { return None };
                    Some(allocating(1.0, SizeEstimate::fixed(int_or(n.int, u64::MAX))))
                }),
        ),
        Function::new("reverse").overload(
            Overload::member("list_reverse", just(&list), list.clone())
                .run(|args| match args {
                    [Value::List(list)] => Ok(Value::list((0..list.len()).rev().filter_map(|i| list.get(i)).collect())),
                    _ => Err(EvalError::no_overload()),
                })
                .charge(|_, result| charge::list(1.0, result.size().unwrap_or(1)))
                .estimate(|call| Some(allocating(1.0, call.size(call.target?)))),
        ),
        Function::new("distinct").sized_by(0).overload(
            Overload::member("list_distinct", just(&list), list.clone())
                .run(distinct)
                .charge(|args, _| charge::compare_all(args.first()))
                .estimate(|call| {
                    let size = call.size(call.target?);
                    Some(allocating(2.0, size.times(size)))
                }),
        ),
    ];
    let macros = vec![Macro { function: "sortBy", receiver: true, arity: 2, expand: expand_sort_by }];
    Library { functions, macros, types: Vec::new() }
}

macro_rules! per_type {
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
    let overloads = per_type!("sort").into_iter().map(|(id, t)| {
        Overload::member(id, &[Type::list(t.clone())], Type::list(t))
            .charge(|args, _| charge::compare_all(args.first()))
            .estimate(|call| estimate_sort(call, call.size(call.target?)))
    });
    overloads.fold(Function::new("sort").sized_by(0), Function::overload).run(|args| match args {
        [Value::List(list)] => sorted(list, list),
        _ => Err(lacking("sort", args)),
    })
}

fn sort_by(list: &Type) -> Function {
    let overloads = per_type!("sortByAssociatedKeys").into_iter().map(|(id, t)| {
        Overload::member(id, &[list.clone(), Type::list(t)], list.clone())
            .charge(|args, _| charge::compare_all(args.get(1)))
            .estimate(|call| estimate_sort(call, call.size(call.args.first()?)))
    });
    overloads.fold(Function::new("@sortByAssociatedKeys").sized_by(1), Function::overload).run(|args| match args {
        [Value::List(list), Value::List(keys)] => sorted(list, keys),
        _ => Err(lacking("@sortByAssociatedKeys", args)),
    })
}

fn slice<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return Err(EvalError::no_overload()) };
    let refused = |why: String| EvalError::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(refused("negative indexes not supported".to_owned()));
    };
    if from > to {
        return Err(refused("start index must be less than or equal to end index".to_owned()));
    }
    if list.len() < to {
        return Err(refused(format!("list is length {}", list.len())));
    }
    Ok(Value::list((from..to).filter_map(|i| list.get(i)).collect()))
}

fn flattened<'a>(list: &List<'a>, depth: i64) -> Outcome<Value<'a>> {
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten(list, depth, &mut out);
    Ok(Value::list(out))
}

fn flatten<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) {
    for element in list.iter() {
        match &element {
            Value::List(inner) if depth > 0 => flatten(inner, depth - 1, out),
            _ => out.push(element),
        }
    }
}

fn range<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let [Value::Int(n)] = args else { return Err(EvalError::no_overload()) };
    // Longer ones cost more than any expression may.
    Ok(Value::list((0..(*n).min(LONGEST_RANGE)).map(Value::Int).collect()))
}

fn distinct<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut unique: Vec<Value<'a>> = Vec::new();
    for element in list.iter() {
        if !unique.iter().any(|known| equal(known, &element)) {
            unique.push(element);
        }
    }
    Ok(Value::list(unique))
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Outcome<Value<'a>> {
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

/// `target.sortBy(x, key)`: the target under a name, and the keys that a loop makes of it.
fn expand_sort_by(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Result<Expansion, MacroError> {
    const INPUT: &str = "@__sortBy_input__";
    let Some(target) = target else { return Ok(Expansion::Declined { target, args }) };
    let input = ctx.ident(INPUT);
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
    let copy = ctx.copy(&input);
    let keys = match expand_map(ctx, Some(copy), args)? {
        Expansion::Done(keys) => keys,
        declined @ Expansion::Declined { .. } => return Ok(declined),
    };
    let copy = ctx.copy(&input);
    let result = ctx.member_call("@sortByAssociatedKeys", copy, vec![keys]);
    let range = ctx.list(Vec::new());
    let condition = ctx.literal(Literal::Bool(false));
    Ok(Expansion::Done(ctx.comprehension(Comprehension {
        range,
        var: UNUSED.into(),
        var2: None,
        accu: INPUT.into(),
        init: target,
        condition,
        step: input,
        result,
    })))
}

fn int_or(int: Option<i64>, otherwise: u64) -> u64 {
    int.map_or(otherwise, |int| u64::try_from(int).unwrap_or(0))
}

fn allocating(per_unit: f64, size: SizeEstimate) -> CallEstimate {
    CallEstimate::sized(size.per_unit(per_unit).plus(CostEstimate::fixed(1 + LIST_COST)), size)
}

fn charge_flatten(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let depth = match args {
        [_, Value::Int(depth)] => *depth as f64,
        _ => 1.0,
    };
    charge::list(depth, args.first().and_then(Value::size).unwrap_or(1))
}

fn estimate_flatten(call: &CallSizes<'_>) -> Option<CallEstimate> {
    let depth = call.args.first().map_or(1, |depth| int_or(depth.int, u64::MAX));
    Some(allocating(depth as f64, call.size(call.target?)))
}

fn estimate_slice(call: &CallSizes<'_>) -> Option<CallEstimate> {
    let [start, end] = call.args else { return None };
    let size = call.size(call.target?);
    let (start, end) = (int_or(start.int, 0), int_or(end.int, size.max));
    Some(allocating(1.0, SizeEstimate::fixed(end.wrapping_sub(start))))
}

fn estimate_sort(call: &CallSizes<'_>, size: SizeEstimate) -> Option<CallEstimate> {
    let text = call.overload.starts_with("list_string_") || call.overload.starts_with("list_bytes_");
    Some(allocating(if text { 2.0 + PER_CHARACTER } else { 2.0 }, size.times(size)))
}
