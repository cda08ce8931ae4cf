//! CBOR decoding errors, with the messages of upstream's decoder.

use std::fmt;

/// Why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not well-formed CBOR or exceed the limits.
    Malformed(String),
    /// An item cannot be decoded into its Go type.
    Type {
        /// The type of the item.
        item: &'static str,
        /// The Go type.
        go: String,
        /// The outermost struct and the field of the item.
        field: Option<String>,
        /// An additional note.
        note: String,
    },
    /// A map has a duplicate key.
    DuplicateKey {
        /// The key as Go prints it.
        key: String,
        /// The index of the second occurrence in its map.
        index: usize,
    },
    /// A key of a map is not a field of the struct.
    UnknownField {
        /// The index in its map.
        index: usize,
    },
    /// Anything else.
    Other(String),
}

impl DecodeError {
    pub(super) fn type_mismatch(item: &'static str, go: impl Into<String>) -> Self {
        Self::type_mismatch_with_note(item, go, String::new())
    }

    pub(super) fn type_mismatch_with_note(item: &'static str, go: impl Into<String>, note: impl Into<String>) -> Self {
        DecodeError::Type { item, go: go.into(), field: None, note: note.into() }
    }

    pub(super) fn not_accepted(item: &'static str, what: &str) -> Self {
        DecodeError::Other(format!("cbor: data item of cbor type {item} is not accepted by protocol: {what}"))
    }

    /// Adds the struct and field to the error. The outermost struct replaces the structs inside it.
    pub(super) fn with_field(self, name: impl FnOnce() -> String) -> Self {
        match self {
            DecodeError::Type { item, go, note, .. } => DecodeError::Type { item, go, field: Some(name()), note },
            other => other,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Malformed(text) | DecodeError::Other(text) => f.write_str(text),
            DecodeError::Type { item, go, field, note } => {
                write!(f, "cbor: cannot unmarshal {item} into Go ")?;
                match field {
                    Some(field) => write!(f, "struct field {field}")?,
                    None => f.write_str("value")?,
                }
                write!(f, " of type {go}")?;
                if note.is_empty() { Ok(()) } else { write!(f, " ({note})") }
            }
            DecodeError::DuplicateKey { key, index } => {
                write!(f, "cbor: found duplicate map key {key} at map element index {index}")
            }
            DecodeError::UnknownField { index } => write!(f, "cbor: found unknown field at map element index {index}"),
        }
    }
}

impl std::error::Error for DecodeError {}
