//! Dropping forbidden nulls of fields without a default (upstream: `PruneNonNullableNullsWithoutDefaults`).

use pintle_value::Value;

use super::model::StructuralSchema;
use super::node::SchemaNode;

impl StructuralSchema {
    /// Drops null fields that are not nullable. Fields with a default stay, because defaulting replaces them. List
    /// items stay, too.
    pub fn drop_nulls(&self, object: &mut Value) {
        walk(object, self.root());
    }
}

fn walk(value: &mut Value, node: SchemaNode<'_>) {
    match value {
        Value::Object(object) => object.retain(|key, value| {
            let Some(node) = node.entry(key) else { return true };
            if value.is_null() {
                return node.is_nullable() || node.default().is_some();
            }
            walk(value, node);
            true
        }),
        Value::Array(items) => {
            let Some(node) = node.items() else { return };
            items.iter_mut().for_each(|item| walk(item, node));
        }
        _ => {}
    }
}
