//! Path elements.

use std::cmp::Ordering;
use std::fmt;

use pintle_value::{Str, Value, print};

use super::order::{compare_values, values_equal};

/// One step of a path. Elements are ordered by variant, in this order, and then by content.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or an entry of a map.
    Field(Str),
    /// The item of an associative list with these keys.
    Key(KeyFields),
    /// The item of a set with this value.
    Value(Value),
    /// The item of a list at this index. It is no longer produced, but still decoded and preserved.
    Index(i64),
}

/// The keys of an item of an associative list, sorted by name. Keys that the item lacks are absent.
#[derive(Clone, Debug, Default)]
pub struct KeyFields(Box<[(Str, Value)]>);

impl KeyFields {
    /// Creates the keys from fields in any order.
    #[must_use]
    pub fn new(mut fields: Vec<(Str, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self(fields.into_boxed_slice())
    }

    /// The keys, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl PathElement {
    /// The element of a field or of a map's key.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(Str::from(name))
    }

    /// The element of the list item with these keys.
    #[must_use]
    pub fn key<N: Into<Str>, V: Into<Value>>(fields: impl IntoIterator<Item = (N, V)>) -> Self {
        Self::Key(KeyFields::new(fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect()))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a.cmp(b),
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a == b,
            (Self::Key(a), Self::Key(b)) => a == b,
            (Self::Value(a), Self::Value(b)) => values_equal(a, b),
            (Self::Index(a), Self::Index(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for PathElement {}

impl Ord for KeyFields {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.iter().zip(other.iter());
        let mut orders = pairs.map(|((an, a), (bn, b))| an.cmp(bn).then_with(|| compare_values(a, b)));
        orders.find(|o| o.is_ne()).unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for KeyFields {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyFields {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.iter().zip(other.iter()).all(|((an, a), (bn, b))| an == bn && values_equal(a, b))
    }
}

impl Eq for KeyFields {}

/// The form in conflicts and errors: `.image`, `[name="a",port=80]`, `[="x"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", ValueText(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", ValueText(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Displays a value as in paths and messages.
struct ValueText<'v>(&'v Value);

impl fmt::Display for ValueText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::String(text) => f.write_str(&print::quote(text)),
            Value::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { "," } else { "" }, Self(item))?;
                }
                f.write_str("]")
            }
            Value::Object(object) => object.iter().try_for_each(|(key, value)| write!(f, "{key}={}", ValueText(value))),
            scalar => f.write_str(&print::plain(scalar)),
        }
    }
}
