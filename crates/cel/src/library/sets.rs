//! Lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`.

use super::Library;
use crate::cost::{CallEstimate, CallSizes, CostEstimate, charge};
use crate::error::EvalError;
use crate::function::{Charge, Estimate, Eval, Function, Overload};
use crate::types::Type;
use crate::value::{List, Outcome, Value};

pub(super) fn library() -> Library {
    let list = Type::list(Type::param("T"));
    let function = |name, id, run: Eval, charge: Charge, estimate: Estimate| {
        let overload = Overload::global(id, &[list.clone(), list.clone()], Type::Bool);
        Function::new(name).overload(overload.run(run).charge(charge).estimate(estimate))
    };
    let once: (Charge, Estimate) = (|args, _| charge_pairs(args, 1.0), |call| estimate_pairs(call, 1.0));
    let twice: (Charge, Estimate) = (|args, _| charge_pairs(args, 2.0), |call| estimate_pairs(call, 2.0));
    Library::of(vec![
        function(
            "sets.contains",
            "list_sets_contains_list",
            |args| match args {
                [Value::List(all), Value::List(some)] => contains(all, some).map(Value::Bool),
                _ => Err(EvalError::no_overload()),
            },
            once.0,
            once.1,
        ),
        function(
            "sets.equivalent",
            "list_sets_equivalent_list",
            |args| match args {
                [Value::List(a), Value::List(b)] => Ok(Value::Bool(contains(a, b)? && contains(b, a)?)),
                _ => Err(EvalError::no_overload()),
            },
            twice.0,
            twice.1,
        ),
        function(
            "sets.intersects",
            "list_sets_intersects_list",
            |args| match args {
                [Value::List(a), Value::List(b)] => {
                    Ok(Value::Bool(a.iter().any(|element| b.contains(&element) == Ok(true))))
                }
                _ => Err(EvalError::no_overload()),
            },
            once.0,
            once.1,
        ),
    ])
}

fn contains(all: &List<'_>, some: &List<'_>) -> Outcome<bool> {
    for element in some.iter() {
        if !all.contains(&element)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn charge_pairs(args: &[Value<'_>], factor: f64) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, charge::size);
    1 + (size(0).saturating_mul(size(1)) as f64 * factor) as u64
}

fn estimate_pairs(call: &CallSizes<'_>, factor: f64) -> Option<CallEstimate> {
    let [a, b] = call.args else { return None };
    let pairs = call.size(a).times(call.size(b));
    Some(CallEstimate::cost(pairs.per_unit(factor).plus(CostEstimate::fixed(1))))
}
