//! The JSON tree. As in Go's decoder for untyped data, integers and floats are distinct (`int64` if the text is an
//! integer that fits, `float64` otherwise). Objects are sorted by key, as Go encodes maps.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use pintle_budget as budget;

use crate::object::MEMBER_BYTES;
use crate::{Object, Str};

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `null`. In a Go struct it is a nil pointer, slice or map.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number that is written as an integer and fits 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(Str),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

static NULL: Value = Value::Null;

/// The memory of a default that is added to an object, with the room for more members that the object reserves.
const DEFAULT_BYTES: usize = 2 * MEMBER_BYTES;

/// The memory of a string beside its own size, in bytes: a short string is stored inline.
pub(crate) fn heap_bytes(text: &Str) -> usize {
    if text.len() > size_of::<Str>() { text.len() } else { 0 }
}

/// Read access.
impl Value {
    /// The value of `key` in an object. `None` for other values and for `null`, which counts as absent.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(o) => o.get(key).filter(|v| !v.is_null()),
            _ => None,
        }
    }

    /// The mutable value of `key` in an object. `None` for other values and for `null`.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Value::Object(o) => o.get_mut(key).filter(|v| !v.is_null()),
            _ => None,
        }
    }

    /// The value at a path of object keys, e.g. `&["spec", "replicas"]`. Null counts as absent.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |v, key| v.get(key))
    }

    /// The mutable value at a path of object keys.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |v, key| v.get_mut(key))
    }

    /// The string at a path of object keys, or `""` (Go's zero value) if there is none.
    #[must_use]
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The integer at a path of object keys.
    #[must_use]
    pub fn int_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Value::as_int)
    }

    /// The boolean at a path of object keys, or `false` if there is none.
    #[must_use]
    pub fn bool_at(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or_default()
    }

    /// The items of the array at a path of object keys. Empty if there is none.
    #[must_use]
    pub fn items_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The entries of the object at a path of object keys. Empty if there is none.
    pub fn entries_at<'a>(&'a self, path: &[&str]) -> impl DoubleEndedIterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.at(path).and_then(Value::as_object).into_iter().flat_map(Object::iter)
    }

    /// The approximate memory of the tree, in bytes. Shared members count in full.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::String(text) => heap_bytes(text),
                Value::Array(items) => items.iter().map(Value::held_bytes).sum(),
                Value::Object(object) => object.held_bytes(),
                _ => 0,
            }
    }

    /// Whether both values are objects with the same members in memory ([`Object::shares_members`]).
    #[must_use]
    #[inline]
    pub fn shares_members(&self, other: &Value) -> bool {
        matches!((self, other), (Value::Object(object), Value::Object(other)) if object.shares_members(other))
    }

    /// Changes the value at a path of object keys, if there is one; null counts as absent. Shared objects stay shared
    /// unless something in them changes ([`Object::into_shared`]).
    pub fn change_at(&mut self, path: &[&str], change: &mut dyn FnMut(&mut Value)) {
        match path.split_first() {
            None if self.is_null() => {}
            None => change(self),
            Some((key, rest)) => {
                if let Value::Object(object) = self {
                    object.change(key, &mut |value| value.change_at(rest, change));
                }
            }
        }
    }

    /// Whether a copy of a value has not been changed: its objects still share their members, and all else is equal.
    pub(crate) fn is_untouched(&self, original: &Value) -> bool {
        match (self, original) {
            (Value::Object(object), Value::Object(original)) => {
                object.shares_members(original) || (object.is_empty() && original.is_empty())
            }
            (Value::Array(items), Value::Array(original)) => {
                items.len() == original.len()
                    && items.iter().zip(original).all(|(item, other)| item.is_untouched(other))
            }
            (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
            (value, original) => value == original,
        }
    }

    /// Compares a tree with another tree. Objects that equal the object at the same path of the other tree share their
    /// members again ([`Object::into_shared`]). Such objects were touched without a change, or decoded from another
    /// text. Returns whether the trees are equal.
    pub fn share_with(&mut self, other: &Value) -> bool {
        match (self, other) {
            (Value::Object(object), Value::Object(other)) => object.share_with(other),
            (Value::Array(items), Value::Array(other)) => {
                let pairs = items.iter_mut().zip(other);
                let is_same = pairs.fold(true, |is_same, (item, other)| item.share_with(other) && is_same);
                is_same && items.len() == other.len()
            }
            // Zeros with different signs are equal, but their texts differ.
            (Value::Float(number), Value::Float(other)) => number.to_bits() == other.to_bits(),
            (value, other) => value == other,
        }
    }

    /// The name of the value's JSON type in the messages of Go's decoder.
    #[must_use]
    pub const fn json_type(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns whether the value is one of Go's zero or empty values: null, false, 0, "", [] and {}.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(i) => *i == 0,
            Value::Float(f) => *f == 0.0,
            Value::String(s) => s.is_empty(),
            Value::Array(a) => a.is_empty(),
            Value::Object(o) => o.is_empty(),
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(b) = self { Some(*b) } else { None }
    }

    /// The integer, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(i) = self { Some(*i) } else { None }
    }

    /// The number as a float, if it is a number.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // as Go converts
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            _ => None,
        }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(s) = self { Some(s) } else { None }
    }

    /// The array, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        if let Value::Array(a) = self { Some(a) } else { None }
    }

    /// The mutable array, if it is one.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        if let Value::Array(a) = self { Some(a) } else { None }
    }

    /// The object, if it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(o) = self { Some(o) } else { None }
    }

    /// The mutable object, if it is one.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Value::Object(o) = self { Some(o) } else { None }
    }
}

/// Write access.
impl Value {
    /// Sets `key` of an object. Null becomes an object first. Other values are left unchanged.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        if let Some(o) = self.or_object() {
            o.insert(key, value);
        }
    }

    /// Sets `key` of an object if it is absent or null. Returns whether it did.
    pub fn set_default(&mut self, key: &str, value: impl Into<Value>) -> bool {
        if self.get(key).is_some() {
            return false;
        }
        let Some(o) = self.or_object() else { return false };
        // Many small items may have many defaults. When the budget is exhausted, the object is not stored.
        if budget::charge(DEFAULT_BYTES).is_err() {
            return false;
        }
        let slot = o.entry(key);
        let absent = slot.is_null();
        if absent {
            *slot = value.into();
        }
        absent
    }

    /// Sets the value at a path of object keys and creates the parent objects.
    pub fn set_at(&mut self, path: &[&str], value: impl Into<Value>) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut parent = self;
        for key in parents {
            match parent.or_object() {
                Some(o) => parent = o.entry(key),
                None => return,
            }
        }
        parent.set(last, value);
    }

    /// Removes `key` from an object.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.as_object_mut().and_then(|o| o.remove(key))
    }

    /// Removes the value at a path of object keys.
    pub fn remove_at(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        self.at_mut(parents)?.remove(last)
    }

    /// The value as a mutable object. Null becomes an empty object. `None` for other values.
    pub fn or_object(&mut self) -> Option<&mut Object> {
        if self.is_null() {
            *self = Value::Object(Object::new());
        }
        self.as_object_mut()
    }

    /// The value as a mutable array. Null becomes an empty array. `None` for other values.
    pub fn or_array(&mut self) -> Option<&mut Vec<Value>> {
        if self.is_null() {
            *self = Value::Array(Vec::new());
        }
        self.as_array_mut()
    }

    /// Replaces the value by null and returns it.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// An empty object.
    #[must_use]
    pub const fn object() -> Self {
        Value::Object(Object::new())
    }
}

/// `value["key"]`: the value of the key, or null.
impl std::ops::Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }
}

/// `value[0]`: the item at the index, or null.
impl std::ops::Index<usize> for Value {
    type Output = Value;

    fn index(&self, i: usize) -> &Value {
        self.as_array().and_then(|a| a.get(i)).unwrap_or(&NULL)
    }
}

macro_rules! from {
    ($($t:ty => |$x:ident| $e:expr;)*) => {$(
        impl From<$t> for Value {
            fn from($x: $t) -> Self { $e }
        }
    )*};
}
from! {
    bool => |x| Value::Bool(x);
    i32 => |x| Value::Int(i64::from(x));
    u32 => |x| Value::Int(i64::from(x));
    u16 => |x| Value::Int(i64::from(x));
    i64 => |x| Value::Int(x);
    f64 => |x| Value::Float(x);
    &str => |x| Value::String(Str::from(x));
    &String => |x| Value::String(Str::from(x.as_str()));
    String => |x| Value::String(Str::from(x));
    Str => |x| Value::String(x);
    &Str => |x| Value::String(x.clone());
    Object => |x| Value::Object(x);
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Value::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(item: Option<T>) -> Self {
        item.map_or(Value::Null, Into::into)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => s.serialize_unit(),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Int(i) => s.serialize_i64(*i),
            Value::Float(f) => s.serialize_f64(*f),
            Value::String(t) => s.serialize_str(t),
            Value::Array(items) => {
                let mut seq = s.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Value::Object(o) => {
                let mut map = s.serialize_map(Some(o.len()))?;
                for (k, v) in o.iter() {
                    map.serialize_entry(k, v)?;
                }
                map.end()
            }
        }
    }
}

/// The only key of a number that `serde_json` hands over as a map. Any crate of a program can make it do so, by the feature
/// `arbitrary_precision`.
const SERDE_JSON_NUMBER: &str = "$serde_json::private::Number";

/// Parses a number as JSON writes it.
fn parse_number(text: &str) -> Option<Value> {
    let float = || text.parse().ok().filter(|float: &f64| float.is_finite()).map(Value::Float);
    text.parse().ok().map(Value::Int).or_else(float)
}

impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_none<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
                Ok(Value::Bool(b))
            }

            fn visit_i64<E>(self, i: i64) -> Result<Value, E> {
                Ok(Value::Int(i))
            }

            #[allow(clippy::cast_precision_loss)] // as Go does with integers that do not fit
            fn visit_u64<E>(self, u: u64) -> Result<Value, E> {
                Ok(i64::try_from(u).map_or(Value::Float(u as f64), Value::Int))
            }

            fn visit_f64<E>(self, f: f64) -> Result<Value, E> {
                Ok(Value::Float(f))
            }

            fn visit_str<E>(self, s: &str) -> Result<Value, E> {
                Ok(Value::from(s))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Value::Array(items))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<Str, Value>()? {
                    entries.push(entry);
                }
                if let [(key, Value::String(text))] = &entries[..]
                    && key == SERDE_JSON_NUMBER
                    && let Some(number) = parse_number(text)
                {
                    return Ok(number);
                }
                Ok(Value::Object(Object::from_entries(entries)))
            }
        }

        d.deserialize_any(Visitor)
    }
}

/// Creates a [`Value`] from JSON-like syntax: `object! { "kind": "Pod", "spec": spec }`. The member values may have any
/// type that converts into a value.
#[macro_export]
macro_rules! object {
    () => {
        $crate::Value::object()
    };
    ($($key:literal : $value:expr),+ $(,)?) => {
        $crate::Value::Object([$(($key, $crate::Value::from($value))),+].into_iter().collect::<$crate::Object>())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_arbitrary_precision_are_numbers() {
        let decode = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
        let number = |text: &str| decode(&format!(r#"{{"a":{{"$serde_json::private::Number":"{text}"}}}}"#));
        assert_eq!(number("-7"), object! { "a": -7 });
        assert_eq!(number("2.5"), object! { "a": 2.5 });
        assert_eq!(number("x"), object! { "a": object! { "$serde_json::private::Number": "x" } });
    }

    #[test]
    fn last_of_duplicate_keys_wins() {
        let o: Object = [("b", 1), ("a", 2), ("b", 3), ("b", 4)].into_iter().collect();
        assert_eq!(o.iter().collect::<Vec<_>>(), [("a", &Value::Int(2)), ("b", &Value::Int(4))]);
    }

    #[test]
    fn set_at_creates_parents_and_null_counts_as_absent() {
        let mut v = Value::Null;
        v.set_at(&["spec", "replicas"], 3);
        v.set_at(&["spec", "template"], Value::Null);
        assert_eq!(v.int_at(&["spec", "replicas"]), Some(3));
        assert_eq!(v.at(&["spec", "template"]), None);
        assert!(!v.at_mut(&["spec"]).expect("spec").set_default("replicas", 4));
        assert!(v.at_mut(&["spec"]).expect("spec").set_default("template", Value::object()));
    }
}
