//! How JSON trees are read.

use std::borrow::Cow;
use std::fmt::Debug;

use pintle_value::{Object, Str, Value as Json};

use super::{List, Map, Value};

/// What is known of a place in a JSON tree: whether a string is a time, what the fields of an object are called, how
/// lists compare. The schema side implements it; [`Untyped`] reads JSON as it stands.
pub trait Shape: Debug + Send + Sync {
    /// The value that the tree stands for; [`Value::Invalid`] if it is none that the place may hold.
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a>;

    /// What is under a name in a JSON object. Names are as expressions write them.
    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>>;

    /// True if there is something under a name.
    fn has(&self, object: &Object, name: &str) -> bool {
        self.field(object, name).is_some()
    }

    /// What expressions call a key of the JSON object; `None` if they do not see it.
    fn name_of<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        Some(Cow::Borrowed(key))
    }

    /// True for values of a schema: to compare them to values of other types is an error and not just in vain, and so is
    /// to look for anything but a name in their objects.
    fn is_typed(&self) -> bool {
        false
    }

    /// An element of a JSON array.
    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>>;

    /// How lists of this shape compare and are added.
    fn topology(&self) -> Topology<'_> {
        Topology::Atomic
    }
}

/// How lists compare and are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology<'s> {
    /// Element by element; adding appends.
    Atomic,
    /// Without regard to order; adding appends what is not there yet.
    Set,
    /// By the fields given; adding replaces elements with the same ones.
    Map(&'s [Str]),
}

/// JSON as it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untyped;

static UNTYPED: Untyped = Untyped;

/// JSON as it stands, as a value.
#[must_use]
pub fn untyped(json: &Json) -> Value<'_> {
    UNTYPED.read(json)
}

impl Shape for Untyped {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Int(i) => Value::Int(*i),
            Json::Float(x) => Value::Double(*x),
            Json::String(text) => Value::str(text),
            Json::Array(items) => Value::List(List::Json { items, shape: self }),
            Json::Object(object) => Value::Map(Map::Json { object, shape: self }),
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>> {
        object.get(name).map(|json| self.read(json))
    }

    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>> {
        items.get(index).map(|item| self.read(item))
    }

    fn has(&self, object: &Object, name: &str) -> bool {
        object.contains_key(name)
    }
}
