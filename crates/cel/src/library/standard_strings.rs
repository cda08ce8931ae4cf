//! The string functions of CEL's standard library.

use super::operators::missing_operator;
use crate::cost::tracker;
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, FunctionTracker, Overload};
use crate::regexp::{Pattern, compile};
use crate::types::Type;
use crate::value::{EvalResult, Value};

pub(super) fn functions() -> Vec<Function> {
    let two = [Type::String, Type::String];
    let test = |name, id, cost_tracker: FunctionTracker, binding: FunctionOp| {
        Function::new(name).overload(Overload::member(id, &two, Type::Bool).cost_tracker(cost_tracker)).binding(binding)
    };
    vec![
        test("contains", "contains_string", tracker::traversal_product, |args| match args {
            [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
            _ => Err(EvalError::no_overload()),
        }),
        test("endsWith", "ends_with_string", tracker::traverse_first, |args| match args {
            [Value::String(text), Value::String(end)] => Ok(Value::Bool(text.ends_with(&**end))),
            _ => Err(EvalError::no_overload()),
        }),
        test("startsWith", "starts_with_string", tracker::traverse_first, |args| match args {
            [Value::String(text), Value::String(start)] => Ok(Value::Bool(text.starts_with(&**start))),
            _ => Err(EvalError::no_overload()),
        }),
        Function::new("matches")
            .overload(Overload::global("matches", &two, Type::Bool))
            .overload(Overload::member("matches_string", &two, Type::Bool).cost_tracker(tracker::match_regex))
            .binding(|args| match args {
                [Value::String(text), Value::String(pattern)] => {
                    is_match(&compile(pattern).map_err(EvalError::new)?, text)
                }
                [Value::String(_), _] => Err(EvalError::no_overload()),
                _ => Err(missing_operator("matches", args)),
            })
            .regex_binding(|pattern, args| match args {
                [Value::String(text), _] => is_match(pattern, text),
                _ => Err(EvalError::no_overload()),
            }),
    ]
}

fn is_match<'a>(pattern: &Pattern, text: &str) -> EvalResult<Value<'a>> {
    Ok(Value::Bool(pattern.searching(text).map_err(EvalError::new)?.is_match(text)))
}
