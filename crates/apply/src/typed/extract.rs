//! Removing and extracting fields and items (upstream: structured-merge-diff's `typed/remove.go`).

use pintle_value::{Object, Str, Value};

use super::atom::{Atom, ListSchema, MapSchema, TypeRef};
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::FieldSet;

static NONE: FieldSet = FieldSet::new();

pub(super) fn remove(type_ref: TypeRef<'_>, value: &Value, set: &FieldSet) -> Value {
    match (type_ref.atom(Some(value)), value) {
        (Atom::Scalar(_), value) => value.clone(),
        (Atom::List(items), Value::Array(values)) if !items.is_atomic() => {
            array(remove_items(&items, values, set)).unwrap_or_default()
        }
        (Atom::Map(entries), Value::Object(object)) if !entries.atomic => {
            self::object(remove_entries(&entries, object, set)).unwrap_or_default()
        }
        // Part of an atomic value is to be removed, so all of it goes.
        (Atom::List(_) | Atom::Map(_), _) => Value::Null,
    }
}

fn remove_items(items: &ListSchema<'_>, values: &[Value], set: &FieldSet) -> Vec<Value> {
    let keep = |value: &Value| {
        let (member, below) = items.element(value).map_or((false, None), |element| lookup(set, &element));
        match (member, below) {
            (true, _) => None,
            (false, Some(below)) => Some(remove(items.item, value, below)),
            (false, None) => Some(value.clone()),
        }
    };
    values.iter().filter_map(keep).collect()
}

fn remove_entries(entries: &MapSchema<'_>, object: &Object, set: &FieldSet) -> Vec<(Str, Value)> {
    let keep = |(key, value): (&str, &Value)| {
        let value = match lookup(set, &PathElement::field(key)) {
            (true, _) => return None,
            (false, Some(below)) => entries.entry(key).map_or(Value::Null, |type_ref| remove(type_ref, value, below)),
            (false, None) => value.clone(),
        };
        Some((Str::from(key), value))
    };
    object.iter().filter_map(keep).collect()
}

pub(super) fn extract(type_ref: TypeRef<'_>, value: &Value, set: &FieldSet) -> Value {
    match (type_ref.atom(Some(value)), value) {
        (Atom::List(items), Value::Array(values)) if !items.is_atomic() && !values.is_empty() => {
            array(extract_items(&items, values, set)).unwrap_or_default()
        }
        (Atom::Map(entries), Value::Object(object)) if !entries.atomic && !object.is_empty() => {
            self::object(extract_entries(&entries, object, set)).unwrap_or_default()
        }
        (_, value) => value.clone(),
    }
}

fn extract_items(items: &ListSchema<'_>, values: &[Value], set: &FieldSet) -> Vec<Value> {
    let keep = |value: &Value| match lookup(set, &items.element(value).ok()?) {
        (_, Some(below)) => Some(extract(items.item, value, below)),
        (true, None) => Some(value.clone()),
        (false, None) => None,
    };
    values.iter().filter_map(keep).collect()
}

fn extract_entries(entries: &MapSchema<'_>, object: &Object, set: &FieldSet) -> Vec<(Str, Value)> {
    let keep = |(key, value): (&str, &Value)| {
        let (member, below) = lookup(set, &PathElement::field(key));
        (member || below.is_some()).then(|| {
            let below = below.unwrap_or(&NONE);
            (Str::from(key), entries.entry(key).map_or(Value::Null, |type_ref| extract(type_ref, value, below)))
        })
    };
    object.iter().filter_map(keep).collect()
}

/// Whether an element is in a set, and the set below it.
fn lookup<'s>(set: &'s FieldSet, element: &PathElement) -> (bool, Option<&'s FieldSet>) {
    set.node(element)
        .map_or((false, None), |node| (node.member, Some(&node.children).filter(|children| !children.is_empty())))
}

/// An array, or `None` if it would be empty.
fn array(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

/// An object, or `None` if it would be empty.
fn object(entries: Vec<(Str, Value)>) -> Option<Value> {
    (!entries.is_empty()).then(|| Value::Object(Object::from_entries(entries)))
}
