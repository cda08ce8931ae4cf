//! Operators, `size`, and what loops are made of.

use std::cmp::Ordering;
use std::slice::from_ref as just;

use crate::cost::charge;
use crate::error::EvalError;
use crate::function::{Charge, Eval, Function, Overload};
use crate::types::Type;
use crate::value::{Blob, Outcome, Value, compare};

pub(super) fn functions() -> Vec<Function> {
    let (a, b) = (Type::param("A"), Type::param("B"));
    let (list, map) = (Type::list(a.clone()), Type::map(a.clone(), b.clone()));
    let both = |id, params: &[Type]| Overload::global(id, params, Type::Bool);
    let unary = |id, t: Type| Overload::global(id, just(&t), t.clone());
    let mut functions = vec![
        Function::new("_?_:_").overload(Overload::global(
            "conditional",
            &[Type::Bool, a.clone(), a.clone()],
            a.clone(),
        )),
        Function::new("_&&_").overload(both("logical_and", &[Type::Bool, Type::Bool])),
        Function::new("_||_").overload(both("logical_or", &[Type::Bool, Type::Bool])),
        Function::new("!_").overload(unary("logical_not", Type::Bool)).run(not),
        Function::new("@not_strictly_false")
            .overload(both("not_strictly_false", &[Type::Bool]))
            .run(|args| Ok(Value::Bool(!matches!(args, [Value::Bool(false)])))),
        Function::new("_==_").overload(both("equals", &[a.clone(), a.clone()])),
        Function::new("_!=_").overload(both("not_equals", &[a.clone(), a.clone()])),
        Function::new("-_")
            .overload(unary("negate_double", Type::Double))
            .overload(unary("negate_int64", Type::Int))
            .run(negate),
        Function::new("_[_]")
            .overload(Overload::global("index_list", &[list.clone(), Type::Int], a.clone()))
            .overload(Overload::global("index_map", &[map.clone(), a.clone()], b)),
        Function::new("@in")
            .overload(both("in_list", &[a.clone(), list.clone()]).charge(charge::elements_of_second))
            .overload(both("in_map", &[a, map.clone()]))
            .run(contains),
        size(&list, &map),
    ];
    functions.extend(arithmetic(&list));
    functions.extend(comparisons());
    functions
}

fn binary(id: &'static str, a: Type, b: Type, result: Type) -> Overload {
    Overload::global(id, &[a, b], result)
}

fn same(id: &'static str, t: Type) -> Overload {
    binary(id, t.clone(), t.clone(), t)
}

fn arithmetic(list: &Type) -> Vec<Function> {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    vec![
        Function::new("_+_")
            .overload(same("add_bytes", Bytes).charge(charge::both))
            .overload(same("add_double", Double))
            .overload(same("add_duration_duration", Duration))
            .overload(binary("add_duration_timestamp", Duration, Timestamp, Timestamp))
            .overload(binary("add_timestamp_duration", Timestamp, Duration, Timestamp))
            .overload(same("add_int64", Int))
            .overload(same("add_list", list.clone()))
            .overload(same("add_string", String).charge(charge::both))
            .overload(same("add_uint64", Uint))
            .run(add),
        Function::new("_/_")
            .overload(same("divide_double", Double))
            .overload(same("divide_int64", Int))
            .overload(same("divide_uint64", Uint))
            .run(divide),
        Function::new("_%_").overload(same("modulo_int64", Int)).overload(same("modulo_uint64", Uint)).run(modulo),
        Function::new("_*_")
            .overload(same("multiply_double", Double))
            .overload(same("multiply_int64", Int))
            .overload(same("multiply_uint64", Uint))
            .run(multiply),
        Function::new("_-_")
            .overload(same("subtract_double", Double))
            .overload(same("subtract_duration_duration", Duration))
            .overload(same("subtract_int64", Int))
            .overload(binary("subtract_timestamp_duration", Timestamp, Duration, Timestamp))
            .overload(binary("subtract_timestamp_timestamp", Timestamp, Timestamp, Duration))
            .overload(same("subtract_uint64", Uint))
            .run(subtract),
    ]
}

fn size(list: &Type, map: &Type) -> Function {
    let kinds = [
        ("size_bytes", "bytes_size", Type::Bytes),
        ("size_list", "list_size", list.clone()),
        ("size_map", "map_size", map.clone()),
        ("size_string", "string_size", Type::String),
    ];
    kinds
        .into_iter()
        .fold(Function::new("size"), |function, (global, member, t)| {
            function.overload(Overload::global(global, just(&t), Type::Int)).overload(Overload::member(
                member,
                &[t],
                Type::Int,
            ))
        })
        .run(|args| match args {
            [Value::Opaque(_)] | [] => Err(lacking("size", args)),
            [value, ..] => value.size().map(|size| Value::Int(size as i64)).ok_or_else(|| lacking("size", args)),
        })
}

/// The ids of the overloads of an order operator, in cel-go's order.
macro_rules! order_ids {
    ($name:literal) => {
        [
            concat!($name, "_bool"),
            concat!($name, "_int64"),
            concat!($name, "_int64_double"),
            concat!($name, "_int64_uint64"),
            concat!($name, "_uint64"),
            concat!($name, "_uint64_double"),
            concat!($name, "_uint64_int64"),
            concat!($name, "_double"),
            concat!($name, "_double_int64"),
            concat!($name, "_double_uint64"),
            concat!($name, "_string"),
            concat!($name, "_bytes"),
            concat!($name, "_timestamp"),
            concat!($name, "_duration"),
        ]
    };
}

fn comparisons() -> Vec<Function> {
    vec![
        comparison("_<_", order_ids!("less"), |args| ordered("_<_", args, |order| order == Ordering::Less)),
        comparison("_<=_", order_ids!("less_equals"), |args| ordered("_<=_", args, |order| order != Ordering::Greater)),
        comparison("_>_", order_ids!("greater"), |args| ordered("_>_", args, |order| order == Ordering::Greater)),
        comparison("_>=_", order_ids!("greater_equals"), |args| ordered("_>=_", args, |order| order != Ordering::Less)),
    ]
}

fn comparison(name: &str, ids: [&'static str; 14], run: Eval) -> Function {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let sides = [
        (Bool, Bool),
        (Int, Int),
        (Int, Double),
        (Int, Uint),
        (Uint, Uint),
        (Uint, Double),
        (Uint, Int),
        (Double, Double),
        (Double, Int),
        (Double, Uint),
        (String, String),
        (Bytes, Bytes),
        (Timestamp, Timestamp),
        (Duration, Duration),
    ];
    let by_size: Charge = charge::smaller;
    let overloads = ids.into_iter().zip(sides).map(|(id, (a, b))| {
        let text = matches!(a, String | Bytes);
        let overload = binary(id, a, b, Bool);
        if text { overload.charge(by_size) } else { overload }
    });
    overloads.fold(Function::new(name), Function::overload).run(run)
}

/// The first operand is of a type that does not know the operator at all. Types with functions of their own look for
/// it among these first, which shows in the message.
pub(super) fn lacking(operator: &str, args: &[Value<'_>]) -> EvalError {
    match args.first() {
        Some(Value::String(_) | Value::Duration(_) | Value::Timestamp(_)) => EvalError::no_overload(),
        _ => EvalError::new(format!("no such overload: {operator}")),
    }
}

fn ordered<'a>(name: &str, args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Outcome<Value<'a>> {
    let [a, b] = args else { return Err(EvalError::no_overload()) };
    if matches!(
        a,
        Value::Null | Value::List(_) | Value::Map(_) | Value::Optional(_) | Value::Type(_) | Value::Opaque(_)
    ) {
        return Err(lacking(name, args));
    }
    compare(a, b).map(|order| Value::Bool(holds(order)))
}

fn not<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    match args {
        [Value::Bool(b)] => Ok(Value::Bool(!b)),
        _ => Err(EvalError::no_overload()),
    }
}

fn int(value: Option<i64>) -> Outcome<Value<'static>> {
    value.map(Value::Int).ok_or_else(|| EvalError::new("integer overflow"))
}

fn uint(value: Option<u64>) -> Outcome<Value<'static>> {
    value.map(Value::Uint).ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

fn duration(value: Option<i64>) -> Outcome<Value<'static>> {
    // cel-go checks durations as the integers that they are.
    value.map(Value::Duration).ok_or_else(|| EvalError::new("integer overflow"))
}

fn negate<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    match args {
        [Value::Int(i)] => int(i.checked_neg()),
        [Value::Double(x)] => Ok(Value::Double(-x)),
        [Value::Duration(d)] => duration(d.checked_neg()),
        [Value::Bool(_)] => Err(EvalError::no_overload()),
        _ => Err(lacking("-_", args)),
    }
}

fn add<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b))?,
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b))?,
        [Value::Double(a), Value::Double(b)] => Value::Double(a + b),
        [Value::String(a), Value::String(b)] => Value::string(format!("{}{}", &**a, &**b)),
        [Value::Bytes(a), Value::Bytes(b)] => Value::Bytes(Blob::Owned([&**a, &**b].concat().into())),
        [Value::List(a), Value::List(b)] => Value::List(a.plus(b)?),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_add(*b))?,
        [Value::Timestamp(time), Value::Duration(d)] | [Value::Duration(d), Value::Timestamp(time)] => {
            Value::Timestamp(time.plus(*d)?)
        }
        [
            Value::Bool(_)
            | Value::Null
            | Value::Map(_)
            | Value::Optional(_)
            | Value::Type(_)
            | Value::Opaque(_)
            | Value::Invalid(_),
            _,
        ] => {
            return Err(lacking("_+_", args));
        }
        _ => return Err(EvalError::no_overload()),
    })
}

fn subtract<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b))?,
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b))?,
        [Value::Double(a), Value::Double(b)] => Value::Double(a - b),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_sub(*b))?,
        [Value::Timestamp(a), Value::Timestamp(b)] => Value::Duration(a.since(*b)?),
        [Value::Timestamp(time), Value::Duration(d)] => {
            let negated = d.checked_neg().ok_or_else(|| EvalError::new("integer overflow"))?;
            Value::Timestamp(time.plus(negated)?)
        }
        [Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _] => {
            return Err(EvalError::no_overload());
        }
        _ => return Err(lacking("_-_", args)),
    })
}

fn multiply<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b))?,
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b))?,
        [Value::Double(a), Value::Double(b)] => Value::Double(a * b),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => return Err(EvalError::no_overload()),
        _ => return Err(lacking("_*_", args)),
    })
}

fn divide<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("division by zero"));
        }
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b))?,
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a / b),
        [Value::Double(a), Value::Double(b)] => Value::Double(a / b),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => return Err(EvalError::no_overload()),
        _ => return Err(lacking("_/_", args)),
    })
}

fn modulo<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("modulus by zero"));
        }
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b))?,
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a % b),
        [Value::Int(_) | Value::Uint(_), _] => return Err(EvalError::no_overload()),
        _ => return Err(lacking("_%_", args)),
    })
}

fn contains<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    match args {
        [value, Value::List(list)] => list.contains(value).map(Value::Bool),
        [Value::String(name), Value::Map(map)] => Ok(Value::Bool(map.has_field(name))),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key)?.is_some())),
        _ => Err(EvalError::no_overload()),
    }
}
