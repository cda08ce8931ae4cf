//! `jsonpatch.escapeKey`, for policies that create JSON patches. The base environment does not have this function
//! (upstream: `apiserver/pkg/cel/library/jsonpatch.go`).

use super::Library;
use crate::cost::{CallEstimate, STRING_TRAVERSAL_COST_FACTOR, tracker};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::types::Type;
use crate::value::Value;

/// The library with `jsonpatch.escapeKey`.
#[must_use]
pub fn json_patch() -> Library {
    let escape = Overload::global("string_jsonpatch_escapeKey_string", &[Type::String], Type::String);
    let escape = escape.binding(|args| match args {
        [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        _ => Err(EvalError::no_overload()),
    });
    let function = Function::new("jsonpatch.escapeKey")
        .overload(escape)
        .cost_tracker(tracker::traverse_first)
        .cost_estimator(|call| {
            let [key] = call.args else { return None };
            let size = call.size(key);
            Some(CallEstimate::sized(size.times_factor(STRING_TRAVERSAL_COST_FACTOR), size))
        });
    Library::of(vec![function])
}
