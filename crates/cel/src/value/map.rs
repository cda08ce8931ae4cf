//! Maps and objects.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use pintle_value::Object;

use crate::error::EvalError;

use super::list::all;
use super::{Number, Outcome, Shape, Text, Value, try_equal};

/// A map that an evaluation made.
pub type OwnedMap<'a> = BTreeMap<Key<'a>, Value<'a>>;

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// A JSON object, read in place.
    Json {
        /// The entries.
        object: &'a Object,
        /// The shape of the object.
        shape: &'a dyn Shape,
    },
    /// Made by the evaluation.
    Owned(Arc<OwnedMap<'a>>),
    /// Borrowed from the program.
    Borrowed(&'a OwnedMap<'a>),
    /// Worked out when asked for.
    Fields(&'a dyn Fields),
}

/// An object whose fields are worked out when asked for, such as the variables of a policy.
pub trait Fields: Debug + Sync {
    /// The value of a field, if there is such a field.
    fn field(&self, name: &str) -> Option<Outcome<Value<'_>>>;
}

impl<'a> Map<'a> {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json { object, .. } => object.len(),
            Self::Owned(entries) => entries.len(),
            Self::Borrowed(entries) => entries.len(),
            Self::Fields(_) => 0,
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is under a name.
    #[inline]
    pub fn field(&self, name: &str) -> Outcome<Option<Value<'a>>> {
        Ok(match self {
            Self::Json { object, shape } => shape.field(object, name),
            Self::Owned(entries) => entries.get(&Key::String(Text::Borrowed(name))).cloned(),
            Self::Borrowed(entries) => entries.get(&Key::String(Text::Borrowed(name))).cloned(),
            Self::Fields(fields) => fields.field(name).transpose()?,
        })
    }

    /// True if there is something under a name.
    #[must_use]
    pub fn has_field(&self, name: &str) -> bool {
        match self {
            Self::Json { object, shape } => shape.has(object, name),
            Self::Owned(entries) => entries.contains_key(&Key::String(Text::Borrowed(name))),
            Self::Borrowed(entries) => entries.contains_key(&Key::String(Text::Borrowed(name))),
            Self::Fields(fields) => fields.field(name).is_some(),
        }
    }

    /// What is under a key of any type. Numbers are the same key if they are the same amount.
    pub fn get(&self, key: &Value<'_>) -> Outcome<Option<Value<'a>>> {
        if let Value::String(name) = key {
            return self.field(name);
        }
        let Some(key) = Key::lookup(key) else { return Ok(None) };
        Ok(match self {
            Self::Owned(entries) => entries.get(&key).cloned(),
            Self::Borrowed(entries) => entries.get(&key).cloned(),
            Self::Json { shape, .. } if shape.is_typed() => return Err(EvalError::no_overload()),
            _ => None,
        })
    }

    /// The keys in their order.
    pub fn keys(&self) -> Box<dyn Iterator<Item = Value<'a>> + '_> {
        match self {
            Self::Json { object, shape } => Box::new(object.keys().filter_map(|key| shape.name_of(key)).map(named)),
            Self::Owned(entries) => Box::new(entries.keys().map(Key::value)),
            Self::Borrowed(entries) => Box::new(entries.keys().map(Key::value)),
            Self::Fields(_) => Box::new(std::iter::empty()),
        }
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Value<'a>, Value<'a>)> + '_> {
        match self {
            Self::Json { object, shape } => Box::new(object.keys().filter_map(|key| {
                let name = shape.name_of(key)?;
                let value = shape.field(object, &name)?;
                Some((named(name), value))
            })),
            Self::Owned(entries) => Box::new(entries.iter().map(|(key, value)| (key.value(), value.clone()))),
            Self::Borrowed(entries) => Box::new(entries.iter().map(|(key, value)| (key.value(), value.clone()))),
            Self::Fields(_) => Box::new(std::iter::empty()),
        }
    }

    /// True if both hold the same, as the first sees it.
    pub(super) fn equals(&self, other: &Map<'_>) -> Outcome<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Json { object, shape } => all(object.keys(), |key| match shape.name_of(key) {
                Some(name) => same(shape.field(object, &name), other.field(&name)),
                None => same_unseen(object, other, key),
            }),
            _ => all(self.iter(), |(key, value)| same(Some(value), other.get(&key))),
        }
    }
}

/// A key of a JSON object as a value.
fn named(name: Cow<'_, str>) -> Value<'_> {
    match name {
        Cow::Borrowed(name) => Value::str(name),
        Cow::Owned(name) => Value::string(name),
    }
}

/// True if two fields are equal, or neither is there.
fn same(a: Option<Value<'_>>, b: Outcome<Option<Value<'_>>>) -> Outcome<bool> {
    match (a, b) {
        (Some(a), Ok(Some(b))) => try_equal(&a, &b),
        (None, Ok(None)) => Ok(true),
        _ => Ok(false),
    }
}

/// Compares what expressions do not see, as it stands. Where the other has no such key it does not count.
fn same_unseen(object: &Object, other: &Map<'_>, key: &str) -> Outcome<bool> {
    match other {
        Map::Json { object: others, .. } => Ok(others.get(key).is_none_or(|theirs| object.get(key) == Some(theirs))),
        _ => Err(EvalError::no_overload()),
    }
}

/// A key of a map. Integers of both types are the same key if they are the same amount.
#[derive(Clone, Debug)]
pub enum Key<'a> {
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
}

impl<'a> Key<'a> {
    /// The key that a value is, if it can be one.
    #[must_use]
    pub fn new(value: Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(b) => Self::Bool(b),
            Value::Int(i) => Self::Int(i),
            Value::Uint(u) => Self::Uint(u),
            Value::Double(x) => Self::Double(x),
            Value::String(text) => Self::String(text),
            _ => return None,
        })
    }

    fn lookup<'v>(value: &'v Value<'_>) -> Option<Key<'v>> {
        Some(match value {
            Value::String(text) => Key::String(Text::Borrowed(text)),
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Int(*i),
            Value::Uint(u) => Key::Uint(*u),
            Value::Double(x) if !x.is_nan() => Key::Double(*x),
            _ => return None,
        })
    }

    /// The key as a value.
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(i) => Value::Int(*i),
            Self::Uint(u) => Value::Uint(*u),
            Self::Double(x) => Value::Double(*x),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) | Self::Uint(_) | Self::Double(_) => 1,
            Self::String(_) => 2,
        }
    }

    fn number(&self) -> Number {
        match self {
            Self::Uint(u) => Number::Uint(*u),
            Self::Double(x) => Number::Double(*x),
            Self::Int(i) => Number::Int(*i),
            _ => Number::Int(0),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::String(a), Self::String(b)) => (**a).cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (a, b) if a.rank() == 1 && b.rank() == 1 => a.number().compare(b.number()).unwrap_or(Ordering::Equal),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::plain(&self.value()))
    }
}
