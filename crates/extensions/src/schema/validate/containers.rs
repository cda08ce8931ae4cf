//! Lists and objects (upstream: `schemaSliceValidator`, `objectValidator`).

use pintle_value::{Object, Value};

use super::check;
use super::failure::{Outcome, size};
use super::ratchet::Old;
use crate::schema::model::Keyword;
use crate::schema::part::{Additional, Part};
use crate::schema::path::Path;

pub(super) fn check_list(part: Part<'_>, items: &[Value], old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(part_of_item) = part.items() {
        let old_items = old.and_then(|old| old.items(part));
        for (i, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.like(item));
            outcome.merge(check(part_of_item, item, old, &path.index(i)));
        }
    }
    let count = count(items.len());
    for keyword in part.keywords() {
        match keyword {
            Keyword::MinItems(min) if count < *min => {
                outcome.invalid(path, format_args!("should have at least {min} items"), size(items.len()));
            }
            Keyword::MaxItems(max) if count > *max => {
                outcome.too_many(path, "items", items.len(), *max);
            }
            Keyword::UniqueItems if has_twins(items) => {
                outcome.invalid(path, format_args!("shouldn't contain duplicates"), None);
            }
            _ => {}
        }
    }
    outcome.matched();
    outcome
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn has_twins(items: &[Value]) -> bool {
    items.iter().enumerate().any(|(i, item)| items[..i].contains(item))
}

pub(super) fn check_object(part: Part<'_>, fields: &Object, old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    // What kind of object it is is the same before and after, whatever was asked for.
    let is_type = |name: &str| path.is_root() && matches!(name, "apiVersion" | "kind");
    let old_field = |name: &str| old.filter(|_| !is_type(name)).and_then(|old| old.field(name));
    check_size(part, fields, path, &mut outcome);
    match part.additional() {
        Additional::None => {
            for key in fields.keys().filter(|key| part.property(key).is_none()) {
                outcome.saying(path, format_args!("{path}.{key} in body is a forbidden property"), key);
            }
        }
        Additional::Values(values) => {
            for (key, value) in fields.iter().filter(|(key, _)| part.property(key).is_none()) {
                outcome.merge(check(values, value, old_field(key), &path.key(key)));
            }
        }
        Additional::Any | Additional::Undeclared => {}
    }
    for (name, value) in fields.iter() {
        if let Some(part) = part.property(name) {
            outcome.merge(check(part, value, old_field(name), &path.property(name)));
        }
    }
    for name in part.required().filter(|name| !fields.contains_key(name)) {
        outcome.required(&path.key(name));
    }
    outcome
}

fn check_size(part: Part<'_>, fields: &Object, path: &Path<'_>, outcome: &mut Outcome) {
    let count = count(fields.len());
    for keyword in part.keywords() {
        match keyword {
            Keyword::MinProperties(min) if count < *min => {
                outcome.invalid(path, format_args!("should have at least {min} properties"), size(fields.len()));
            }
            Keyword::MaxProperties(max) if count > *max => {
                outcome.too_many(path, "properties", fields.len(), *max);
            }
            _ => {}
        }
    }
}
