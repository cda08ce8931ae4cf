//! Ratcheting: what has not changed since the old object was let in is not held against the new one (KEP-4008;
//! upstream: `apiserver/pkg/cel/common.CorrelatedObject`).

use std::collections::HashMap;

use pintle_value::{Value, print};

use crate::schema::model::Type;
use crate::schema::part::{ListType, Part};

/// The old value that stands for a new one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old<'v>(pub(crate) &'v Value);

impl<'v> Old<'v> {
    /// The old value of a field. The new one has the field, and the schema speaks of it.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        self.0.as_object()?.get(name).map(Old)
    }

    /// The old items of a list, if they can be told apart.
    pub(crate) fn items<'s>(self, part: Part<'s>) -> Option<OldItems<'v, impl Fn(&Value) -> Option<String> + use<'s>>> {
        let Value::Array(items) = self.0 else { return None };
        if part.list_type() != Some(ListType::Map) || part.ty() != Some(Type::Array) {
            return None;
        }
        let key = move |item: &Value| key(part, item);
        let mut by_key = HashMap::with_capacity(items.len());
        for item in items {
            if let Some(key) = key(item) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(OldItems { by_key, key })
    }

    /// True if nothing has changed, as far as the schema can see: what it does not know cannot be compared.
    pub(crate) fn is_same(self, part: Part<'_>, value: &Value) -> bool {
        match (self.0, value) {
            (Value::Array(old), Value::Array(new)) => {
                old.len() == new.len() && self.is_same_list(part, new).unwrap_or_else(|| old == new)
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new.iter().all(|(key, value)| match (part.entry(key), self.field(key)) {
                        (Some(part), Some(old)) => old.is_same(part, value),
                        _ => false,
                    })
            }
            (old, new) => old == new,
        }
    }

    /// Compares the items of a list by their keys, in whatever order; `None` if they have none.
    fn is_same_list(self, part: Part<'_>, items: &[Value]) -> Option<bool> {
        if part.list_type() != Some(ListType::Map) {
            return None;
        }
        let (Some(old), Some(part_of_item)) = (self.items(part), part.items()) else {
            return Some(items.is_empty());
        };
        Some(items.iter().all(|item| old.like(item).is_some_and(|old| old.is_same(part_of_item, item))))
    }
}

/// The items of an old list by their keys.
pub(crate) struct OldItems<'v, K> {
    by_key: HashMap<String, &'v Value>,
    key: K,
}

impl<'v, K: Fn(&Value) -> Option<String>> OldItems<'v, K> {
    /// The old item with the keys of a new one.
    pub(crate) fn like(&self, item: &Value) -> Option<Old<'v>> {
        self.by_key.get(&(self.key)(item)?).copied().map(Old)
    }
}

/// A text that items with the same keys have in common; `None` if a key is not there or no scalar.
fn key(part: Part<'_>, item: &Value) -> Option<String> {
    let keys = part.map_keys();
    if keys.len() == 0 {
        return None;
    }
    let fields = item.as_object()?;
    let mut text = String::new();
    for key in keys {
        match fields.get(key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            Value::Float(x) => text.push_str(&format!("{x:?}f,")),
            scalar => text.push_str(&format!("{},", print::json(scalar))),
        }
    }
    Some(text)
}
