//! The string functions of the standard library.

use super::operators::lacking;
use crate::cost::charge;
use crate::error::EvalError;
use crate::function::{Charge, Eval, Function, Overload};
use crate::pattern::compile;
use crate::types::Type;
use crate::value::Value;

pub(super) fn functions() -> Vec<Function> {
    let two = [Type::String, Type::String];
    let test = |name, id, charge: Charge, run: Eval| {
        Function::new(name).overload(Overload::member(id, &two, Type::Bool).charge(charge)).run(run)
    };
    vec![
        test("contains", "contains_string", charge::product, |args| match args {
            [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
            _ => Err(EvalError::no_overload()),
        }),
        test("endsWith", "ends_with_string", charge::first, |args| match args {
            [Value::String(text), Value::String(end)] => Ok(Value::Bool(text.ends_with(&**end))),
            _ => Err(EvalError::no_overload()),
        }),
        test("startsWith", "starts_with_string", charge::first, |args| match args {
            [Value::String(text), Value::String(start)] => Ok(Value::Bool(text.starts_with(&**start))),
            _ => Err(EvalError::no_overload()),
        }),
        Function::new("matches")
            .overload(Overload::global("matches", &two, Type::Bool))
            .overload(Overload::member("matches_string", &two, Type::Bool).charge(charge::pattern))
            .run(|args| match args {
                [Value::String(text), Value::String(pattern)] => {
                    let regex = compile(pattern).map_err(EvalError::new)?;
                    Ok(Value::Bool(regex.is_match(text)))
                }
                [Value::String(_), _] => Err(EvalError::no_overload()),
                _ => Err(lacking("matches", args)),
            })
            .regex(|regex, args| match args {
                [Value::String(text), _] => Ok(Value::Bool(regex.is_match(text))),
                _ => Err(EvalError::no_overload()),
            }),
    ]
}
