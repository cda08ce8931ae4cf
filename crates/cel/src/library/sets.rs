//! Set operations on lists: `sets.contains`, `sets.equivalent`, `sets.intersects` (upstream: cel-go `ext/sets.go`).

use super::Library;
use crate::cost::{CallEstimate, CostEstimate, EstimatedCall, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionEstimator, FunctionOp, FunctionTracker, Overload};
use crate::types::Type;
use crate::value::{EvalResult, List, Value};

pub(super) fn library() -> Library {
    let list = Type::list(Type::param("T"));
    let function = |name, id, binding: FunctionOp, cost_tracker: FunctionTracker, estimate: FunctionEstimator| {
        let overload = Overload::global(id, &[list.clone(), list.clone()], Type::Bool);
        Function::new(name).overload(overload.binding(binding).cost_tracker(cost_tracker).cost_estimator(estimate))
    };
    let single_pass: (FunctionTracker, FunctionEstimator) =
        (|args, _| track_pairs(args, 1.0), |call| estimate_pairs(call, 1.0));
    let two_passes: (FunctionTracker, FunctionEstimator) =
        (|args, _| track_pairs(args, 2.0), |call| estimate_pairs(call, 2.0));
    Library::of(vec![
        function(
            "sets.contains",
            "list_sets_contains_list",
            |args| match args {
                [Value::List(all), Value::List(some)] => contains(all, some).map(Value::Bool),
                _ => Err(EvalError::no_overload()),
            },
            single_pass.0,
            single_pass.1,
        ),
        function(
            "sets.equivalent",
            "list_sets_equivalent_list",
            |args| match args {
                [Value::List(a), Value::List(b)] => Ok(Value::Bool(contains(a, b)? && contains(b, a)?)),
                _ => Err(EvalError::no_overload()),
            },
            two_passes.0,
            two_passes.1,
        ),
        function(
            "sets.intersects",
            "list_sets_intersects_list",
            |args| match args {
                [Value::List(a), Value::List(b)] => {
                    for element in a.iter() {
                        match b.contains(&element) {
                            Ok(true) => return Ok(Value::Bool(true)),
                            Err(error) if error.is_fatal() => return Err(error),
                            _ => {}
                        }
                    }
                    Ok(Value::Bool(false))
                }
                _ => Err(EvalError::no_overload()),
            },
            single_pass.0,
            single_pass.1,
        ),
    ])
}

fn contains(all: &List<'_>, some: &List<'_>) -> EvalResult<bool> {
    for element in some.iter() {
        if !all.contains(&element)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn track_pairs(args: &[Value<'_>], factor: f64) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, tracker::actual_size);
    1 + (size(0).saturating_mul(size(1)) as f64 * factor) as u64
}

fn estimate_pairs(call: &EstimatedCall<'_>, factor: f64) -> Option<CallEstimate> {
    let [a, b] = call.args else { return None };
    let pairs = call.size(a).times(call.size(b));
    Some(CallEstimate::cost(pairs.times_factor(factor).plus(CostEstimate::fixed(1))))
}
