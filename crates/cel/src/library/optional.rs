//! Optional values (upstream: cel-go `cel/library.go`, `OptionalTypes`).

use std::slice::from_ref;

use super::Library;
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::syntax::optional_macros;
use crate::types::{OPTIONAL, Type};
use crate::value::{EvalResult, Value, go_string};

pub(super) fn library() -> Library {
    let (k, v) = (Type::param("K"), Type::param("V"));
    let optional = Type::optional(v.clone());
    let list = Type::list(v.clone());
    let map = Type::map(k.clone(), v.clone());
    let optionals = Type::list(optional.clone());
    let (optional_list, optional_map) = (Type::optional(list.clone()), Type::optional(map.clone()));
    let global = |id, params: &[Type], result: Type| Overload::global(id, params, result);
    let member =
        |id, params: &[Type], result: Type, binding: FunctionOp| Overload::member(id, params, result).binding(binding);
    let functions = vec![
        Function::new("optional.of").overload(global("optional_of", from_ref(&v), optional.clone()).binding(|args| {
            let [value] = args else { return Err(EvalError::no_overload()) };
            Ok(Value::some(value.clone()))
        })),
        Function::new("optional.ofNonZeroValue").overload(
            global("optional_ofNonZeroValue", from_ref(&v), optional.clone()).binding(|args| {
                let [value] = args else { return Err(EvalError::no_overload()) };
                Ok(if is_zero(value) { Value::Optional(None) } else { Value::some(value.clone()) })
            }),
        ),
        Function::new("optional.none")
            .overload(global("optional_none", &[], optional.clone()).binding(|_| Ok(Value::Optional(None)))),
        Function::new("value").overload(member("optional_value", from_ref(&optional), v.clone(), |args| match args {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            [Value::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
            _ => Err(EvalError::no_overload()),
        })),
        Function::new("hasValue").overload(member("optional_hasValue", from_ref(&optional), Type::Bool, |args| {
            match args {
                [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
                _ => Err(EvalError::no_overload()),
            }
        })),
        Function::new("or").overload(Overload::member(
            "optional_or_optional",
            &[optional.clone(), optional.clone()],
            optional.clone(),
        )),
        Function::new("orValue").overload(Overload::member(
            "optional_orValue_value",
            &[optional.clone(), v.clone()],
            v,
        )),
        Function::new("_?._").overload(global("select_optional_field", &[Type::Dyn, Type::String], optional.clone())),
        Function::new("_[?_]")
            .overload(global("list_optindex_optional_int", &[list.clone(), Type::Int], optional.clone()))
            .overload(global(
                "optional_list_optindex_optional_int",
                &[optional_list.clone(), Type::Int],
                optional.clone(),
            ))
            .overload(global("map_optindex_optional_value", &[map, k.clone()], optional.clone()))
            .overload(global(
                "optional_map_optindex_optional_value",
                &[optional_map.clone(), k.clone()],
                optional.clone(),
            )),
        Function::new("_[_]")
            .overload(global("optional_list_index_int", &[optional_list, Type::Int], optional.clone()))
            .overload(global("optional_map_index_value", &[optional_map, k], optional.clone())),
        Function::new("first").overload(member("list_first", from_ref(&list), optional.clone(), |args| match args {
            [Value::List(list)] => Ok(list.get(0).map_or(Value::Optional(None), Value::some)),
            _ => Err(EvalError::no_overload()),
        })),
        Function::new("last").overload(member("list_last", from_ref(&list), optional, |args| match args {
            [Value::List(list)] => {
                let last = list.len().checked_sub(1).and_then(|last| list.get(last));
                Ok(last.map_or(Value::Optional(None), Value::some))
            }
            _ => Err(EvalError::no_overload()),
        })),
        Function::new("optional.unwrap")
            .overload(global("optional_unwrap", from_ref(&optionals), list.clone()).binding(unwrap)),
        Function::new("unwrapOpt").overload(member("optional_unwrapOpt", &[optionals], list, unwrap)),
    ];
    Library { functions, macros: optional_macros(), types: vec![Type::opaque(OPTIONAL)] }
}

/// True for zero values (upstream: `traits.Zeroer`).
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Uint(u) => *u == 0,
        Value::Double(x) => *x == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(d) => *d == 0,
        Value::Timestamp(time) => time.is_zero(),
        // In cel-go, values that are converted with a schema are not `Zeroer`s.
        value if value.is_typed() => false,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Opaque(value) => value.is_zero(),
        Value::Authorization(_) => false,
        Value::Invalid(_) => false,
        Value::Optional(_) | Value::Type(_) => false,
    }
}

fn unwrap<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut values = Vec::new();
    for element in list.iter() {
        match element {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => values.push((*value).clone()),
            other => return Err(EvalError::new(format!("value {} is not optional", go_string(&other)))),
        }
    }
    Ok(Value::list(values))
}
