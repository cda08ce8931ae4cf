//! Ratcheting: errors of values that are unchanged since the old object are dropped (KEP-4008; upstream:
//! `apiserver/pkg/cel/common.CorrelatedObject`).

use std::collections::HashMap;

use pintle_value::{Value, print};

use crate::schema::model::Type;
use crate::schema::node::{ListType, SchemaNode};

/// The old value that is correlated with a new value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldValue<'v>(pub(crate) &'v Value);

impl<'v> OldValue<'v> {
    /// Returns the old value of a field that the new value has and the schema declares.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        self.0.as_object()?.get(name).map(OldValue)
    }

    /// Returns the old items of a list of type map, which can be correlated by key.
    pub(crate) fn items<'s>(
        self,
        node: SchemaNode<'s>,
    ) -> Option<OldItems<'v, impl Fn(&Value) -> Option<String> + use<'s>>> {
        let Value::Array(items) = self.0 else { return None };
        if node.list_type() != Some(ListType::Map) || node.ty() != Some(Type::Array) {
            return None;
        }
        let key = move |item: &Value| key(node, item);
        let mut by_key = HashMap::with_capacity(items.len());
        for item in items {
            if let Some(key) = key(item) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(OldItems { by_key, key })
    }

    /// True if the value is unchanged. Values that the schema does not declare cannot be correlated, and so count as
    /// changed.
    pub(crate) fn is_unchanged(self, node: SchemaNode<'_>, value: &Value) -> bool {
        match (self.0, value) {
            (Value::Array(old), Value::Array(new)) => {
                old.len() == new.len() && self.is_unchanged_list(node, new).unwrap_or_else(|| old == new)
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new.iter().all(|(key, value)| match (node.entry(key), self.field(key)) {
                        (Some(node), Some(old)) => old.is_unchanged(node, value),
                        _ => false,
                    })
            }
            (old, new) => old == new,
        }
    }

    /// Compares the items of a list by their keys, in any order. Returns `None` if the list is not of type map.
    fn is_unchanged_list(self, node: SchemaNode<'_>, items: &[Value]) -> Option<bool> {
        if node.list_type() != Some(ListType::Map) {
            return None;
        }
        let (Some(old), Some(item_node)) = (self.items(node), node.items()) else {
            return Some(items.is_empty());
        };
        Some(items.iter().all(|item| old.correlated_item(item).is_some_and(|old| old.is_unchanged(item_node, item))))
    }
}

/// The items of an old list by key.
pub(crate) struct OldItems<'v, K> {
    by_key: HashMap<String, &'v Value>,
    key: K,
}

impl<'v, K: Fn(&Value) -> Option<String>> OldItems<'v, K> {
    /// Returns the old item with the keys of a new item.
    pub(crate) fn correlated_item(&self, item: &Value) -> Option<OldValue<'v>> {
        self.by_key.get(&(self.key)(item)?).copied().map(OldValue)
    }
}

/// Returns a text that identifies an item by its keys, or `None` if a key is missing or not a scalar.
fn key(node: SchemaNode<'_>, item: &Value) -> Option<String> {
    let keys = node.map_keys();
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
