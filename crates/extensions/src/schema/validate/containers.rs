//! Validation of lists and objects (upstream: `schemaSliceValidator`, `objectValidator`).

use pintle_value::{Object, Value, ValueKey, repeated};

use super::check;
use super::ratcheting::OldValue;
use super::result::{ValidationResult, size};
use crate::schema::model::Keyword;
use crate::schema::node::{Additional, SchemaNode};
use crate::schema::value_path::ValuePath;

pub(super) fn check_list(
    node: SchemaNode<'_>,
    items: &[Value],
    old: Option<OldValue<'_>>,
    path: &ValuePath<'_>,
) -> ValidationResult {
    let mut result = ValidationResult::default();
    if let Some(item_node) = node.items() {
        let old_items = old.and_then(|old| old.items(node));
        for (i, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.correlated_item(item));
            result.merge(check(item_node, item, old, &path.index(i)));
        }
    }
    let count = count(items.len());
    for keyword in node.keywords() {
        match keyword {
            Keyword::MinItems(min) if count < *min => {
                result.invalid(path, format_args!("should have at least {min} items"), size(items.len()));
            }
            Keyword::MaxItems(max) if count > *max => {
                result.too_many(path, "items", items.len(), *max);
            }
            Keyword::UniqueItems if has_duplicates(items) => {
                result.invalid(path, format_args!("shouldn't contain duplicates"), None);
            }
            _ => {}
        }
    }
    result.increment_match_count();
    result
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn has_duplicates(items: &[Value]) -> bool {
    repeated(items.iter().map(ValueKey)).next().is_some()
}

pub(super) fn check_object(
    node: SchemaNode<'_>,
    fields: &Object,
    old: Option<OldValue<'_>>,
    path: &ValuePath<'_>,
) -> ValidationResult {
    let mut result = ValidationResult::default();
    // An update never changes the kind of the object, whatever version was requested.
    let is_type = |name: &str| path.is_root() && matches!(name, "apiVersion" | "kind");
    let old_field = |name: &str| old.filter(|_| !is_type(name)).and_then(|old| old.field(name));
    check_size(node, fields, path, &mut result);
    match node.additional() {
        Additional::None => {
            for key in fields.keys().filter(|key| node.property(key).is_none()) {
                result.invalid_with_message(path, format_args!("{path}.{key} in body is a forbidden property"), key);
            }
        }
        Additional::Values(values) => {
            for (key, value) in fields.iter().filter(|(key, _)| node.property(key).is_none()) {
                result.merge(check(values, value, old_field(key), &path.key(key)));
            }
        }
        Additional::Any | Additional::Undeclared => {}
    }
    for (name, value) in fields.iter() {
        if let Some(node) = node.property(name) {
            result.merge(check(node, value, old_field(name), &path.property(name)));
        }
    }
    for name in node.required().filter(|name| !fields.contains_key(name)) {
        result.required(&path.key(name));
    }
    result
}

fn check_size(node: SchemaNode<'_>, fields: &Object, path: &ValuePath<'_>, result: &mut ValidationResult) {
    let count = count(fields.len());
    for keyword in node.keywords() {
        match keyword {
            Keyword::MinProperties(min) if count < *min => {
                result.invalid(path, format_args!("should have at least {min} properties"), size(fields.len()));
            }
            Keyword::MaxProperties(max) if count > *max => {
                result.too_many(path, "properties", fields.len(), *max);
            }
            _ => {}
        }
    }
}
