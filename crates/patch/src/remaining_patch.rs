//! The rest of a strategic merge patch after its merge. Upstream merges in place. If the result does not fit its type,
//! upstream prints the rest of the patch. The rest lacks applied directives and nulls in newly set values.

use std::collections::{HashMap, HashSet};

use pintle_schema::{TypeId, Types};
use pintle_value::{Object, Value};

use crate::retain_keys::RETAIN_KEYS;
use crate::strategic::{
    DELETE_FROM_PRIMITIVE_LIST, DIRECTIVE_MARKER, PatchSchema, SET_ELEMENT_ORDER, discard_nulls, go_type,
    remove_directives,
};
use crate::strategic_list::{Identity, identity};

/// Returns the rest of a patch after its merge into an object of the type `root`.
#[must_use]
pub fn remaining_patch(document: &Value, patch: Value, types: &Types, root: TypeId) -> Value {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            Value::Object(remaining_object(document, patch, PatchSchema::new(types, root)))
        }
        (_, patch) => patch,
    }
}

fn remaining_object(original: &Object, mut patch: Object, schema: PatchSchema<'_>) -> Object {
    if let Some(directive) = patch.get(DIRECTIVE_MARKER) {
        if directive.as_str() == Some("replace") {
            patch.remove(DIRECTIVE_MARKER);
        }
        return patch;
    }
    let retained = patch.remove(RETAIN_KEYS);
    let listed = retained.as_ref().and_then(Value::as_array);
    let listed: Option<HashSet<&str>> = listed.map(|listed| listed.iter().filter_map(Value::as_str).collect());
    let is_retained = |key: &str| listed.as_ref().is_none_or(|listed| listed.contains(key));
    let ordered: HashSet<String> = patch
        .keys()
        .filter_map(|key| key.strip_prefix(SET_ELEMENT_ORDER)?.strip_prefix('/').map(str::to_owned))
        .collect();
    patch.retain(|key, _| !key.starts_with(SET_ELEMENT_ORDER) && !ordered.contains(key));
    let fields = patch.into_iter().map(|(key, value)| {
        if value.is_null() || key.starts_with(DELETE_FROM_PRIMITIVE_LIST) {
            return (key, value);
        }
        let current = original.get(&key).filter(|_| is_retained(&key));
        let remaining = remaining_field(current, &key, value, schema);
        (key, remaining)
    });
    Object::from_entries(fields.collect())
}

fn remaining_field(current: Option<&Value>, key: &str, value: Value, schema: PatchSchema<'_>) -> Value {
    match (current, value) {
        (Some(Value::Object(current)), Value::Object(patch)) => Value::Object(match schema.field(key) {
            Ok(meta) if !meta.replace => remaining_object(current, patch, meta.schema),
            _ => patch,
        }),
        (Some(Value::Array(current)), Value::Array(patch)) => Value::Array(match schema.list_field(key) {
            Ok(meta) if meta.merge && !meta.merge_key.is_empty() => {
                remaining_items(current, patch, &meta.merge_key, meta.schema)
            }
            _ => patch,
        }),
        (Some(current), value) if go_type(current) == go_type(&value) => value,
        (_, value) => newly_set(value),
    }
}

/// Items are merged into the items with the same merge key, unless the list is replaced.
fn remaining_items(current: &[Value], patch: Vec<Value>, key: &str, schema: PatchSchema<'_>) -> Vec<Value> {
    let directive = |item: &Value| item.get(DIRECTIVE_MARKER).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|item| directive(item).is_some_and(|directive| directive == "replace")) {
        return patch;
    }
    let deleted: HashSet<Identity> =
        patch.iter().filter(|item| directive(item).is_some()).filter_map(|item| item.get(key)).map(identity).collect();
    let retained = |item: &Value| Some((identity(item.get(key)?), item.as_object()?.clone()));
    let mut current: HashMap<Identity, Object> =
        current.iter().rev().filter_map(retained).filter(|(id, _)| !deleted.contains(id)).collect();
    let merge = |item: Value| match (item.get(key).and_then(|id| current.remove(&identity(id))), item) {
        (Some(current), Value::Object(item)) if !item.contains_key(DIRECTIVE_MARKER) => {
            Value::Object(remaining_object(&current, item, schema))
        }
        (_, item) => item,
    };
    patch.into_iter().map(merge).collect()
}

/// The rest of a newly set value. Its objects lose nulls and directives, its lists keep their items.
fn newly_set(mut value: Value) -> Value {
    discard_nulls(&mut value);
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(newly_set).collect()),
        Value::Object(object) if !object.contains_key(DIRECTIVE_MARKER) => {
            let value = Value::Object(object);
            remove_directives(value.clone()).unwrap_or(value)
        }
        other => other,
    }
}
