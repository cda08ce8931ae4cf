//! Mapping keys: any scalar in Go's maps, strings in JSON, and Go's `%#v` form in messages.

use pintle_value::{Str, Value, print};

use super::number::{format_g, format_g32};
use super::resolve::Scalar;

/// A mapping key as goyaml decodes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MappingKey {
    Text(Str),
    Int(i64),
    Bool(bool),
    Float(f64),
    /// An integer above [`i64::MAX`].
    Uint(u64),
    Null,
}

impl MappingKey {
    /// Creates the key from a resolved scalar and its text.
    pub(super) fn new(scalar: &Scalar, text: Str) -> Self {
        match *scalar {
            Scalar::Int(i) => Self::Int(i),
            Scalar::Bool(b) => Self::Bool(b),
            Scalar::Float(f) => Self::Float(f),
            Scalar::Uint(u) => Self::Uint(u),
            Scalar::Null => Self::Null,
            Scalar::Text | Scalar::Timestamp => Self::Text(text),
        }
    }

    /// The key in JSON, or `None` if JSON cannot express it.
    pub(super) fn text(&self) -> Option<Str> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Int(i) => Some(Str::from(i.to_string())),
            Self::Bool(b) => Some(Str::from(b.to_string())),
            Self::Float(f) => Some(Str::from(format_g32(*f))),
            Self::Uint(_) | Self::Null => None,
        }
    }

    /// Returns whether the key is NaN, which is not equal to itself.
    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Self::Float(f) if f.is_nan())
    }

    /// The key as Go prints it inside a map.
    pub(super) fn go_syntax(&self) -> String {
        match self {
            Self::Text(text) => print::quote(text),
            Self::Int(i) => i.to_string(),
            Self::Bool(b) => b.to_string(),
            Self::Float(f) => format_g(*f),
            Self::Uint(u) => format!("{u:#x}"),
            Self::Null => "interface {}(nil)".to_owned(),
        }
    }

    /// The key in a tree that is printed in a message. Text keys get a leading quote, so that they keep their own sort
    /// order and can be recognized.
    pub(super) fn message_key(&self) -> Str {
        match self {
            Self::Text(text) => Str::from(format!("\"{text}")),
            other => Str::from(other.go_syntax()),
        }
    }

    /// The message for a key that JSON cannot express. `value` is the printed value of the key.
    pub(super) fn unsupported_message(&self, value: &str) -> String {
        let (of, key) = match self {
            Self::Uint(_) => ("uint64", self.go_syntax()),
            _ => ("%!s(<nil>)", "<nil>".to_owned()),
        };
        format!("unsupported map key of type: {of}, key: {key}, value: {value}")
    }
}

/// Prints a value as Go's `%#v` does, with keys from [`MappingKey::message_key`].
pub(super) fn go_syntax_of_value(value: &Value) -> String {
    let inner = |value: &Value| match value {
        Value::Null => "interface {}(nil)".to_owned(),
        other => go_syntax_of_value(other),
    };
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => format_g(*f),
        Value::String(text) => print::quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let go_syntax = |key: &str| key.strip_prefix('"').map_or_else(|| key.to_owned(), print::quote);
            let entries = object.iter().map(|(key, value)| format!("{}:{}", go_syntax(key), inner(value)));
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}
