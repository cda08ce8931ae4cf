//! What merging leaves of a strategic merge patch. Upstream merges in place, and shows what it then has of the patch
//! when the result does not fit its type: directives that were obeyed are gone, and so are nulls in what was newly set.

use std::collections::{HashMap, HashSet};

use pintle_schema::{TypeId, Types};
use pintle_value::{Object, Value};

use crate::retain_keys::RETAIN_KEYS;
use crate::strategic::{DELETE_LIST, MARKER, ORDER_LIST, Place, discard_nulls, go_type, without_directives};
use crate::strategic_list::identity;

/// What is left of a patch after it was merged into an object of the type `root`.
#[must_use]
pub fn spent(document: &Value, patch: Value, types: &Types, root: TypeId) -> Value {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            Value::Object(spent_object(document, patch, Place::new(types, root)))
        }
        (_, patch) => patch,
    }
}

fn spent_object(original: &Object, mut patch: Object, place: Place<'_>) -> Object {
    if let Some(directive) = patch.get(MARKER) {
        if directive.as_str() == Some("replace") {
            patch.remove(MARKER);
        }
        return patch;
    }
    let retained = patch.remove(RETAIN_KEYS);
    let is_retained = |key: &str| {
        let listed = retained.as_ref().and_then(Value::as_array);
        listed.is_none_or(|listed| listed.iter().any(|item| item.as_str() == Some(key)))
    };
    let ordered: Vec<String> =
        patch.keys().filter_map(|key| key.strip_prefix(ORDER_LIST)?.strip_prefix('/').map(str::to_owned)).collect();
    patch.retain(|key, _| !key.starts_with(ORDER_LIST) && !ordered.iter().any(|list| list == key));
    let fields = patch.into_iter().map(|(key, value)| {
        if value.is_null() || key.starts_with(DELETE_LIST) {
            return (key, value);
        }
        let current = original.get(&key).filter(|_| is_retained(&key));
        let left = spent_field(current, &key, value, place);
        (key, left)
    });
    Object::from_entries(fields.collect())
}

fn spent_field(current: Option<&Value>, key: &str, value: Value, place: Place<'_>) -> Value {
    match (current, value) {
        (Some(Value::Object(current)), Value::Object(patch)) => Value::Object(match place.field(key) {
            Ok(rule) if !rule.replace => spent_object(current, patch, rule.place),
            _ => patch,
        }),
        (Some(Value::Array(current)), Value::Array(patch)) => Value::Array(match place.list_field(key) {
            Ok(rule) if rule.merge && !rule.merge_key.is_empty() => {
                spent_items(current, patch, &rule.merge_key, rule.place)
            }
            _ => patch,
        }),
        (Some(current), value) if go_type(current) == go_type(&value) => value,
        (_, value) => newly_set(value),
    }
}

/// Items are merged into those of the same key, unless the list is replaced.
fn spent_items(current: &[Value], patch: Vec<Value>, key: &str, place: Place<'_>) -> Vec<Value> {
    let directive = |item: &Value| item.get(MARKER).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|item| directive(item).is_some_and(|directive| directive == "replace")) {
        return patch;
    }
    let deleted: HashSet<String> =
        patch.iter().filter(|item| directive(item).is_some()).filter_map(|item| item.get(key)).map(identity).collect();
    let kept = |item: &Value| Some((identity(item.get(key)?), item.as_object()?.clone()));
    let mut current: HashMap<String, Object> =
        current.iter().rev().filter_map(kept).filter(|(of, _)| !deleted.contains(of)).collect();
    let merge = |item: Value| match (item.get(key).and_then(|of| current.remove(&identity(of))), item) {
        (Some(current), Value::Object(item)) if !item.contains_key(MARKER) => {
            Value::Object(spent_object(&current, item, place))
        }
        (_, item) => item,
    };
    patch.into_iter().map(merge).collect()
}

/// A value that was newly set: its objects lose nulls and directives, its lists keep their items.
fn newly_set(mut value: Value) -> Value {
    discard_nulls(&mut value);
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(newly_set).collect()),
        Value::Object(object) if !object.contains_key(MARKER) => {
            let value = Value::Object(object);
            without_directives(value.clone()).unwrap_or(value)
        }
        other => other,
    }
}
