//! Text representation of values in error messages.

use super::{Value, format_double};

/// Formats a value like Go's `%v` in cel-go's messages.
pub(crate) fn go_string(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => u.to_string(),
        Value::Double(x) => format_double(*x),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => format!("{:?}", &**bytes).replace(',', ""),
        Value::Duration(nanos) => pintle_value::time::Duration(*nanos).to_string(),
        Value::Timestamp(time) => time.to_string(),
        Value::List(list) => {
            let elements: Vec<String> = list.iter().map(|element| go_string(&element)).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Map(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", go_string(&key), go_string(&value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", go_string(value)),
        Value::Type(name) => name.to_string(),
        Value::Opaque(value) => format!("{value:?}"),
        Value::Authorization(value) => format!("{value:?}"),
        Value::Invalid(error) => error.to_string(),
    }
}
