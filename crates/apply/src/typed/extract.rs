//! Taking fields and items out of a value, and keeping only some of them.

use pintle_value::{Object, Str, Value};

use super::shape::{Entries, Items, Place, Shape};
use crate::path::PathElement;
use crate::set::FieldSet;

static NONE: FieldSet = FieldSet::new();

pub(super) fn remove(place: Place<'_>, value: &Value, set: &FieldSet) -> Value {
    match (place.shape(Some(value)), value) {
        (Shape::Scalar(_), value) => value.clone(),
        (Shape::List(items), Value::Array(values)) if !items.is_atomic() => {
            array(remove_items(&items, values, set)).unwrap_or_default()
        }
        (Shape::Map(entries), Value::Object(object)) if !entries.atomic => {
            self::object(remove_entries(&entries, object, set)).unwrap_or_default()
        }
        // Something in here is to go, and it cannot go alone.
        (Shape::List(_) | Shape::Map(_), _) => Value::Null,
    }
}

fn remove_items(items: &Items<'_>, values: &[Value], set: &FieldSet) -> Vec<Value> {
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

fn remove_entries(entries: &Entries<'_>, object: &Object, set: &FieldSet) -> Vec<(Str, Value)> {
    let keep = |(key, value): (&str, &Value)| {
        let value = match lookup(set, &PathElement::field(key)) {
            (true, _) => return None,
            (false, Some(below)) => entries.entry(key).map_or(Value::Null, |place| remove(place, value, below)),
            (false, None) => value.clone(),
        };
        Some((Str::from(key), value))
    };
    object.iter().filter_map(keep).collect()
}

pub(super) fn extract(place: Place<'_>, value: &Value, set: &FieldSet) -> Value {
    match (place.shape(Some(value)), value) {
        (Shape::List(items), Value::Array(values)) if !items.is_atomic() && !values.is_empty() => {
            array(extract_items(&items, values, set)).unwrap_or_default()
        }
        (Shape::Map(entries), Value::Object(object)) if !entries.atomic && !object.is_empty() => {
            self::object(extract_entries(&entries, object, set)).unwrap_or_default()
        }
        (_, value) => value.clone(),
    }
}

fn extract_items(items: &Items<'_>, values: &[Value], set: &FieldSet) -> Vec<Value> {
    let keep = |value: &Value| match lookup(set, &items.element(value).ok()?) {
        (_, Some(below)) => Some(extract(items.item, value, below)),
        (true, None) => Some(value.clone()),
        (false, None) => None,
    };
    values.iter().filter_map(keep).collect()
}

fn extract_entries(entries: &Entries<'_>, object: &Object, set: &FieldSet) -> Vec<(Str, Value)> {
    let keep = |(key, value): (&str, &Value)| {
        let (member, below) = lookup(set, &PathElement::field(key));
        (member || below.is_some()).then(|| {
            let below = below.unwrap_or(&NONE);
            (Str::from(key), entries.entry(key).map_or(Value::Null, |place| extract(place, value, below)))
        })
    };
    object.iter().filter_map(keep).collect()
}

/// Whether an element is in a set, and what the set has below it.
fn lookup<'s>(set: &'s FieldSet, element: &PathElement) -> (bool, Option<&'s FieldSet>) {
    set.node(element)
        .map_or((false, None), |node| (node.member, Some(&node.children).filter(|children| !children.is_empty())))
}

/// An array, unless it would be empty.
fn array(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

/// An object, unless it would be empty.
fn object(entries: Vec<(Str, Value)>) -> Option<Value> {
    (!entries.is_empty()).then(|| Value::Object(Object::from_entries(entries)))
}
