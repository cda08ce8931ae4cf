//! Values. Scalars are held directly, strings and bytes may be borrowed, and JSON trees are read in place: a
//! [`Shape`] says how each place in them is to be read, so that nothing is copied.

mod compare;
mod list;
mod map;
mod number;
mod opaque;
mod shape;
mod show;
mod text;
mod time;
mod zone;

use std::sync::Arc;

use pintle_value::Str;

use crate::error::EvalError;
use crate::types::OPTIONAL;

pub(crate) use compare::try_equal;
pub use compare::{compare, equal};
pub use list::List;
pub use map::{Fields, Key, Map, OwnedMap};
pub(crate) use number::{Number, double_to_int, double_to_uint, format_double};
pub use opaque::Opaque;
pub use shape::{Shape, Topology, Untyped, untyped};
pub(crate) use show::plain;
pub use text::{Blob, Text};
pub use time::Timestamp;
pub(crate) use time::{Field, seconds_of};

/// The outcome of a step.
pub type Outcome<T> = Result<T, EvalError>;

/// A value. It may borrow from the data of the evaluation and from the program, for `'a`.
///
/// The tag takes a whole word: with a smaller one, values are moved in pieces of odd sizes, and reading them back as
/// words right after, which evaluation does all the time, stalls the processor.
#[derive(Clone, Debug)]
#[repr(u64)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// Bytes.
    Bytes(Blob<'a>),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// `optional.of(…)` or `optional.none()`.
    Optional(Option<Arc<Value<'a>>>),
    /// A type, by its name.
    Type(Str),
    /// A value of a library, such as an IP address.
    Opaque(Arc<dyn Opaque>),
    /// A place of the data that holds something that it may not hold: whoever asks for it gets the error.
    Invalid(EvalError),
}

impl<'a> Value<'a> {
    /// A string that is borrowed.
    #[must_use]
    pub fn str(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// A string that is owned.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Owned(text.into()))
    }

    /// A list of given elements.
    #[must_use]
    pub fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List::Owned(Arc::new(elements)))
    }

    /// An optional with a value.
    #[must_use]
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// A value of a library.
    #[must_use]
    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// The same value without owning its parts.
    #[must_use]
    pub fn borrowed(&'a self) -> Self {
        match self {
            Self::String(Text::Owned(text)) => Self::String(Text::Borrowed(text)),
            Self::Bytes(Blob::Owned(bytes)) => Self::Bytes(Blob::Borrowed(bytes)),
            Self::List(List::Owned(elements)) => Self::List(List::Borrowed(elements)),
            Self::Map(Map::Owned(entries)) => Self::Map(Map::Borrowed(entries)),
            other => other.clone(),
        }
    }

    /// The name of the type, as `type(x)` has it.
    #[must_use]
    pub fn type_name(&self) -> Str {
        let name = match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => OPTIONAL,
            Self::Type(_) => "type",
            Self::Opaque(value) => value.type_name(),
            Self::Invalid(_) => "error",
        };
        Str::from(name)
    }

    /// How large the value is, where it has a size: characters, bytes, elements, entries.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) => text.chars_count(),
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Opaque(value) => value.size()?,
            _ => return None,
        })
    }

    /// The value, or the error that it stands for.
    #[inline]
    pub(crate) fn valid(self) -> Outcome<Self> {
        match self {
            Self::Invalid(error) => Err(error),
            value => Ok(value),
        }
    }

    /// True for a list or an object that is read by a schema ([`Shape::is_typed`]).
    pub(crate) fn is_typed(&self) -> bool {
        match self {
            Self::List(List::Json { shape, .. } | List::Shaped(_, shape)) | Self::Map(Map::Json { shape, .. }) => {
                shape.is_typed()
            }
            _ => false,
        }
    }

    /// The text, if the value is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The value of a library, if it is of the given type.
    #[must_use]
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Self::Opaque(value) => value.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl PartialEq for Value<'_> {
    /// CEL's equality: numbers compare by amount, across types.
    fn eq(&self, other: &Self) -> bool {
        equal(self, other)
    }
}
