//! Converts the results of expressions to JSON, as mutations need them.

use pintle_cel::Value;
use pintle_value::Value as Json;

/// The largest integer that JSON readers keep exactly.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// Converts a value. Integers that are too large for a JSON number become texts, as in Protobuf's JSON.
///
/// # Errors
/// The value has no form in JSON.
pub fn to_json(value: &Value<'_>) -> Result<Json, String> {
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) if i.unsigned_abs() <= MAX_EXACT => Json::Int(*i),
        Value::Int(i) => Json::from(i.to_string()),
        Value::Uint(u) => match i64::try_from(*u) {
            Ok(i) if *u <= MAX_EXACT => Json::Int(i),
            _ => Json::from(u.to_string()),
        },
        Value::Double(x) => Json::Float(*x),
        Value::String(text) => Json::from(&**text),
        Value::Timestamp(time) => Json::from(time.to_string()),
        Value::Optional(Some(inner)) => to_json(inner)?,
        Value::List(list) => {
            let items: Result<Vec<Json>, String> = list.iter().map(|item| to_json(&item)).collect();
            Json::Array(items?)
        }
        Value::Map(map) => {
            let mut object = Json::object();
            for (key, value) in map.iter() {
                let Value::String(key) = &key else {
                    return Err(format!("map key of type {}, not string", key.type_name()));
                };
                object.set(key, to_json(&value)?);
            }
            object
        }
        Value::Invalid(error) => return Err(error.to_string()),
        other => return Err(format!("unsupported type {}", other.type_name())),
    })
}
