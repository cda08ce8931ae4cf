//! Whether a value fits its type.

use pintle_value::{Object, Value, print};

use super::errors::{Collected, TypeErrors};
use super::shape::{Entries, Items, Leaf, Place, Shape};
use crate::path::PathElement;

/// Whether items of sets and of lists with keys may be there more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They may: in live objects and in what updates send, which nobody has checked so far.
    Allowed,
    /// They may not: in what is applied.
    Forbidden,
}

pub(super) fn validate(place: Place<'_>, value: &Value, duplicates: Duplicates) -> Result<(), TypeErrors> {
    walk(place, value, duplicates).unless(())
}

fn walk(place: Place<'_>, value: &Value, duplicates: Duplicates) -> Collected {
    let mut errors = Collected::default();
    match (place.shape(Some(value)), value) {
        (Shape::Scalar(leaf), value) => {
            if let Err(problem) = leaf.check(Some(value)) {
                errors.add(problem);
            }
        }
        (Shape::List(_) | Shape::Map(_), Value::Null) => {}
        (Shape::List(items), Value::Array(values)) => walk_items(&items, values, duplicates, &mut errors),
        (Shape::Map(entries), Value::Object(object)) => walk_entries(&entries, object, duplicates, &mut errors),
        (Shape::List(_), other) => errors.add(format!("expected list, got {}", in_words(other))),
        (Shape::Map(_), other) => errors.add(format!("expected map, got {}", in_words(other))),
    }
    errors
}

fn walk_items(items: &Items<'_>, values: &[Value], duplicates: Duplicates, errors: &mut Collected) {
    let mut seen: Vec<PathElement> = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let element = if items.is_atomic() {
            PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX))
        } else {
            match items.element(value) {
                Ok(element) => element,
                Err(problem) => return errors.add(format!("element {i}: {problem}")),
            }
        };
        let below = walk(items.item, value, duplicates);
        if duplicates == Duplicates::Forbidden && !items.is_atomic() {
            match seen.binary_search(&element) {
                Ok(_) => errors.add(format!("duplicate entries for key {element}")),
                Err(at) => seen.insert(at, element.clone()),
            }
        }
        errors.add_below(&element, below);
    }
}

fn walk_entries(entries: &Entries<'_>, object: &Object, duplicates: Duplicates, errors: &mut Collected) {
    for (key, value) in object.iter() {
        let below = match entries.entry(key) {
            Some(place) => walk(place, value, duplicates),
            None => {
                let mut undeclared = Collected::default();
                undeclared.add("field not declared in schema");
                errors.add_below(&PathElement::field(key), undeclared);
                // Upstream looks no further, at whichever field comes first.
                return;
            }
        };
        if !below.is_empty() {
            errors.add_below(&PathElement::field(key), below);
        }
    }
}

impl Leaf {
    /// Checks a value, where there is one. Null fits every scalar.
    pub(super) fn check(self, value: Option<&Value>) -> Result<(), String> {
        let Some(value) = value else { return Ok(()) };
        let expected = match (self, value) {
            (_, Value::Null) | (Self::Numeric, Value::Int(_) | Value::Float(_)) => return Ok(()),
            (Self::String, Value::String(_)) | (Self::Boolean, Value::Bool(_)) => return Ok(()),
            (Self::Untyped, Value::Int(_) | Value::Float(_) | Value::String(_) | Value::Bool(_)) => return Ok(()),
            (Self::Numeric, other) => {
                return Err(format!("expected numeric (int or float), got {}", print::go_type(other)));
            }
            (Self::String, other) => return Err(format!("expected string, got &{}", unstructured(other))),
            (Self::Boolean, _) => "boolean",
            (Self::Untyped, _) => "any scalar",
        };
        Err(format!("expected {expected}, got {}", in_words(value)))
    }
}

/// A value as `%v` prints upstream's wrapper around it.
fn in_words(value: &Value) -> String {
    format!("&{{{}}}", print::plain(value))
}

/// A value as `%#v` prints upstream's wrapper around it, without the ampersand.
fn unstructured(value: &Value) -> String {
    format!("value.valueUnstructured{{Value:{}}}", go_syntax(value))
}

/// A value in Go's syntax.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => print::quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(object) => {
            let entries: Vec<String> =
                object.iter().map(|(key, value)| format!("{}:{}", print::quote(key), go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        scalar => print::plain(scalar),
    }
}
