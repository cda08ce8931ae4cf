//! JSON Merge Patch (RFC 7386) with the deviations of json-patch v4. Nulls in newly set values are dropped. Nulls in an
//! array that replaces an object are kept.

use pintle_value::{Object, Str, Value};

use crate::{PatchError, cannot_unmarshal};

/// Checks the patch as upstream does first, unless field validation ignores unknown fields. The patch must be an object
/// or null. Null is rejected only when the patch is applied.
pub fn check_merge_patch(patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) | Value::Null => Ok(()),
        other => {
            let cause = cannot_unmarshal(other, "map[string]interface {}");
            Err(PatchError::malformed(format!("error decoding patch: {cause}")))
        }
    }
}

/// Applies a merge patch to an object. If the patch is an array, the array becomes the result, which then is not an
/// object.
pub fn merge_patch(document: Value, patch: Value) -> Result<Value, PatchError> {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => Ok(Value::Object(merge_objects(document, patch))),
        (_, mut patch @ (Value::Object(_) | Value::Array(_))) => {
            prune_nulls(&mut patch);
            Ok(patch)
        }
        _ => Err(PatchError::malformed("Invalid JSON Patch")),
    }
}

/// Merges in one pass over both objects, which are sorted. So large patches of large objects stay cheap.
fn merge_objects(document: Object, patch: Object) -> Object {
    let mut merged = Vec::with_capacity(document.len() + patch.len());
    let mut patch = patch.into_iter().peekable();
    for (key, current) in document {
        while let Some((new_key, value)) = patch.next_if(|(new_key, _)| *new_key < key) {
            merged.extend(added_field(new_key, value));
        }
        let Some((_, value)) = patch.next_if(|(new_key, _)| *new_key == key) else {
            merged.push((key, current));
            continue;
        };
        let value = match (current, value) {
            (_, Value::Null) => continue,
            (Value::Object(current), Value::Object(patch)) => Value::Object(merge_objects(current, patch)),
            // Nulls in the other value are kept, because of a bug in upstream.
            (Value::Object(_), other) => other,
            (_, mut other) => {
                prune_nulls(&mut other);
                other
            }
        };
        merged.push((key, value));
    }
    merged.extend(patch.filter_map(|(key, value)| added_field(key, value)));
    Object::from_entries(merged)
}

/// Adds a field that the object does not have.
fn added_field(key: Str, mut value: Value) -> Option<(Str, Value)> {
    prune_nulls(&mut value);
    (!value.is_null()).then_some((key, value))
}

/// Removes the null fields of all objects in the value. Null items of arrays are kept.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => object.retain(|_, value| {
            prune_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}
