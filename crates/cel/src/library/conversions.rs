//! Type conversions: `int(x)`, `string(x)`, `type(x)` and so on.

use std::slice::from_ref;

use pintle_value::time::Duration;

use crate::cost::tracker;
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{
    CelBytes, EvalResult, Timestamp, Value, double_to_int, double_to_uint, format_double, format_duration,
};

pub(super) fn functions() -> Vec<Function> {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let a = Type::param("A");
    vec![
        Function::new("type")
            .overload(Overload::global("type", from_ref(&a), Type::of_type(a.clone())))
            .binding(|args| args.first().map(|arg| Value::Type(arg.type_name())).ok_or_else(EvalError::no_overload)),
        Function::new("dyn")
            .overload(Overload::global("to_dyn", &[a], Type::Dyn))
            .binding(|args| args.first().cloned().ok_or_else(EvalError::no_overload)),
        conversions("bool", Bool, to_bool, [("bool_to_bool", Bool), ("string_to_bool", String)]),
        Function::new("bytes")
            .overload(Overload::global("bytes_to_bytes", &[Bytes], Bytes).binding(to_bytes))
            .overload(
                Overload::global("string_to_bytes", &[String], Bytes)
                    .binding(to_bytes)
                    .cost_tracker(tracker::traverse_first),
            ),
        conversions(
            "double",
            Double,
            to_double,
            [
                ("double_to_double", Double),
                ("int64_to_double", Int),
                ("string_to_double", String),
                ("uint64_to_double", Uint),
            ],
        ),
        conversions(
            "duration",
            Duration,
            to_duration,
            [("duration_to_duration", Duration), ("int64_to_duration", Int), ("string_to_duration", String)],
        ),
        conversions(
            "int",
            Int,
            to_int,
            [
                ("int64_to_int64", Int),
                ("double_to_int64", Double),
                ("duration_to_int64", Duration),
                ("string_to_int64", String),
                ("timestamp_to_int64", Timestamp),
                ("uint64_to_int64", Uint),
            ],
        ),
        conversions(
            "string",
            String,
            to_string,
            [
                ("string_to_string", String),
                ("bool_to_string", Bool),
                ("double_to_string", Double),
                ("duration_to_string", Duration),
                ("int64_to_string", Int),
                ("timestamp_to_string", Timestamp),
                ("uint64_to_string", Uint),
            ],
        )
        .overload(
            Overload::global("bytes_to_string", &[Bytes], String)
                .binding(to_string)
                .cost_tracker(tracker::traverse_first),
        ),
        conversions(
            "timestamp",
            Timestamp,
            to_timestamp,
            [("timestamp_to_timestamp", Timestamp), ("int64_to_timestamp", Int), ("string_to_timestamp", String)],
        ),
        conversions(
            "uint",
            Uint,
            to_uint,
            [
                ("uint64_to_uint64", Uint),
                ("double_to_uint64", Double),
                ("int64_to_uint64", Int),
                ("string_to_uint64", String),
            ],
        ),
    ]
}

fn conversions<const N: usize>(name: &str, to: Type, binding: FunctionOp, from: [(&'static str, Type); N]) -> Function {
    let overloads = from.into_iter().map(|(id, from)| Overload::global(id, &[from], to.clone()).binding(binding));
    overloads.fold(Function::new(name), Function::overload)
}

fn conversion_error(from: &str, to: &str) -> EvalError {
    EvalError::new(format!("type conversion error from '{from}' to '{to}'"))
}

fn int_overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn uint_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

fn to_bool<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [Value::Bool(b)] => Ok(Value::Bool(*b)),
        [Value::String(text)] => match pintle_value::parse_bool(text) {
            Ok(value) => Ok(Value::Bool(value)),
            Err(_) => Err(conversion_error("string", "bool")),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_bytes<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.clone())),
        [Value::String(text)] => Ok(Value::Bytes(CelBytes::Owned(text.as_bytes().into()))),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_double<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(Value::Double(match args {
        [Value::Double(x)] => *x,
        [Value::Int(i)] => *i as f64,
        [Value::Uint(u)] => *u as f64,
        [Value::String(text)] => parse_double(text).ok_or_else(|| conversion_error("string", "double"))?,
        _ => return Err(EvalError::no_overload()),
    }))
}

/// Parses the texts that Go's `strconv.ParseFloat` accepts, except hexadecimal notation and underscores.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    // Go rejects numbers out of range.
    let named = text.trim_start_matches(['+', '-']).to_ascii_lowercase().starts_with(['i', 'n']);
    (named || number.is_finite()).then_some(number)
}

fn to_duration<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    match args {
        [Value::Duration(d)] => Ok(Value::Duration(*d)),
        [Value::String(text)] => match Duration::parse(text) {
            Ok(duration) => Ok(Value::Duration(duration.0)),
            Err(_) => Err(conversion_error("string", "google.protobuf.Duration")),
        },
        // The overload is declared, but cel-go's `int` has no conversion to a duration.
        [Value::Int(_)] => Err(conversion_error("int", "google.protobuf.Duration")),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_int<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(Value::Int(match args {
        [Value::Int(i)] => *i,
        [Value::Double(x)] => double_to_int(*x).ok_or_else(int_overflow)?,
        [Value::Duration(d)] => *d,
        [Value::Timestamp(time)] => time.instant().0,
        [Value::Uint(u)] => i64::try_from(*u).map_err(|_| int_overflow())?,
        [Value::String(text)] => text.parse().map_err(|_| conversion_error("string", "int"))?,
        _ => return Err(EvalError::no_overload()),
    }))
}

fn to_uint<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(Value::Uint(match args {
        [Value::Uint(u)] => *u,
        [Value::Double(x)] => double_to_uint(*x).ok_or_else(uint_overflow)?,
        [Value::Int(i)] => u64::try_from(*i).map_err(|_| uint_overflow())?,
        [Value::String(text)] if text.starts_with('+') => return Err(conversion_error("string", "uint")),
        [Value::String(text)] => text.parse().map_err(|_| conversion_error("string", "uint"))?,
        _ => return Err(EvalError::no_overload()),
    }))
}

/// Converts a value to a string, if its type supports that.
pub(super) fn to_string<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [arg] = args else { return Err(EvalError::no_overload()) };
    Ok(Value::string(match arg {
        Value::String(_) => return Ok(arg.clone()),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => u.to_string(),
        Value::Double(x) => format_double(*x),
        Value::Duration(d) => format_duration(*d),
        Value::Timestamp(time) => time.to_string(),
        Value::Type(name) => name.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        _ => return Err(EvalError::no_overload()),
    }))
}

fn to_timestamp<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(Value::Timestamp(match args {
        [Value::Timestamp(time)] => *time,
        [Value::Int(seconds)] => Timestamp::new(*seconds, 0)?,
        [Value::String(text)] => {
            Timestamp::parse(text).unwrap_or_else(|| Err(conversion_error("string", "google.protobuf.Timestamp")))?
        }
        _ => return Err(EvalError::no_overload()),
    }))
}
