//! Lists whose items are unique: sets by their values, maps by their keys (upstream: `schema/listtype`).

use std::collections::HashMap;

use pintle_value::{Errors, FieldError, FieldPath, Object, Value, print};

use super::model::{Flags, Schema};
use super::part::{Additional, ListType, Part};

impl Schema {
    /// Finds the items that are in a set or a map twice. An update is judged only if the old object has none.
    #[must_use]
    pub fn validate_lists(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        // Only objects are looked into at the root.
        if let Value::Object(fields) = object {
            walk_object(fields, self.root(), &FieldPath::root(), &mut errors);
        }
        errors
    }
}

fn walk(value: &Value, part: Part<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if !part.has(Flags::UNIQUE_WITHIN) {
        return;
    }
    match value {
        Value::Array(items) => {
            match part.list_type() {
                Some(ListType::Set) => {
                    for i in repeated(items.iter().map(identity)) {
                        errors.duplicate(&path.index(i), items[i].clone());
                    }
                }
                Some(ListType::Map) => keyed(items, part, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            let Some(part) = part.items() else { return };
            for (i, item) in items.iter().enumerate() {
                walk(item, part, &path.index(i), errors);
            }
        }
        Value::Object(fields) => walk_object(fields, part, path, errors),
        _ => {}
    }
}

fn walk_object(fields: &Object, part: Part<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if let Additional::Values(values) = part.additional() {
        for (key, value) in fields.iter() {
            walk(value, values, &path.key(key), errors);
        }
    }
    for (key, value) in fields.iter() {
        if let Some(part) = part.property(key) {
            walk(value, part, &path.child(key), errors);
        }
    }
}

fn keyed(items: &[Value], part: Part<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if let Some(i) = items.iter().position(|item| !matches!(item, Value::Object(_) | Value::Null)) {
        let detail = "must be an object for an array of list-type map";
        return errors.push(FieldError::invalid(&path.index(i), items[i].clone(), detail));
    }
    let keys = part.map_keys();
    for i in repeated(items.iter().map(|item| key_identity(item, keys.clone()))) {
        let fields: Object =
            keys.clone().filter_map(|key| Some((key, items[i].as_object()?.get(key)?.clone()))).collect();
        errors.duplicate(&path.index(i), fields);
    }
}

/// A text that only the same values have. Numbers that are written as integers are never those that are not.
fn identity(value: &Value) -> String {
    match value {
        Value::Float(x) => format!("f{x:?}"),
        other => print::json(other),
    }
}

/// A text that only items with the same keys have. An item without a key differs from one in which the key is null.
fn key_identity<'s>(item: &Value, keys: impl ExactSizeIterator<Item = &'s str>) -> String {
    let single = keys.len() == 1;
    let mut text = String::new();
    for (i, key) in keys.enumerate() {
        if let Some(value) = item.as_object().and_then(|fields| fields.get(key)) {
            // Upstream compares several keys as JSON, in which 1.0 is 1.
            let value = if single { identity(value) } else { print::json(value) };
            text.push_str(&format!("{i}:{value},"));
        }
    }
    text
}

/// The places at which a text is there for the second time.
fn repeated(texts: impl ExactSizeIterator<Item = String>) -> Vec<usize> {
    if texts.len() < 2 {
        return Vec::new();
    }
    let mut seen = HashMap::with_capacity(texts.len());
    let mut found = Vec::new();
    for (i, text) in texts.enumerate() {
        let times = seen.entry(text).or_insert(0_usize);
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}
