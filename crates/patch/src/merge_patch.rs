//! JSON Merge Patch (RFC 7386), with what json-patch v4 does beyond it: nulls inside of values that are newly set are
//! dropped, those inside of an array that replaces an object are kept.

use pintle_value::{Object, Value};

use crate::{PatchError, cannot_unmarshal};

/// Checks the patch as upstream does first unless unknown fields are to be ignored: it must be an object (or null, which
/// is refused only when the patch is applied).
pub fn check_merge_patch(patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) | Value::Null => Ok(()),
        other => {
            let cause = cannot_unmarshal(other, "map[string]interface {}");
            Err(PatchError::malformed(format!("error decoding patch: {cause}")))
        }
    }
}

/// Applies a merge patch to an object. An array as patch becomes the result, which can then be no object.
pub fn merge_patch(document: Value, patch: Value) -> Result<Value, PatchError> {
    match (document, patch) {
        (Value::Object(mut document), Value::Object(patch)) => {
            merge_objects(&mut document, patch);
            Ok(Value::Object(document))
        }
        (_, mut patch @ (Value::Object(_) | Value::Array(_))) => {
            prune_nulls(&mut patch);
            Ok(patch)
        }
        _ => Err(PatchError::malformed("Invalid JSON Patch")),
    }
}

fn merge_objects(document: &mut Object, patch: Object) {
    for (key, mut value) in patch {
        if value.is_null() {
            document.remove(&key);
            continue;
        }
        match document.get_mut(&key) {
            Some(Value::Object(current)) => match value {
                Value::Object(patch) => merge_objects(current, patch),
                // Nulls within are kept here, by upstream's oversight.
                other => {
                    document.insert(key, other);
                }
            },
            Some(current) => {
                prune_nulls(&mut value);
                *current = value;
            }
            None => {
                prune_nulls(&mut value);
                document.insert(key, value);
            }
        }
    }
}

/// Drops the null fields of all objects within; null items of arrays stay.
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
