//! Uniqueness of list items. Items of sets differ by value, items of maps by keys (upstream: `schema/listtype`).

use pintle_value::{Errors, FieldError, FieldPath, Object, Value, print};

use super::model::{Flags, StructuralSchema};
use super::node::{Additional, ListType, SchemaNode};

impl StructuralSchema {
    /// Reports duplicates in lists of type set or map. An update is only checked if the old object has no duplicates.
    #[must_use]
    pub fn validate_lists(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        // At the root, only an object is checked.
        if let Value::Object(fields) = object {
            walk_object(fields, self.root(), &FieldPath::root(), &mut errors);
        }
        errors
    }
}

fn walk(value: &Value, node: SchemaNode<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if !node.has(Flags::UNIQUE_WITHIN) {
        return;
    }
    match value {
        Value::Array(items) => {
            match node.list_type() {
                Some(ListType::Set) => {
                    for i in duplicates(items, write_identity) {
                        errors.duplicate(&path.index(i), items[i].clone());
                    }
                }
                Some(ListType::Map) => validate_map_list(items, node, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            let Some(node) = node.items() else { return };
            for (i, item) in items.iter().enumerate() {
                walk(item, node, &path.index(i), errors);
            }
        }
        Value::Object(fields) => walk_object(fields, node, path, errors),
        _ => {}
    }
}

fn walk_object(fields: &Object, node: SchemaNode<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if let Additional::Values(values) = node.additional() {
        for (key, value) in fields.iter() {
            walk(value, values, &path.key(key), errors);
        }
    }
    for (key, value) in fields.iter() {
        if let Some(node) = node.property(key) {
            walk(value, node, &path.child(key), errors);
        }
    }
}

fn validate_map_list(items: &[Value], node: SchemaNode<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if let Some(i) = items.iter().position(|item| !matches!(item, Value::Object(_) | Value::Null)) {
        let detail = "must be an object for an array of list-type map";
        return errors.push(FieldError::invalid(&path.index(i), items[i].clone(), detail));
    }
    let keys = node.map_keys();
    for i in duplicates(items, |item, text| write_keys(item, keys.clone(), text)) {
        let fields: Object =
            keys.clone().filter_map(|key| Some((key, items[i].as_object()?.get(key)?.clone()))).collect();
        errors.duplicate(&path.index(i), fields);
    }
}

/// Writes a text that is equal only for equal values. Integers and floats always differ.
fn write_identity(value: &Value, text: &mut String) {
    match value {
        Value::String(value) => print::json_string(text, value),
        Value::Float(x) => text.push_str(&format!("f{x:?}")),
        other => text.push_str(&print::json(other)),
    }
}

/// Writes a text that is equal only for items with equal keys. An absent key differs from a null key.
fn write_keys<'s>(item: &Value, keys: impl ExactSizeIterator<Item = &'s str>, text: &mut String) {
    let single = keys.len() == 1;
    for (i, key) in keys.enumerate() {
        let Some(value) = item.as_object().and_then(|fields| fields.get(key)) else { continue };
        text.push_str(&i.to_string());
        text.push(':');
        match value {
            // Upstream compares multiple keys as JSON, in which 1.0 equals 1.
            Value::Float(x) if !single => text.push_str(&print::json_float(*x)),
            value => write_identity(value, text),
        }
    }
}

/// Returns the index of the first duplicate of each repeated item. `write` appends a text that identifies an item.
fn duplicates(items: &[Value], write: impl Fn(&Value, &mut String)) -> Vec<usize> {
    if items.len() < 2 {
        return Vec::new();
    }
    let mut text = String::new();
    let mut ends = Vec::with_capacity(items.len());
    for item in items {
        write(item, &mut text);
        ends.push(text.len());
    }
    let text_of = |i: usize| &text[if i == 0 { 0 } else { ends[i - 1] }..ends[i]];
    let mut order: Vec<usize> = (0..items.len()).collect();
    // The sort is stable: equal items stay in list order.
    order.sort_by(|a, b| text_of(*a).cmp(text_of(*b)));
    let equal = order.chunk_by(|a, b| text_of(*a) == text_of(*b));
    let mut found: Vec<usize> = equal.filter_map(|places| places.get(1).copied()).collect();
    found.sort_unstable();
    found
}
