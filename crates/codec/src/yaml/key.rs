//! The keys of mappings: any scalar in Go's maps, text in JSON, and something else again in messages.

use pintle_value::{Str, Value};

use super::number::{format_g, format_g32};
use super::resolve::Scalar;

/// A key as goyaml reads it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Text(Str),
    Int(i64),
    Bool(bool),
    Float(f64),
    /// Beyond [`i64::MAX`].
    Uint(u64),
    Null,
}

impl Key {
    /// The key that a scalar is, which was written so.
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

    /// What it is in JSON, if it can be there.
    pub(super) fn text(&self) -> Option<Str> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Int(i) => Some(Str::from(i.to_string())),
            Self::Bool(b) => Some(Str::from(b.to_string())),
            Self::Float(f) => Some(Str::from(format_g32(*f))),
            Self::Uint(_) | Self::Null => None,
        }
    }

    /// True if it is not even equal to itself.
    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Self::Float(f) if f.is_nan())
    }

    /// What Go prints of it inside of a map.
    pub(super) fn printed(&self) -> String {
        match self {
            Self::Text(text) => crate::go::quote(text),
            Self::Int(i) => i.to_string(),
            Self::Bool(b) => b.to_string(),
            Self::Float(f) => format_g(*f),
            Self::Uint(u) => format!("{u:#x}"),
            Self::Null => "interface {}(nil)".to_owned(),
        }
    }

    /// The same in a tree that goes into a message, where texts are to be in their own order: only a quote is before them.
    pub(super) fn in_message(&self) -> Str {
        match self {
            Self::Text(text) => Str::from(format!("\"{text}")),
            other => Str::from(other.printed()),
        }
    }

    /// The message for a key that cannot be in JSON; `value` is what Go prints of what it leads to.
    pub(super) fn unsupported(&self, value: &str) -> String {
        let (of, key) = match self {
            Self::Uint(_) => ("uint64", self.printed()),
            _ => ("%!s(<nil>)", "<nil>".to_owned()),
        };
        format!("unsupported map key of type: {of}, key: {key}, value: {value}")
    }
}

/// A value in a message, as Go's `%#v` prints it, with keys as [`Key::in_message`] has them.
pub(super) fn printed_value(value: &Value) -> String {
    let inner = |value: &Value| match value {
        Value::Null => "interface {}(nil)".to_owned(),
        other => printed_value(other),
    };
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => format_g(*f),
        Value::String(text) => crate::go::quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let printed = |key: &str| key.strip_prefix('"').map_or_else(|| key.to_owned(), crate::go::quote);
            let entries = object.iter().map(|(key, value)| format!("{}:{}", printed(key), inner(value)));
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}
