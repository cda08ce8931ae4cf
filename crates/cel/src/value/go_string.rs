//! Text representation of values in error messages.

use super::{Value, format_double};

/// The longest text of a value in a message, in bytes. A value may contain another value many times.
const MAX_LENGTH: usize = 1 << 20;

/// Formats a value like Go's `%v` in cel-go's messages. The end of a very long text is missing.
pub(crate) fn go_string(value: &Value<'_>) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value<'_>, text: &mut String) {
    if text.len() > MAX_LENGTH {
        return;
    }
    let between = |i: usize| if i > 0 { ", " } else { "" };
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(b) => text.push_str(&b.to_string()),
        Value::Int(i) => text.push_str(&i.to_string()),
        Value::Uint(u) => text.push_str(&u.to_string()),
        Value::Double(x) => text.push_str(&format_double(*x)),
        Value::String(string) => text.push_str(string),
        Value::Bytes(bytes) => text.push_str(&format!("{:?}", &**bytes).replace(',', "")),
        Value::Duration(nanos) => text.push_str(&pintle_value::time::Duration(*nanos).to_string()),
        Value::Timestamp(time) => text.push_str(&time.to_string()),
        Value::List(list) => {
            text.push('[');
            for (i, element) in list.iter().enumerate() {
                if text.len() > MAX_LENGTH {
                    break;
                }
                text.push_str(between(i));
                write(&element, text);
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                text.push_str(between(i));
                write(&key, text);
                text.push_str(": ");
                write(&value, text);
            }
            text.push('}');
        }
        Value::Optional(None) => text.push_str("optional.none()"),
        Value::Optional(Some(value)) => {
            text.push_str("optional(");
            write(value, text);
            text.push(')');
        }
        Value::Type(name) => text.push_str(name),
        Value::Opaque(value) => text.push_str(&format!("{value:?}")),
        Value::Authorization(value) => text.push_str(&format!("{value:?}")),
        Value::Invalid(error) => text.push_str(&error.to_string()),
    }
}
