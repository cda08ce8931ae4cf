//! Applies the results of the expressions of mutations: configurations by a typed merge, and JSON patches (upstream:
//! `policy/mutating/patch`).

use pintle_apply::typed::{Duplicates, TypeRef};
use pintle_patch::{JsonPatch, PatchErrorKind};
use pintle_registry::GroupVersionKind;
use pintle_schema::Schema;
use pintle_value::Value;

/// Merges a configuration into an object. Nothing is removed. Kinds that only subresources have, such as `Scale`, have
/// no schema for the merge.
///
/// # Errors
/// There is no schema, the configuration does not match it, or it replaces a value that can only be set as a whole.
pub(super) fn apply_configuration(
    object: &Value,
    mut configuration: Value,
    kind: &GroupVersionKind,
    schema: Option<&Schema>,
) -> Result<Value, String> {
    let failed = |what: &str, why: &dyn std::fmt::Display| Err(format!("error applying patch: {what}: {why}"));
    configuration.set("apiVersion", object.api_version());
    configuration.set("kind", object.kind());
    let Some(schema) = schema else {
        let why = format!("no corresponding type for {kind}");
        return failed("failed to convert patch object to typed object", &why);
    };
    let ty = TypeRef::new(&schema.types, schema.root);
    if let Err(error) = ty.validate(&configuration, Duplicates::Forbidden) {
        return failed("failed to convert patch object to typed object", &error);
    }
    let atomics = ty.atomics(&configuration);
    if !atomics.is_empty() {
        let why = format!("may not mutate atomic arrays, maps or structs: {}", atomics.join(", "));
        return failed("invalid ApplyConfiguration", &why);
    }
    if let Err(error) = ty.validate(object, Duplicates::Allowed) {
        return failed("failed to convert original object to typed object", &error);
    }
    match ty.merge(object, &configuration) {
        Ok(merged) => Ok(merged.into_owned()),
        Err(error) => failed("failed to merge patch", &error),
    }
}

/// Applies a JSON patch. If one of its tests fails, the object stays as it is.
///
/// # Errors
/// The patch does not fit the object.
pub(super) fn apply_json_patch(object: &Value, mut operations: Value) -> Result<Value, String> {
    for operation in operations.as_array_mut().into_iter().flatten() {
        // Upstream writes both, even if they are empty, and leaves out an empty source.
        operation.set_default("op", "");
        operation.set_default("path", "");
        if operation.str_at(&["from"]).is_empty() {
            operation.remove("from");
        }
    }
    let patch = JsonPatch::decode(&operations, false).map_err(|error| format!("JSON Patch: {error}"))?;
    match patch.apply(object.clone()) {
        Ok(patched) => Ok(patched),
        Err(error) if error.kind == PatchErrorKind::TestFailed => Ok(object.clone()),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}
