//! Validation of values against their type (upstream: structured-merge-diff's `typed/validate.go`).

use std::collections::BTreeSet;

use pintle_value::{Object, Value, print};

use super::atom::{Atom, ListSchema, MapSchema, ScalarKind, TypeRef};
use super::errors::{ErrorCollector, ValidationErrors};
use pintle_fieldpath::path::PathElement;

/// Whether sets and associative lists may contain duplicates (upstream: `AllowDuplicates`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Duplicates are allowed: in live objects and updates, which were not checked for them.
    Allowed,
    /// Duplicates are errors: in applied configurations.
    Forbidden,
}

pub(super) fn validate(type_ref: TypeRef<'_>, value: &Value, duplicates: Duplicates) -> Result<(), ValidationErrors> {
    walk(type_ref, value, duplicates).into_result(())
}

fn walk(type_ref: TypeRef<'_>, value: &Value, duplicates: Duplicates) -> ErrorCollector {
    let mut errors = ErrorCollector::default();
    match (type_ref.atom(Some(value)), value) {
        (Atom::Scalar(leaf), value) => {
            if let Err(problem) = leaf.check(Some(value)) {
                errors.add(problem);
            }
        }
        (Atom::List(_) | Atom::Map(_), Value::Null) => {}
        (Atom::List(items), Value::Array(values)) => walk_items(&items, values, duplicates, &mut errors),
        (Atom::Map(entries), Value::Object(object)) => walk_entries(&entries, object, duplicates, &mut errors),
        (Atom::List(_), other) => errors.add(format!("expected list, got {}", format_value(other))),
        (Atom::Map(_), other) => errors.add(format!("expected map, got {}", format_value(other))),
    }
    errors
}

fn walk_items(items: &ListSchema<'_>, values: &[Value], duplicates: Duplicates, errors: &mut ErrorCollector) {
    let mut seen: BTreeSet<PathElement> = BTreeSet::new();
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
        if duplicates == Duplicates::Forbidden && !items.is_atomic() && !seen.insert(element.clone()) {
            errors.add(format!("duplicate entries for key {element}"));
        }
        errors.add_prefixed(&element, below);
    }
}

fn walk_entries(entries: &MapSchema<'_>, object: &Object, duplicates: Duplicates, errors: &mut ErrorCollector) {
    for (key, value) in object.iter() {
        let below = match entries.entry(key) {
            Some(type_ref) => walk(type_ref, value, duplicates),
            None => {
                let mut undeclared = ErrorCollector::default();
                undeclared.add("field not declared in schema");
                errors.add_prefixed(&PathElement::field(key), undeclared);
                // Upstream stops at the first undeclared field.
                return;
            }
        };
        if !below.is_empty() {
            errors.add_prefixed(&PathElement::field(key), below);
        }
    }
}

impl ScalarKind {
    /// Checks a value if there is one. Null is valid for every scalar.
    pub(super) fn check(self, value: Option<&Value>) -> Result<(), String> {
        let Some(value) = value else { return Ok(()) };
        let expected = match (self, value) {
            (_, Value::Null) | (Self::Numeric, Value::Int(_) | Value::Float(_)) => return Ok(()),
            (Self::String, Value::String(_)) | (Self::Boolean, Value::Bool(_)) => return Ok(()),
            (Self::Untyped, Value::Int(_) | Value::Float(_) | Value::String(_) | Value::Bool(_)) => return Ok(()),
            (Self::Numeric, other) => {
                return Err(format!("expected numeric (int or float), got {}", print::go_type(other)));
            }
            (Self::String, other) => return Err(format!("expected string, got &{}", go_syntax_unstructured(other))),
            (Self::Boolean, _) => "boolean",
            (Self::Untyped, _) => "any scalar",
        };
        Err(format!("expected {expected}, got {}", format_value(value)))
    }
}

/// Formats a value as `%v` prints upstream's wrapper around it.
fn format_value(value: &Value) -> String {
    format!("&{{{}}}", print::plain(value))
}

/// Formats a value as `%#v` prints upstream's wrapper around it, without the ampersand.
fn go_syntax_unstructured(value: &Value) -> String {
    format!("value.valueUnstructured{{Value:{}}}", go_syntax(value))
}

/// Formats a value in Go syntax.
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
