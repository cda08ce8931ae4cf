//! The serialization of path elements in `fieldsV1`: a letter for the variant, a colon, and a name, JSON value or
//! number.

use std::fmt::Write as _;

use pintle_value::{Str, Value, print};

use super::{KeyFields, PathElement};

/// The reason why a text is not a path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathElementError {
    /// The text has fewer than two characters.
    #[error("key must be 2 characters long:")]
    TooShort,
    /// The second character is not a colon.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// The JSON value or the number after the colon is malformed.
    #[error("invalid path element: {0}")]
    Malformed(String),
}

impl PathElement {
    /// Appends the serialized element: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub fn serialize_into(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_json_string(out, name, false);
                    out.push(':');
                    write_value(out, value);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                write_value(out, value);
            }
            Self::Index(index) => {
                let _ = write!(out, "i:{index}");
            }
        }
    }

    /// Deserializes an element. Returns `None` for an unknown variant, which the caller skips. Numbers become floats,
    /// as upstream.
    pub fn deserialize(text: &str) -> Result<Option<Self>, PathElementError> {
        let &[kind, colon, ..] = text.as_bytes() else { return Err(PathElementError::TooShort) };
        if colon != b':' {
            return Err(PathElementError::NoColon(text.to_owned()));
        }
        // The second byte is ASCII, so the rest starts at a character boundary.
        let rest = &text[2..];
        let malformed = || PathElementError::Malformed(text.to_owned());
        Ok(Some(match kind {
            b'f' => Self::field(rest),
            b'v' => Self::Value(read_value(rest).ok_or_else(malformed)?),
            b'k' => Self::Key(read_plain_keys(rest).or_else(|| read_keys(rest)).ok_or_else(malformed)?),
            b'i' => Self::Index(pintle_value::atoi(rest).map_err(|_| malformed())?),
            _ => return Ok(None),
        }))
    }
}

/// Reads the keys of a list item. Ignores the rest of the text.
fn read_keys(text: &str) -> Option<KeyFields> {
    match read_value(text)? {
        Value::Object(fields) => Some(KeyFields::new(fields.into_iter().collect())),
        Value::Null => Some(KeyFields::default()),
        _ => None,
    }
}

/// Like [`read_keys`], for the form that most keys have: sorted names, strings without escapes and small integers.
/// Returns `None` for any other text.
fn read_plain_keys(text: &str) -> Option<KeyFields> {
    // Most lists have one key.
    let mut fields: Vec<(Str, Value)> = Vec::with_capacity(1);
    let mut rest = text.strip_prefix('{')?;
    loop {
        let (name, after_name) = read_plain_string(rest)?;
        if fields.last().is_some_and(|(last, _)| last.as_str() >= name) {
            return None;
        }
        let value = after_name.strip_prefix(':')?;
        let (value, after_value) = match read_plain_string(value) {
            Some((text, after)) => (Value::from(text), after),
            None => read_small_integer(value)?,
        };
        fields.push((Str::from(name), value));
        match after_value.strip_prefix(',') {
            Some(next) => rest = next,
            None => return after_value.starts_with('}').then(|| KeyFields::new(fields)),
        }
    }
}

/// The string without escapes at the start of a text, and the rest of the text.
fn read_plain_string(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let end = text.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
    Some((&text[..end], text[end..].strip_prefix('"')?))
}

/// The integer of at most nine digits at the start of a text, as a float, and the rest of the text.
fn read_small_integer(text: &str) -> Option<(Value, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = text.split_at(digits);
    let is_canonical = digits <= 9 && (digits == 1 || !number.starts_with('0'));
    let number: u32 = number.parse().ok().filter(|_| is_canonical)?;
    Some((Value::Float(f64::from(number)), after))
}

/// Reads the first JSON value of a text. Ignores the rest.
fn read_value(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut value = values.next()?.ok()?;
    numbers_to_floats(&mut value);
    Some(value)
}

fn numbers_to_floats(value: &mut Value) {
    match value {
        Value::Int(_) => *value = Value::Float(value.as_float().unwrap_or_default()),
        Value::Array(items) => items.iter_mut().for_each(numbers_to_floats),
        Value::Object(object) => object.iter_mut().for_each(|(_, value)| numbers_to_floats(value)),
        _ => {}
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_json_string(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (i, (key, value)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(out, key, true);
                out.push(':');
                write_value(out, value);
            }
            out.push('}');
        }
        scalar => out.push_str(&print::json(scalar)),
    }
}

/// Appends a JSON string as json-iterator writes it, which has fewer short escapes than `encoding/json`. With `html`,
/// characters that are special in HTML are escaped; json-iterator does this for values but not for names.
pub fn write_json_string(out: &mut String, text: &str, html: bool) {
    out.push('"');
    if print::is_plain_text_in_json(text.as_bytes()) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' || html && matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_keys_are_read_like_any_json() {
        for plain in [
            r#"{"name":"a"}"#,
            r#"{"name":""}"#,
            r#"{"name":"é"}"#,
            r#"{"containerPort":80,"protocol":"TCP"}"#,
            r#"{"port":0}"#,
            r#"{"port":123456789}rest"#,
        ] {
            assert_eq!(read_plain_keys(plain), read_keys(plain), "{plain}");
            assert!(read_plain_keys(plain).is_some(), "{plain}");
        }
        for other in [
            "",
            "{",
            "{}",
            "null",
            "[]",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":1"#,
            r#"{"a":1,"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":1.5}"#,
            r#"{"a":1e3}"#,
            r#"{"a":-1}"#,
            r#"{"a":1234567890}"#,
            r#"{"a":true}"#,
            r#"{"a":"\n"}"#,
            r#"{"a": 1}"#,
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,"a":2}"#,
            "{\"a\":\"\n\"}",
        ] {
            assert_eq!(read_plain_keys(other), None, "{other}");
        }
    }
}
