//! `jsonpatch.escapeKey`, which policies that patch objects use. It is added where patches are made.

use super::Library;
use crate::cost::{CallEstimate, PER_CHARACTER, charge};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::types::Type;
use crate::value::Value;

/// Escapes keys for JSON pointers.
#[must_use]
pub fn json_patch() -> Library {
    let escape = Overload::global("string_jsonpatch_escapeKey_string", &[Type::String], Type::String);
    let escape = escape.run(|args| match args {
        [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        _ => Err(EvalError::no_overload()),
    });
    let function = Function::new("jsonpatch.escapeKey").overload(escape).charge(charge::first).estimate(|call| {
        let [key] = call.args else { return None };
        let size = call.size(key);
        Some(CallEstimate::sized(size.per_unit(PER_CHARACTER), size))
    });
    Library::of(vec![function])
}
