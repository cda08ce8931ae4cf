//! Converts the results of expressions to JSON for mutations.

use pintle_budget as budget;
use pintle_cel::{EvalError, Map, Value};
use pintle_schema::base64;
use pintle_value::Value as Json;

use crate::type_names;

/// The largest integer that JSON readers keep exactly.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// The two ways in which upstream converts values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Go values, as in an unstructured object.
    Unstructured,
    /// Protobuf's JSON, where numbers are floating point numbers.
    Protobuf,
}

/// Converts the configuration that an expression makes (upstream: `ObjectVal.Value`).
///
/// # Errors
/// The names of its types do not match their fields, or a value has no form in JSON.
pub fn apply_configuration(value: &Value<'_>) -> Result<Json, String> {
    type_names::check(value)?;
    convert(value, Target::Unstructured)
}

/// Converts the operations of a JSON patch that an expression makes (upstream: `evaluatePatchExpression`).
///
/// # Errors
/// The names of types do not match their fields, or a value has no form in JSON.
pub fn json_patch(value: &Value<'_>) -> Result<Json, String> {
    let Value::List(operations) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let convert_field = |name: &Value<'_>, value: &Value<'_>| {
        if !matches!(name, Value::String(name) if &**name == "value") {
            return convert(value, Target::Protobuf);
        }
        if matches!(value, Value::Map(Map::Struct { .. })) {
            type_names::check(value)?;
        }
        convert(value, Target::Protobuf).map_err(|why| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })
    };
    let convert_operation = |operation: Value<'_>| {
        let Value::Map(fields) = &operation else {
            let found = operation.type_name();
            return Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {found}"
            ));
        };
        let mut converted = Json::object();
        for (name, value) in fields.iter() {
            if let Value::String(key) = &name {
                converted.set(key, convert_field(&name, &value)?);
            }
        }
        Ok(converted)
    };
    operations.iter().map(convert_operation).collect::<Result<Vec<Json>, String>>().map(Json::Array)
}

/// Converts an integer to a number, or to a text if it is too large for a number of the target.
fn integer(value: i128, target: Target) -> Json {
    let is_exact = value.unsigned_abs() <= u128::from(MAX_EXACT);
    match i64::try_from(value) {
        Ok(number) if is_exact || target == Target::Unstructured => Json::Int(number),
        _ => Json::from(value.to_string()),
    }
}

/// A duration in seconds, without a fraction that is zero.
fn seconds(nanoseconds: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, rest) = (nanoseconds.unsigned_abs() / SECOND, nanoseconds.unsigned_abs() % SECOND);
    match rest {
        0 => format!("{sign}{whole}s"),
        _ => format!("{sign}{whole}.{}s", format!("{rest:09}").trim_end_matches('0')),
    }
}

/// Charges a part of the result with a text of this length to the memory of the evaluation.
fn charge(text: usize) -> Result<(), String> {
    let bytes = size_of::<Json>() + text;
    budget::step().and_then(|()| budget::try_charge(bytes)).map_err(|why| EvalError::from(why).to_string())
}

fn convert(value: &Value<'_>, target: Target) -> Result<Json, String> {
    // Values share parts that occur several times; JSON does not share them.
    charge(value.as_str().map_or(0, str::len))?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => integer(i128::from(*i), target),
        Value::Uint(u) => integer(i128::from(*u), target),
        Value::Double(x) if !x.is_finite() => {
            return Err(format!("google.protobuf.Value.number_value: invalid {x} value"));
        }
        Value::Double(x) => Json::Float(*x),
        Value::String(text) => Json::from(&**text),
        Value::Bytes(bytes) if target == Target::Protobuf => Json::from(base64::encode(bytes)),
        Value::Duration(nanoseconds) if target == Target::Protobuf => Json::from(seconds(*nanoseconds)),
        Value::Timestamp(time) => Json::from(time.to_string()),
        Value::Optional(Some(inner)) => convert(inner, target)?,
        Value::List(list) => {
            let items: Result<Vec<Json>, String> = list.iter().map(|item| convert(&item, target)).collect();
            Json::Array(items?)
        }
        Value::Map(map) => {
            let mut object = Json::object();
            for (key, value) in map.iter() {
                let Value::String(key) = &key else {
                    return Err(format!("map key of type {}, not string", key.type_name()));
                };
                charge(key.len())?;
                object.set(key, convert(&value, target)?);
            }
            object
        }
        Value::Invalid(error) => return Err(error.to_string()),
        other => return Err(format!("unsupported type {}", other.type_name())),
    })
}
