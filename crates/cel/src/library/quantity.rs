//! Amounts with units: `quantity('1Gi')`.

use std::any::Any;
use std::cmp::Ordering;

use pintle_value::Quantity;
use pintle_value::quantity::Format;

use super::Library;
use crate::cost::{CallEstimate, CallSizes, CostEstimate, PER_CHARACTER, charge};
use crate::error::EvalError;
use crate::function::{Eval, Function, Overload};
use crate::types::Type;
use crate::value::{Opaque, Outcome, Value};

const NAME: &str = "kubernetes.Quantity";

/// An amount as a value.
#[derive(Clone, Debug)]
struct Amount(Quantity);

impl Opaque for Amount {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn library() -> Library {
    let q = Type::object(NAME);
    let one = [q.clone()];
    let two = [q.clone(), q.clone()];
    let with_int = [q.clone(), Type::Int];
    let member = |id, params: &[Type], result: Type, run: Eval| Overload::member(id, params, result).run(run);
    let accessors = vec![
        Function::new("sign").overload(
            Overload::global("quantity_sign", &one, Type::Int)
                .run(|args| Ok(Value::Int(i64::from(first(args)?.sign())))),
        ),
        Function::new("isGreaterThan").overload(member("quantity_is_greater_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(order(args)? == Ordering::Greater))
        })),
        Function::new("isLessThan").overload(member("quantity_is_less_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(order(args)? == Ordering::Less))
        })),
        Function::new("compareTo")
            .overload(member("quantity_compare_to", &two, Type::Int, |args| Ok(Value::Int(order(args)? as i64)))),
        Function::new("asApproximateFloat").overload(member("quantity_get_float", &one, Type::Double, |args| {
            Ok(Value::Double(first(args)?.as_float()))
        })),
        Function::new("asInteger").overload(member("quantity_get_int", &one, Type::Int, |args| {
            let value = first(args)?.as_int();
            value.map(Value::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
        })),
        Function::new("isInteger").overload(member("quantity_is_integer", &one, Type::Bool, |args| {
            Ok(Value::Bool(first(args)?.as_int().is_some()))
        })),
        Function::new("add")
            .overload(member("quantity_add", &two, q.clone(), |args| combined(args, Quantity::add)))
            .overload(member("quantity_add_int", &with_int, q.clone(), |args| combined(args, Quantity::add))),
        Function::new("sub")
            .overload(member("quantity_sub", &two, q.clone(), |args| combined(args, Quantity::sub)))
            .overload(member("quantity_sub_int", &with_int, q.clone(), |args| combined(args, Quantity::sub))),
    ];
    let mut functions: Vec<Function> =
        accessors.into_iter().map(|function| function.charge(charge::one).estimate(estimate_one)).collect();
    functions.push(
        Function::new("quantity")
            .overload(Overload::global("string_to_quantity", &[Type::String], q).run(|args| match args {
                [Value::String(text)] => match Quantity::parse(text) {
                    Ok(quantity) => Ok(Value::opaque(Amount(quantity))),
                    Err(error) => Err(EvalError::new(error.to_string())),
                },
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first)
            .estimate(estimate_parse),
    );
    functions.push(
        Function::new("isQuantity")
            .overload(Overload::global("is_quantity_string", &[Type::String], Type::Bool).run(|args| match args {
                [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first)
            .estimate(estimate_parse),
    );
    Library::of(functions)
}

fn first<'v>(args: &'v [Value<'_>]) -> Outcome<&'v Quantity> {
    let amount = args.first().and_then(Value::as_opaque::<Amount>);
    amount.map(|amount| &amount.0).ok_or_else(EvalError::no_overload)
}

fn order(args: &[Value<'_>]) -> Outcome<Ordering> {
    let [a, b] = args else { return Err(EvalError::no_overload()) };
    match (a.as_opaque::<Amount>(), b.as_opaque::<Amount>()) {
        (Some(a), Some(b)) => Ok(a.0.cmp(&b.0)),
        _ => Err(EvalError::no_overload()),
    }
}

fn combined<'a>(args: &[Value<'a>], change: fn(&mut Quantity, &Quantity)) -> Outcome<Value<'a>> {
    let mut result = first(args)?.clone();
    match args {
        [_, Value::Int(i)] => change(&mut result, &Quantity::new(*i, Format::DecimalExponent)),
        [_, other] => change(&mut result, first(std::slice::from_ref(other))?),
        _ => return Err(EvalError::no_overload()),
    }
    Ok(Value::opaque(Amount(result)))
}

/// Accessors cost one, whatever the value is.
#[expect(clippy::unnecessary_wraps, reason = "the signature of estimates")]
pub(super) fn estimate_one(_: &CallSizes<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::cost(CostEstimate::fixed(1)))
}

/// A walk over the text that is read.
pub(super) fn estimate_parse(call: &CallSizes<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::cost(call.size(call.args.first()?).per_unit(PER_CHARACTER)))
}
