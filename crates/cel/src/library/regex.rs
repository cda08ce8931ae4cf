//! `find` and `findAll` (upstream: `apiserver/pkg/cel/library/regex.go`).

use pintle_budget as budget;

use super::Library;
use crate::cost::{
    CallEstimate, EstimatedCall, REGEX_STRING_LENGTH_COST_FACTOR, SizeEstimate, regex_cost_estimate, tracker,
};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::regexp::{Pattern, compile};
use crate::types::Type;
use crate::value::{EvalResult, STRING_BYTES, Value};

pub(super) fn library() -> Library {
    use Type::{Int, String};
    let strings = Type::list(String);
    Library::of(vec![
        Function::new("find")
            .overload(Overload::member("string_find_string", &[String, String], String).binding(|args| match args {
                [_, Value::String(pattern)] => find(&compile_pattern(pattern)?, args),
                _ => Err(EvalError::no_overload()),
            }))
            .regex_binding(find)
            .cost_tracker(tracker::match_regex)
            .cost_estimator(estimate),
        Function::new("findAll")
            .overload(Overload::member("string_find_all_string", &[String, String], strings.clone()).binding(all))
            .overload(Overload::member("string_find_all_string_int", &[String, String, Int], strings).binding(all))
            .regex_binding(find_all)
            .cost_tracker(tracker::match_regex)
            .cost_estimator(estimate),
    ])
}

fn compile_pattern(pattern: &str) -> EvalResult<Pattern> {
    compile(pattern).map_err(|message| EvalError::new(format!("Illegal regex: {message}")))
}

fn all<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [_, Value::String(pattern), ..] => find_all(&compile_pattern(pattern)?, args),
        _ => Err(EvalError::no_overload()),
    }
}

fn find<'a>(pattern: &Pattern, args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [Value::String(text), _] => {
            let regex = pattern.searching(text).map_err(EvalError::new)?;
            Ok(Value::string(regex.find(text).map_or("", |found| found.as_str())))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn find_all<'a>(pattern: &Pattern, args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (text, limit) = match args {
        [Value::String(text), _] => (text, -1),
        [Value::String(text), _, Value::Int(limit)] => (text, *limit),
        _ => return Err(EvalError::no_overload()),
    };
    let regex = pattern.searching(text).map_err(EvalError::new)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for found in regex.find_iter(text).take(limit) {
        budget::try_charge(STRING_BYTES + found.len())?;
        all.push(Value::string(found.as_str()));
    }
    Ok(Value::list(all))
}

fn estimate(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let size = call.size(call.target?);
    let pattern = call.size(call.args.first()?).times_factor(REGEX_STRING_LENGTH_COST_FACTOR);
    Some(CallEstimate::sized(regex_cost_estimate(size, pattern), SizeEstimate { min: 0, max: size.max }))
}
