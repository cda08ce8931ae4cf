//! Defaulting (upstream: `schema/defaulting`).

use pintle_budget as budget;
use pintle_value::{Object, Str, Value};

use super::model::{Flags, StructuralSchema};
use super::node::{Additional, SchemaNode};

impl StructuralSchema {
    /// Applies defaults to fields that are absent, or null where null is not allowed. This is idempotent.
    pub fn default(&self, object: &mut Value) {
        fill(object, self.root());
    }

    /// True if an object lacks a top-level field that has a default.
    pub fn lacks_default(&self, object: &Value) -> bool {
        let root = self.root();
        root.has(Flags::DEFAULTS_WITHIN)
            && root.properties().any(|(name, node)| node.default().is_some() && object.get(name).is_none())
    }
}

fn fill(value: &mut Value, node: SchemaNode<'_>) {
    // Most nodes have no defaults below them.
    if !node.has(Flags::DEFAULTS_WITHIN) {
        return;
    }
    match value {
        Value::Object(object) => {
            fill_absent(object, node);
            let additional = node.additional();
            for (key, value) in object.iter_mut() {
                if let Some(node) = node.property(key) {
                    fill(value, node);
                } else if let Additional::Values(node) = additional {
                    replace_null(value, node);
                    fill(value, node);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node.items() else { return };
            for item in items {
                replace_null(item, node);
                fill(item, node);
            }
        }
        _ => {}
    }
}

fn fill_absent(object: &mut Object, node: SchemaNode<'_>) {
    let properties = node.properties().filter(|(_, node)| node.has(Flags::DEFAULTS_WITHIN));
    let absent = properties.filter_map(|(name, node)| {
        let default = node.default()?;
        let is_absent = object.get(name).is_none_or(|value| value.is_null() && !node.is_nullable());
        is_absent.then_some((name, default))
    });
    // Nested objects may repeat a large default many times.
    let affordable = absent.map_while(|(name, default)| {
        budget::charge(default.held_bytes()).ok().map(|()| (Str::from(name), default.clone()))
    });
    let added: Vec<(Str, Value)> = affordable.collect();
    object.insert_all(added);
}

fn replace_null(value: &mut Value, node: SchemaNode<'_>) {
    if value.is_null()
        && !node.is_nullable()
        && let Some(default) = node.default()
        && budget::charge(default.held_bytes()).is_ok()
    {
        *value = default.clone();
    }
}
