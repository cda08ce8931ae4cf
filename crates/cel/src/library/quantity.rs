//! Resource quantities: `quantity('1Gi')` (upstream: `apiserver/pkg/cel/library/quantity.go`).

use std::any::Any;
use std::cmp::Ordering;

use pintle_value::Quantity;
use pintle_value::quantity::Format;

use super::Library;
use crate::cost::{CallEstimate, CostEstimate, EstimatedCall, STRING_TRAVERSAL_COST_FACTOR, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{EvalResult, Opaque, Value};

const TYPE_NAME: &str = "kubernetes.Quantity";

/// A quantity as an opaque value.
#[derive(Clone, Debug)]
struct QuantityValue(Quantity);

impl Opaque for QuantityValue {
    fn type_name(&self) -> &str {
        TYPE_NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn library() -> Library {
    let q = Type::object(TYPE_NAME);
    let one = [q.clone()];
    let two = [q.clone(), q.clone()];
    let with_int = [q.clone(), Type::Int];
    let member =
        |id, params: &[Type], result: Type, binding: FunctionOp| Overload::member(id, params, result).binding(binding);
    let accessors = vec![
        Function::new("sign").overload(
            Overload::global("quantity_sign", &one, Type::Int)
                .binding(|args| Ok(Value::Int(i64::from(receiver(args)?.sign())))),
        ),
        Function::new("isGreaterThan").overload(member("quantity_is_greater_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(compare(args)? == Ordering::Greater))
        })),
        Function::new("isLessThan").overload(member("quantity_is_less_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(compare(args)? == Ordering::Less))
        })),
        Function::new("compareTo")
            .overload(member("quantity_compare_to", &two, Type::Int, |args| Ok(Value::Int(compare(args)? as i64)))),
        Function::new("asApproximateFloat").overload(member("quantity_get_float", &one, Type::Double, |args| {
            Ok(Value::Double(receiver(args)?.as_float()))
        })),
        Function::new("asInteger").overload(member("quantity_get_int", &one, Type::Int, |args| {
            let value = receiver(args)?.as_int();
            value.map(Value::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
        })),
        Function::new("isInteger").overload(member("quantity_is_integer", &one, Type::Bool, |args| {
            Ok(Value::Bool(receiver(args)?.as_int().is_some()))
        })),
        Function::new("add")
            .overload(member("quantity_add", &two, q.clone(), |args| with_operand(args, Quantity::add)))
            .overload(member("quantity_add_int", &with_int, q.clone(), |args| with_operand(args, Quantity::add))),
        Function::new("sub")
            .overload(member("quantity_sub", &two, q.clone(), |args| with_operand(args, Quantity::sub)))
            .overload(member("quantity_sub_int", &with_int, q.clone(), |args| with_operand(args, Quantity::sub))),
    ];
    let mut functions: Vec<Function> = accessors
        .into_iter()
        .map(|function| function.cost_tracker(tracker::one).cost_estimator(estimate_one))
        .collect();
    functions.push(
        Function::new("quantity")
            .overload(Overload::global("string_to_quantity", &[Type::String], q).binding(|args| match args {
                [Value::String(text)] => match Quantity::parse(text) {
                    Ok(quantity) => Ok(Value::opaque(QuantityValue(quantity))),
                    Err(error) => Err(EvalError::new(error.to_string())),
                },
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
    );
    functions.push(
        Function::new("isQuantity")
            .overload(Overload::global("is_quantity_string", &[Type::String], Type::Bool).binding(|args| match args {
                [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
    );
    Library::of(functions)
}

fn receiver<'v>(args: &'v [Value<'_>]) -> EvalResult<&'v Quantity> {
    let quantity = args.first().and_then(Value::as_opaque::<QuantityValue>);
    quantity.map(|quantity| &quantity.0).ok_or_else(EvalError::no_overload)
}

fn compare(args: &[Value<'_>]) -> EvalResult<Ordering> {
    let [a, b] = args else { return Err(EvalError::no_overload()) };
    match (a.as_opaque::<QuantityValue>(), b.as_opaque::<QuantityValue>()) {
        (Some(a), Some(b)) => Ok(a.0.cmp(&b.0)),
        _ => Err(EvalError::no_overload()),
    }
}

fn with_operand<'a>(args: &[Value<'a>], operation: fn(&mut Quantity, &Quantity)) -> EvalResult<Value<'a>> {
    let mut result = receiver(args)?.clone();
    match args {
        [_, Value::Int(i)] => operation(&mut result, &Quantity::new(*i, Format::DecimalExponent)),
        [_, other] => operation(&mut result, receiver(std::slice::from_ref(other))?),
        _ => return Err(EvalError::no_overload()),
    }
    Ok(Value::opaque(QuantityValue(result)))
}

/// Accessors always cost one.
#[expect(clippy::unnecessary_wraps, reason = "the signature of estimates")]
pub(super) fn estimate_one(_: &EstimatedCall<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::cost(CostEstimate::fixed(1)))
}

/// The cost of traversing the string to parse.
pub(super) fn estimate_parse(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::cost(call.size(call.args.first()?).times_factor(STRING_TRAVERSAL_COST_FACTOR)))
}
