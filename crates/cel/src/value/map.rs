//! Map values and objects.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use pintle_value::Object;

use crate::error::EvalError;

use super::list::try_all;
use super::{CelString, EvalResult, Number, TypeAdapter, Value, try_equal};

/// A map created by an evaluation.
pub type OwnedMap<'a> = BTreeMap<MapKey<'a>, Value<'a>>;

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// A JSON object, converted on access.
    Json {
        /// The entries.
        object: &'a Object,
        /// The adapter of the object.
        adapter: &'a dyn TypeAdapter,
    },
    /// Created by the evaluation.
    Owned(Arc<OwnedMap<'a>>),
    /// Borrowed from the program.
    Borrowed(&'a OwnedMap<'a>),
    /// An object that the expression constructs by the name of its type.
    Struct {
        /// The name of the type.
        name: &'a str,
        /// The fields.
        fields: Arc<OwnedMap<'a>>,
    },
    /// Fields are evaluated on access.
    Lazy(&'a dyn LazyMap),
}

/// An object whose fields are evaluated on access, such as the variables of a policy (upstream:
/// `apiserver/pkg/cel/lazy.MapValue`).
pub trait LazyMap: Debug + Sync {
    /// The value of a field, if the field exists.
    fn field(&self, name: &str) -> Option<EvalResult<Value<'_>>>;
}

impl<'a> Map<'a> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json { object, .. } => object.len(),
            Self::Owned(entries) | Self::Struct { fields: entries, .. } => entries.len(),
            Self::Borrowed(entries) => entries.len(),
            Self::Lazy(_) => 0,
        }
    }

    /// True if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    #[inline]
    pub fn field(&self, name: &str) -> EvalResult<Option<Value<'a>>> {
        Ok(match self {
            Self::Json { object, adapter } => adapter.field(object, name),
            Self::Owned(entries) | Self::Struct { fields: entries, .. } => {
                entries.get(&MapKey::String(CelString::Borrowed(name))).cloned()
            }
            Self::Borrowed(entries) => entries.get(&MapKey::String(CelString::Borrowed(name))).cloned(),
            Self::Lazy(fields) => fields.field(name).transpose()?,
        })
    }

    /// True if the field exists.
    #[must_use]
    pub fn has_field(&self, name: &str) -> bool {
        match self {
            Self::Json { object, adapter } => adapter.has_field(object, name),
            Self::Owned(entries) | Self::Struct { fields: entries, .. } => {
                entries.contains_key(&MapKey::String(CelString::Borrowed(name)))
            }
            Self::Borrowed(entries) => entries.contains_key(&MapKey::String(CelString::Borrowed(name))),
            Self::Lazy(fields) => fields.field(name).is_some(),
        }
    }

    /// The value under a key of any type. Numbers of different types are the same key if their values are equal.
    pub fn get(&self, key: &Value<'_>) -> EvalResult<Option<Value<'a>>> {
        if let Value::String(name) = key {
            return self.field(name);
        }
        let Some(key) = MapKey::borrowed_from(key) else { return Ok(None) };
        Ok(match self {
            Self::Owned(entries) | Self::Struct { fields: entries, .. } => entries.get(&key).cloned(),
            Self::Borrowed(entries) => entries.get(&key).cloned(),
            Self::Json { adapter, .. } if adapter.is_typed() => return Err(EvalError::no_overload()),
            _ => None,
        })
    }

    /// The keys in order.
    pub fn keys(&self) -> Box<dyn Iterator<Item = Value<'a>> + '_> {
        match self {
            Self::Json { object, adapter } => {
                Box::new(object.keys().filter_map(|key| adapter.field_name(key)).map(name_value))
            }
            Self::Owned(entries) | Self::Struct { fields: entries, .. } => Box::new(entries.keys().map(MapKey::value)),
            Self::Borrowed(entries) => Box::new(entries.keys().map(MapKey::value)),
            Self::Lazy(_) => Box::new(std::iter::empty()),
        }
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Value<'a>, Value<'a>)> + '_> {
        match self {
            Self::Json { object, adapter } => Box::new(object.keys().filter_map(|key| {
                let name = adapter.field_name(key)?;
                let value = adapter.field(object, &name)?;
                Some((name_value(name), value))
            })),
            Self::Owned(entries) | Self::Struct { fields: entries, .. } => {
                Box::new(entries.iter().map(|(key, value)| (key.value(), value.clone())))
            }
            Self::Borrowed(entries) => Box::new(entries.iter().map(|(key, value)| (key.value(), value.clone()))),
            Self::Lazy(_) => Box::new(std::iter::empty()),
        }
    }

    /// True if both maps are equal, under the adapter of `self`.
    pub(super) fn equals(&self, other: &Map<'_>) -> EvalResult<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Json { object, adapter } => try_all(object.keys(), |key| match adapter.field_name(key) {
                Some(name) => fields_equal(adapter.field(object, &name), other.field(&name)),
                None => hidden_field_equal(object, other, key),
            }),
            _ => try_all(self.iter(), |(key, value)| fields_equal(Some(value), other.get(&key))),
        }
    }
}

/// Converts a field name to a value.
fn name_value(name: Cow<'_, str>) -> Value<'_> {
    match name {
        Cow::Borrowed(name) => Value::str(name),
        Cow::Owned(name) => Value::string(name),
    }
}

/// True if two fields are equal, or both are absent.
fn fields_equal(a: Option<Value<'_>>, b: EvalResult<Option<Value<'_>>>) -> EvalResult<bool> {
    match (a, b) {
        (Some(a), Ok(Some(b))) => try_equal(&a, &b),
        (None, Ok(None)) => Ok(true),
        (_, Err(error)) if error.is_fatal() => Err(error),
        _ => Ok(false),
    }
}

/// Compares a field that expressions cannot access, as JSON. The field is ignored if `other` does not have it.
fn hidden_field_equal(object: &Object, other: &Map<'_>, key: &str) -> EvalResult<bool> {
    match other {
        Map::Json { object: others, .. } => Ok(others.get(key).is_none_or(|theirs| object.get(key) == Some(theirs))),
        _ => Err(EvalError::no_overload()),
    }
}

/// A map key. Numbers of different types are the same key if their values are equal.
#[derive(Clone, Debug)]
pub enum MapKey<'a> {
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
}

impl<'a> MapKey<'a> {
    /// Converts a value to a key, if its type allows that.
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

    fn borrowed_from<'v>(value: &'v Value<'_>) -> Option<MapKey<'v>> {
        Some(match value {
            Value::String(text) => MapKey::String(CelString::Borrowed(text)),
            Value::Bool(b) => MapKey::Bool(*b),
            Value::Int(i) => MapKey::Int(*i),
            Value::Uint(u) => MapKey::Uint(*u),
            Value::Double(x) if !x.is_nan() => MapKey::Double(*x),
            _ => return None,
        })
    }

    /// Converts the key to a value.
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

    fn type_rank(&self) -> u8 {
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

impl Ord for MapKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::String(a), Self::String(b)) => (**a).cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (a, b) if a.type_rank() == 1 && b.type_rank() == 1 => {
                a.number().compare(b.number()).unwrap_or(Ordering::Equal)
            }
            (a, b) => a.type_rank().cmp(&b.type_rank()),
        }
    }
}

impl PartialOrd for MapKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MapKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MapKey<'_> {}

impl fmt::Display for MapKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::go_string(&self.value()))
    }
}
