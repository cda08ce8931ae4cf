//! Lists whose items are unique: sets by their values, maps by their keys (upstream: `schema/listtype`).

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
                    for i in repeated(items, write_identity) {
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
    for i in repeated(items, |item, text| write_keys(item, keys.clone(), text)) {
        let fields: Object =
            keys.clone().filter_map(|key| Some((key, items[i].as_object()?.get(key)?.clone()))).collect();
        errors.duplicate(&path.index(i), fields);
    }
}

/// Writes what only the same values have. Numbers that are written as integers are never those that are not.
fn write_identity(value: &Value, text: &mut String) {
    match value {
        Value::String(value) => print::json_string(text, value),
        Value::Float(x) => text.push_str(&format!("f{x:?}")),
        other => text.push_str(&print::json(other)),
    }
}

/// Writes what only items with the same keys have. An item without a key differs from one in which the key is null.
fn write_keys<'s>(item: &Value, keys: impl ExactSizeIterator<Item = &'s str>, text: &mut String) {
    let single = keys.len() == 1;
    for (i, key) in keys.enumerate() {
        let Some(value) = item.as_object().and_then(|fields| fields.get(key)) else { continue };
        text.push_str(&i.to_string());
        text.push(':');
        match value {
            // Upstream compares several keys as JSON, in which 1.0 is 1.
            Value::Float(x) if !single => text.push_str(&print::json_float(*x)),
            value => write_identity(value, text),
        }
    }
}

/// The places of the items that are there for the second time, given what writes something that only the same items have.
fn repeated(items: &[Value], write: impl Fn(&Value, &mut String)) -> Vec<usize> {
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
    // The sort is stable: of equal items the first stays first.
    order.sort_by(|a, b| text_of(*a).cmp(text_of(*b)));
    let equal = order.chunk_by(|a, b| text_of(*a) == text_of(*b));
    let mut found: Vec<usize> = equal.filter_map(|places| places.get(1).copied()).collect();
    found.sort_unstable();
    found
}
