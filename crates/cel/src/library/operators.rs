//! Operators, `size` and the functions that macros expand to.

use std::cmp::Ordering;
use std::slice::from_ref;

use crate::cost::tracker;
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, FunctionTracker, Overload};
use crate::types::Type;
use crate::value::{CelBytes, ELEMENT_BYTES, EvalResult, Value, compare, ensure_room};

pub(super) fn functions() -> Vec<Function> {
    let (a, b) = (Type::param("A"), Type::param("B"));
    let (list, map) = (Type::list(a.clone()), Type::map(a.clone(), b.clone()));
    let predicate = |id, params: &[Type]| Overload::global(id, params, Type::Bool);
    let unary = |id, t: Type| Overload::global(id, from_ref(&t), t.clone());
    let mut functions = vec![
        Function::new("_?_:_").overload(Overload::global(
            "conditional",
            &[Type::Bool, a.clone(), a.clone()],
            a.clone(),
        )),
        Function::new("_&&_").overload(predicate("logical_and", &[Type::Bool, Type::Bool])),
        Function::new("_||_").overload(predicate("logical_or", &[Type::Bool, Type::Bool])),
        Function::new("!_").overload(unary("logical_not", Type::Bool)).binding(not),
        Function::new("@not_strictly_false")
            .overload(predicate("not_strictly_false", &[Type::Bool]))
            .binding(|args| Ok(Value::Bool(!matches!(args, [Value::Bool(false)])))),
        Function::new("_==_").overload(predicate("equals", &[a.clone(), a.clone()])),
        Function::new("_!=_").overload(predicate("not_equals", &[a.clone(), a.clone()])),
        Function::new("-_")
            .overload(unary("negate_double", Type::Double))
            .overload(unary("negate_int64", Type::Int))
            .binding(negate),
        Function::new("_[_]")
            .overload(Overload::global("index_list", &[list.clone(), Type::Int], a.clone()))
            .overload(Overload::global("index_map", &[map.clone(), a.clone()], b)),
        Function::new("@in")
            .overload(predicate("in_list", &[a.clone(), list.clone()]).cost_tracker(tracker::size_of_second))
            .overload(predicate("in_map", &[a, map.clone()]))
            .binding(contains),
        size(&list, &map),
    ];
    functions.extend(arithmetic(&list));
    functions.extend(comparisons());
    functions
}

fn binary(id: &'static str, a: Type, b: Type, result: Type) -> Overload {
    Overload::global(id, &[a, b], result)
}

fn homogeneous(id: &'static str, t: Type) -> Overload {
    binary(id, t.clone(), t.clone(), t)
}

fn arithmetic(list: &Type) -> Vec<Function> {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    vec![
        Function::new("_+_")
            .overload(homogeneous("add_bytes", Bytes).cost_tracker(tracker::traverse_all))
            .overload(homogeneous("add_double", Double))
            .overload(homogeneous("add_duration_duration", Duration))
            .overload(binary("add_duration_timestamp", Duration, Timestamp, Timestamp))
            .overload(binary("add_timestamp_duration", Timestamp, Duration, Timestamp))
            .overload(homogeneous("add_int64", Int))
            .overload(homogeneous("add_list", list.clone()))
            .overload(homogeneous("add_string", String).cost_tracker(tracker::traverse_all))
            .overload(homogeneous("add_uint64", Uint))
            .binding(add),
        Function::new("_/_")
            .overload(homogeneous("divide_double", Double))
            .overload(homogeneous("divide_int64", Int))
            .overload(homogeneous("divide_uint64", Uint))
            .binding(divide),
        Function::new("_%_")
            .overload(homogeneous("modulo_int64", Int))
            .overload(homogeneous("modulo_uint64", Uint))
            .binding(modulo),
        Function::new("_*_")
            .overload(homogeneous("multiply_double", Double))
            .overload(homogeneous("multiply_int64", Int))
            .overload(homogeneous("multiply_uint64", Uint))
            .binding(multiply),
        Function::new("_-_")
            .overload(homogeneous("subtract_double", Double))
            .overload(homogeneous("subtract_duration_duration", Duration))
            .overload(homogeneous("subtract_int64", Int))
            .overload(binary("subtract_timestamp_duration", Timestamp, Duration, Timestamp))
            .overload(binary("subtract_timestamp_timestamp", Timestamp, Timestamp, Duration))
            .overload(homogeneous("subtract_uint64", Uint))
            .binding(subtract),
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
            function.overload(Overload::global(global, from_ref(&t), Type::Int)).overload(Overload::member(
                member,
                &[t],
                Type::Int,
            ))
        })
        .binding(|args| match args {
            [Value::Opaque(_)] | [] => Err(missing_operator("size", args)),
            [value, ..] => {
                value.size().map(|size| Value::Int(size as i64)).ok_or_else(|| missing_operator("size", args))
            }
        })
}

/// The overload ids of an ordering operator, in cel-go's order.
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

fn comparison(name: &str, ids: [&'static str; 14], binding: FunctionOp) -> Function {
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
    let by_size: FunctionTracker = tracker::traverse_smaller;
    let overloads = ids.into_iter().zip(sides).map(|(id, (a, b))| {
        let text = matches!(a, String | Bytes);
        let overload = binary(id, a, b, Bool);
        if text { overload.cost_tracker(by_size) } else { overload }
    });
    overloads.fold(Function::new(name), Function::overload).binding(binding)
}

/// The error for a first operand whose type does not support the operator. For types with member functions, cel-go
/// first fails to find the operator among these functions, which changes the message.
pub(super) fn missing_operator(operator: &str, args: &[Value<'_>]) -> EvalError {
    match args.first() {
        Some(Value::String(_) | Value::Duration(_) | Value::Timestamp(_)) => EvalError::no_overload(),
        _ => EvalError::new(format!("no such overload: {operator}")),
    }
}

fn ordered<'a>(name: &str, args: &[Value<'a>], matches: fn(Ordering) -> bool) -> EvalResult<Value<'a>> {
    let [a, b] = args else { return Err(EvalError::no_overload()) };
    if matches!(
        a,
        Value::Null | Value::List(_) | Value::Map(_) | Value::Optional(_) | Value::Type(_) | Value::Opaque(_)
    ) {
        return Err(missing_operator(name, args));
    }
    compare(a, b).map(|order| Value::Bool(matches(order)))
}

fn not<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [Value::Bool(b)] => Ok(Value::Bool(!b)),
        _ => Err(EvalError::no_overload()),
    }
}

fn int(value: Option<i64>) -> EvalResult<Value<'static>> {
    value.map(Value::Int).ok_or_else(|| EvalError::new("integer overflow"))
}

fn uint(value: Option<u64>) -> EvalResult<Value<'static>> {
    value.map(Value::Uint).ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

fn duration(value: Option<i64>) -> EvalResult<Value<'static>> {
    // cel-go checks durations for overflow as integers.
    value.map(Value::Duration).ok_or_else(|| EvalError::new("integer overflow"))
}

fn negate<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [Value::Int(i)] => int(i.checked_neg()),
        [Value::Double(x)] => Ok(Value::Double(-x)),
        [Value::Duration(d)] => duration(d.checked_neg()),
        [Value::Bool(_)] => Err(EvalError::no_overload()),
        _ => Err(missing_operator("-_", args)),
    }
}

fn add<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b))?,
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b))?,
        [Value::Double(a), Value::Double(b)] => Value::Double(a + b),
        [Value::String(a), Value::String(b)] => {
            ensure_room(a.len() + b.len())?;
            Value::string(format!("{}{}", &**a, &**b))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            ensure_room(a.len() + b.len())?;
            Value::Bytes(CelBytes::Owned([&**a, &**b].concat().into()))
        }
        [Value::List(a), Value::List(b)] => {
            ensure_room((a.len() + b.len()) * ELEMENT_BYTES)?;
            Value::List(a.plus(b)?)
        }
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
            return Err(missing_operator("_+_", args));
        }
        _ => return Err(EvalError::no_overload()),
    })
}

fn subtract<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
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
        _ => return Err(missing_operator("_-_", args)),
    })
}

fn multiply<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b))?,
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b))?,
        [Value::Double(a), Value::Double(b)] => Value::Double(a * b),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => return Err(EvalError::no_overload()),
        _ => return Err(missing_operator("_*_", args)),
    })
}

fn divide<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("division by zero"));
        }
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b))?,
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a / b),
        [Value::Double(a), Value::Double(b)] => Value::Double(a / b),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => return Err(EvalError::no_overload()),
        _ => return Err(missing_operator("_/_", args)),
    })
}

fn modulo<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("modulus by zero"));
        }
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b))?,
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a % b),
        [Value::Int(_) | Value::Uint(_), _] => return Err(EvalError::no_overload()),
        _ => return Err(missing_operator("_%_", args)),
    })
}

fn contains<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [value, Value::List(list)] => list.contains(value).map(Value::Bool),
        [Value::String(name), Value::Map(map)] => Ok(Value::Bool(map.has_field(name))),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key)?.is_some())),
        _ => Err(EvalError::no_overload()),
    }
}
