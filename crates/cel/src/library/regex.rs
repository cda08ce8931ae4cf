//! `find` and `findAll`.

use regex::Regex;

use super::Library;
use crate::cost::{CallEstimate, CallSizes, PER_PATTERN_CHARACTER, SizeEstimate, charge, regex_estimate};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::pattern::compile;
use crate::types::Type;
use crate::value::{Outcome, Value};

pub(super) fn library() -> Library {
    use Type::{Int, String};
    let strings = Type::list(String);
    Library::of(vec![
        Function::new("find")
            .overload(Overload::member("string_find_string", &[String, String], String).run(|args| match args {
                [_, Value::String(pattern)] => find(&checked(pattern)?, args),
                _ => Err(EvalError::no_overload()),
            }))
            .regex(find)
            .charge(charge::pattern)
            .estimate(estimate),
        Function::new("findAll")
            .overload(Overload::member("string_find_all_string", &[String, String], strings.clone()).run(all))
            .overload(Overload::member("string_find_all_string_int", &[String, String, Int], strings).run(all))
            .regex(find_all)
            .charge(charge::pattern)
            .estimate(estimate),
    ])
}

fn checked(pattern: &str) -> Outcome<Regex> {
    compile(pattern).map_err(|message| EvalError::new(format!("Illegal regex: {message}")))
}

fn all<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    match args {
        [_, Value::String(pattern), ..] => find_all(&checked(pattern)?, args),
        _ => Err(EvalError::no_overload()),
    }
}

fn find<'a>(regex: &Regex, args: &[Value<'a>]) -> Outcome<Value<'a>> {
    match args {
        [Value::String(text), _] => Ok(Value::string(regex.find(text).map_or("", |found| found.as_str()))),
        _ => Err(EvalError::no_overload()),
    }
}

fn find_all<'a>(regex: &Regex, args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let (text, limit) = match args {
        [Value::String(text), _] => (text, -1),
        [Value::String(text), _, Value::Int(limit)] => (text, *limit),
        _ => return Err(EvalError::no_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Value::list(regex.find_iter(text).take(limit).map(|found| Value::string(found.as_str())).collect()))
}

fn estimate(call: &CallSizes<'_>) -> Option<CallEstimate> {
    let size = call.size(call.target?);
    let pattern = call.size(call.args.first()?).per_unit(PER_PATTERN_CHARACTER);
    Some(CallEstimate::sized(regex_estimate(size, pattern), SizeEstimate { min: 0, max: size.max }))
}
