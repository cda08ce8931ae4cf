//! Filling in defaults (upstream: `schema/defaulting`).

use pintle_value::{Object, Value};

use super::model::{Flags, Schema};
use super::part::{Additional, Part};

impl Schema {
    /// Sets what has a default and is absent, or is null where null is no value. Doing it again changes nothing.
    pub fn default(&self, object: &mut Value) {
        fill(object, self.root());
    }
}

fn fill(value: &mut Value, part: Part<'_>) {
    // Most parts have no defaults within.
    if !part.has(Flags::DEFAULTS_WITHIN) {
        return;
    }
    match value {
        Value::Object(object) => {
            fill_absent(object, part);
            let additional = part.additional();
            for (key, value) in object.iter_mut() {
                if let Some(part) = part.property(key) {
                    fill(value, part);
                } else if let Additional::Values(part) = additional {
                    replace_null(value, part);
                    fill(value, part);
                }
            }
        }
        Value::Array(items) => {
            let Some(part) = part.items() else { return };
            for item in items {
                replace_null(item, part);
                fill(item, part);
            }
        }
        _ => {}
    }
}

fn fill_absent(object: &mut Object, part: Part<'_>) {
    for (name, part) in part.properties().filter(|(_, part)| part.has(Flags::DEFAULTS_WITHIN)) {
        let Some(default) = part.default() else { continue };
        if object.get(name).is_none_or(|value| value.is_null() && !part.nullable()) {
            object.insert(name, default.clone());
        }
    }
}

fn replace_null(value: &mut Value, part: Part<'_>) {
    if value.is_null()
        && !part.nullable()
        && let Some(default) = part.default()
    {
        *value = default.clone();
    }
}
