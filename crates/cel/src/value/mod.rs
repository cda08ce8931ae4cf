//! Values. Scalars are stored inline, strings and bytes can be borrowed, and JSON trees are not copied: a
//! [`TypeAdapter`] converts their parts on access.

mod adapter;
pub(crate) mod authorization;
mod compare;
mod go_string;
mod list;
mod map;
mod memory;
mod number;
mod opaque;
mod string;
mod time;
mod zone;

use std::sync::Arc;

use pintle_value::Str;

use crate::error::EvalError;
use crate::types::OPTIONAL;

pub use adapter::{ListTopology, TypeAdapter, Untyped, untyped};
pub use authorization::{
    AccessCheck, AccessChecker, AccessDecision, AccessSubject, AccessTarget, AuthorizationValue, ResourceTarget,
};
pub(crate) use compare::try_equal;
pub use compare::{compare, equal};
pub(crate) use go_string::go_string;
pub use list::List;
pub use map::{LazyMap, Map, MapKey, OwnedMap};
pub use memory::MAX_EVALUATION_MEMORY;
pub(crate) use memory::{ELEMENT_BYTES, ENTRY_BYTES, STRING_BYTES, ensure_room, held_bytes};
pub(crate) use number::{Number, double_to_int, double_to_uint, format_double};
pub use opaque::Opaque;
pub use string::{CelBytes, CelString};
pub use time::Timestamp;
pub(crate) use time::{TimestampPart, format_duration};

/// The result of an evaluation step.
pub type EvalResult<T> = Result<T, EvalError>;

/// A value. It can borrow from the input data and from the program, for `'a`.
///
/// The enum's tag is a full word. With a smaller tag, values would be copied in parts of odd sizes. Evaluation
/// constantly loads values as words right after they are copied. After copies in parts, such loads would cause
/// store-forwarding stalls.
#[derive(Clone, Debug)]
#[repr(u64)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// A bool.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string.
    String(CelString<'a>),
    /// Bytes.
    Bytes(CelBytes<'a>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// `optional.of(…)` or `optional.none()`.
    Optional(Option<Arc<Value<'a>>>),
    /// A type value, by its name.
    Type(Str),
    /// An opaque value of a library, such as an IP address.
    Opaque(Arc<dyn Opaque>),
    /// `authorizer`, and the checks and decisions that expressions make from it.
    Authorization(Arc<AuthorizationValue<'a>>),
    /// Input data that does not match its schema. Using the value returns the error.
    Invalid(EvalError),
}

impl<'a> Value<'a> {
    /// Creates a borrowed string.
    #[must_use]
    pub fn str(string: &'a str) -> Self {
        Self::String(CelString::Borrowed(string))
    }

    /// Creates an owned string.
    #[must_use]
    pub fn string(string: impl Into<Arc<str>>) -> Self {
        Self::String(CelString::Owned(string.into()))
    }

    /// Creates a list.
    #[must_use]
    pub fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List::Owned(Arc::new(elements)))
    }

    /// Creates an optional with a value.
    #[must_use]
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Creates an opaque value.
    #[must_use]
    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// Returns a copy of the value that borrows the parts that `self` owns.
    #[must_use]
    pub fn borrowed(&'a self) -> Self {
        match self {
            Self::String(CelString::Owned(string)) => Self::String(CelString::Borrowed(string)),
            Self::Bytes(CelBytes::Owned(bytes)) => Self::Bytes(CelBytes::Borrowed(bytes)),
            Self::List(List::Owned(elements)) => Self::List(List::Borrowed(elements)),
            Self::Map(Map::Owned(entries)) => Self::Map(Map::Borrowed(entries)),
            other => other.clone(),
        }
    }

    /// The name of the type, as returned by `type(x)`.
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
            Self::Authorization(value) => value.type_name(),
            Self::Invalid(_) => "error",
        };
        Str::from(name)
    }

    /// The size of the value, if it has one: characters, bytes, elements or entries.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(string) => string.char_count(),
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Opaque(value) => value.size()?,
            _ => return None,
        })
    }

    /// Returns the value, or the error if it is invalid.
    #[inline]
    pub(crate) fn into_valid(self) -> EvalResult<Self> {
        match self {
            Self::Invalid(error) => Err(error),
            value => Ok(value),
        }
    }

    /// True for a list or an object that is converted with a schema ([`TypeAdapter::is_typed`]).
    pub(crate) fn is_typed(&self) -> bool {
        match self {
            Self::List(List::Json { adapter, .. } | List::Adapted(_, adapter))
            | Self::Map(Map::Json { adapter, .. }) => adapter.is_typed(),
            _ => false,
        }
    }

    /// The string, if the value is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(string) => Some(string),
            _ => None,
        }
    }

    /// The bool, if the value is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The opaque value, if it is of the given Rust type.
    #[must_use]
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Self::Opaque(value) => value.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl PartialEq for Value<'_> {
    /// CEL's equality: numbers of different types compare by value.
    fn eq(&self, other: &Self) -> bool {
        equal(self, other)
    }
}
