//! Converts JSON values to CEL values on access (upstream: cel-go `types.Adapter` and `UnstructuredToVal` of
//! `apiserver/pkg/cel/common`).

use std::borrow::Cow;
use std::fmt::Debug;

use pintle_value::{Object, Str, Value as Json};

use super::{List, Map, Value};

/// Converts the JSON values at one position of a schema. The adapter decides whether a string is a timestamp, how the
/// fields of an object are named, and how lists compare. The crate that knows the schema implements it; [`Untyped`]
/// converts JSON without a schema.
pub trait TypeAdapter: Debug + Send + Sync {
    /// Converts a JSON value. Returns [`Value::Invalid`] if the value does not match the schema.
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a>;

    /// The value of a field of a JSON object, by its name in expressions.
    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>>;

    /// True if the field exists.
    fn has_field(&self, object: &Object, name: &str) -> bool {
        self.field(object, name).is_some()
    }

    /// The name in expressions of a key of the JSON object; `None` if expressions cannot access it.
    fn field_name<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        Some(Cow::Borrowed(key))
    }

    /// True if values are converted with a schema. Comparing such a value to a value of another type is an error
    /// instead of false. Using a key that is not a string is an error, too.
    fn is_typed(&self) -> bool {
        false
    }

    /// The value of an element of a JSON array.
    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>>;

    /// How lists compare and how `+` merges them.
    fn topology(&self) -> ListTopology<'_> {
        ListTopology::Atomic
    }

    /// True if sets are compared by their converted elements, and if equal sets and maps have the same keys. Otherwise a
    /// set is compared by its JSON elements, and equal lists may lack keys of the first list.
    fn compares_converted_elements(&self) -> bool {
        false
    }
}

/// How lists compare and how `+` merges them (upstream: `x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListTopology<'s> {
    /// Elements are compared in order; `+` appends.
    Atomic,
    /// The order is ignored; `+` appends the elements that do not exist yet.
    Set,
    /// Elements are identified by the given fields; `+` replaces the elements with the same key and appends the others.
    Map(&'s [Str]),
}

/// The adapter for JSON without a schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untyped;

static UNTYPED: Untyped = Untyped;

/// Converts JSON without a schema.
#[must_use]
pub fn untyped(json: &Json) -> Value<'_> {
    UNTYPED.read(json)
}

impl TypeAdapter for Untyped {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Int(i) => Value::Int(*i),
            Json::Float(x) => Value::Double(*x),
            Json::String(text) => Value::str(text),
            Json::Array(items) => Value::List(List::Json { items, adapter: self }),
            Json::Object(object) => Value::Map(Map::Json { object, adapter: self }),
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>> {
        object.get(name).map(|json| self.read(json))
    }

    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>> {
        items.get(index).map(|item| self.read(item))
    }

    fn has_field(&self, object: &Object, name: &str) -> bool {
        object.contains_key(name)
    }
}
