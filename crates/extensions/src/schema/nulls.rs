//! Dropping nulls where null is no value and no default stands in for it (upstream:
//! `PruneNonNullableNullsWithoutDefaults`).

use pintle_value::Value;

use super::model::Schema;
use super::part::Part;

impl Schema {
    /// Drops the fields that are null and may not be. Where there is a default they stay, for it to replace them; items
    /// of lists stay too.
    pub fn drop_nulls(&self, object: &mut Value) {
        walk(object, self.root());
    }
}

fn walk(value: &mut Value, part: Part<'_>) {
    match value {
        Value::Object(object) => object.retain(|key, value| {
            let Some(part) = part.entry(key) else { return true };
            if value.is_null() {
                return part.nullable() || part.default().is_some();
            }
            walk(value, part);
            true
        }),
        Value::Array(items) => {
            let Some(part) = part.items() else { return };
            items.iter_mut().for_each(|item| walk(item, part));
        }
        _ => {}
    }
}
