//! Judging values, as kube-openapi's `validation/validate` does and apiextensions' `validation` reports it: in the same
//! order, with the same paths, kinds and texts, but sorted where upstream goes through Go's maps.

mod containers;
mod failure;
mod junctors;
mod kind;
mod numbers;
mod ratchet;
mod scalars;

use pintle_value::{Errors, Value};

use super::model::{Keyword, Schema};
use super::part::Part;
use super::path::Path;
use failure::Outcome;
pub(crate) use ratchet::Old;

impl Schema {
    /// Judges a new object by its schema. Metadata is judged only where the schema speaks of it.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Errors {
        self.root().validate(None, object)
    }

    /// Judges an object that replaces another one: what was wrong before and has not changed is let through.
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        self.root().validate_update(None, object, Some(old))
    }
}

impl Part<'_> {
    /// Judges a value by this part alone. `field` is where it is in the object (`status`): errors name it, but in their
    /// texts paths begin at the value, as upstream's do.
    #[must_use]
    pub fn validate(self, field: Option<&str>, value: &Value) -> Errors {
        check(self, value, None, &Path::ROOT).errors(field)
    }

    /// Judges a value that replaces another one.
    #[must_use]
    pub fn validate_update(self, field: Option<&str>, value: &Value, old: Option<&Value>) -> Errors {
        let outcome = check(self, value, None, &Path::ROOT);
        if outcome.is_valid() {
            return Errors::new();
        }
        // Only now is it worth to look at what there was.
        check(self, value, old.map(Old), &Path::ROOT).errors(field)
    }
}

/// Judges a value, and those in it.
fn check(part: Part<'_>, value: &Value, old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        outcome.merge(kind::check_null(part, path));
        outcome.merge(enumeration(part, value, path));
    } else {
        if let Some(result) = kind::check(part, value, path) {
            outcome.step(result);
        }
        outcome.step(junctors::check(part, value, path));
        match value {
            Value::String(text) => {
                outcome.step(scalars::check_string(part, text, path));
                if let Some(result) = scalars::check_format(part, text, path) {
                    outcome.step(result);
                }
            }
            Value::Int(_) | Value::Float(_) => outcome.step(numbers::check(part, value, path)),
            Value::Array(items) => outcome.step(containers::check_list(part, items, old, path)),
            _ => {}
        }
        outcome.step(enumeration(part, value, path));
        if let Value::Object(fields) = value {
            outcome.step(containers::check_object(part, fields, old, path));
        }
        outcome.matched();
    }
    if !outcome.is_valid() && old.is_some_and(|old| old.is_same(part, value)) {
        outcome.forgive();
    }
    outcome
}

fn enumeration(part: Part<'_>, value: &Value, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for keyword in part.keywords() {
        if let Keyword::Enum(values) = keyword {
            scalars::check_enum(values.of(&part.schema.values), value, path, &mut outcome);
        }
    }
    outcome
}
