//! The `$retainKeys` directive: only the listed fields of the patched object are kept.

use std::collections::HashSet;

use pintle_value::{Object, Value};

use crate::PatchError;
use crate::strategic::{DELETE_FROM_PRIMITIVE_LIST, SET_ELEMENT_ORDER, is_unhashable};

pub(crate) const RETAIN_KEYS: &str = "$retainKeys";

/// Removes the directive from the patch and applies it. Every field that the patch sets must be listed.
pub(crate) fn apply(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let invalid = || PatchError::malformed("invalid patch format of retainKeys");
    let Value::Array(listed) = listed else { return Err(invalid()) };
    // Upstream panics on such items.
    if listed.iter().any(is_unhashable) {
        return Err(invalid());
    }
    let listed: HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !listed.contains(key)) {
        return Err(invalid());
    }
    original.retain(|key, _| listed.contains(key));
    Ok(())
}
