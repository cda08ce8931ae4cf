//! A function for plugins that add finalizers to new objects.

use pintle_value::Value;

/// Adds a finalizer to an object that does not have it.
pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let present = object.items_at(&["metadata", "finalizers"]);
    if present.iter().any(|present| present.as_str() == Some(finalizer)) {
        return;
    }
    let finalizers: Vec<Value> = present.iter().cloned().chain([Value::from(finalizer)]).collect();
    object.set_at(&["metadata", "finalizers"], finalizers);
}
