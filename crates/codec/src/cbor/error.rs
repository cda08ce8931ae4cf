//! Why bytes are not what they should be, in the words of upstream's decoder.

use std::fmt;

/// Why bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// They are no CBOR, or more than is allowed.
    Malformed(String),
    /// An item does not fit the Go type that it is for.
    Type {
        /// What the item is.
        item: &'static str,
        /// The Go type.
        go: String,
        /// The struct and field that it is for, outermost.
        field: Option<String>,
        /// What else there is to say.
        note: String,
    },
    /// A key comes twice in a map.
    DuplicateKey {
        /// The key as Go prints it.
        key: String,
        /// The place of the second one in its map.
        index: usize,
    },
    /// A key of a map is no field of the struct that it is for.
    UnknownField {
        /// The place in its map.
        index: usize,
    },
    /// Anything else.
    Other(String),
}

impl Error {
    pub(super) fn unfit(item: &'static str, go: impl Into<String>) -> Self {
        Self::noted(item, go, String::new())
    }

    pub(super) fn noted(item: &'static str, go: impl Into<String>, note: impl Into<String>) -> Self {
        Error::Type { item, go: go.into(), field: None, note: note.into() }
    }

    pub(super) fn unacceptable(item: &'static str, what: &str) -> Self {
        Error::Other(format!("cbor: data item of cbor type {item} is not accepted by protocol: {what}"))
    }

    /// The same, of a field of a struct. The outermost struct has the last word.
    pub(super) fn of_field(self, name: impl FnOnce() -> String) -> Self {
        match self {
            Error::Type { item, go, note, .. } => Error::Type { item, go, field: Some(name()), note },
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed(text) | Error::Other(text) => f.write_str(text),
            Error::Type { item, go, field, note } => {
                write!(f, "cbor: cannot unmarshal {item} into Go ")?;
                match field {
                    Some(field) => write!(f, "struct field {field}")?,
                    None => f.write_str("value")?,
                }
                write!(f, " of type {go}")?;
                if note.is_empty() { Ok(()) } else { write!(f, " ({note})") }
            }
            Error::DuplicateKey { key, index } => {
                write!(f, "cbor: found duplicate map key {key} at map element index {index}")
            }
            Error::UnknownField { index } => write!(f, "cbor: found unknown field at map element index {index}"),
        }
    }
}

impl std::error::Error for Error {}
