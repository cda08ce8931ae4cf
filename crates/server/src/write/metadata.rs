//! The rules of `metadata` that apply to every kind (upstream: `registry/rest`: `BeforeCreate`, `BeforeUpdate`).

use std::collections::BTreeSet;

use pintle_gates::Gates;
use pintle_registry::{ApiError, GroupVersion, GroupVersionKind, Resource, Scope, StrategyContext, missing_fields};
use pintle_value::metadata::is_standard_or_qualified_finalizer;
use pintle_value::{Errors, FieldPath, Value, ValueKey, repeated};

use crate::objects::model;
use crate::request::recorder::Recorder;

/// Sets the namespace of an object to the namespace of the request (upstream:
/// `EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// Returns an error if the object names another namespace.
pub(crate) fn ensure_namespace(object: &mut Value, resource: &Resource, namespace: &str) -> Result<(), ApiError> {
    let found = object.namespace();
    if resource.scope == Scope::Cluster {
        if !found.is_empty() {
            object.remove_at(&["metadata", "namespace"]);
        }
        return Ok(());
    }
    if found.is_empty() {
        object.set_at(&["metadata", "namespace"], namespace);
    } else if found != namespace {
        return Err(ApiError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request".to_owned(),
        ));
    }
    Ok(())
}

/// Checks the name and namespace of an object against the path of the request (upstream: `checkName`).
///
/// # Errors
/// Returns an error if the object has another name or namespace.
pub(crate) fn check_name(object: &Value, name: &str, namespace: &str) -> Result<(), ApiError> {
    let found = object.name();
    if found.is_empty() {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if found != name {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        )));
    }
    let found = object.namespace();
    if !found.is_empty() && found != namespace {
        return Err(ApiError::BadRequest(format!(
            "the namespace of the object ({found}) does not match the namespace on the request ({namespace})"
        )));
    }
    Ok(())
}

/// Parses the resourceVersion of an object. An empty text and 0 are `None`.
///
/// # Errors
/// Returns an error if the resourceVersion is not a number.
pub(crate) fn parse_resource_version(object: &Value) -> Result<Option<u64>, String> {
    match object.resource_version() {
        "" => Ok(None),
        text => crate::request::query::parse_revision(text).map(|revision| Some(revision).filter(|r| *r != 0)),
    }
}

/// Removes the metadata fields of a new object that only the server sets (upstream: `WipeObjectMetaSystemFields`).
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for key in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object.remove_at(&["metadata", key]);
    }
}

/// Sets the metadata fields of a new object that only the server sets (upstream: `FillObjectMetaSystemFields`).
pub(crate) fn fill_system_fields(context: &StrategyContext, object: &mut Value) {
    wipe_system_fields(object);
    object.remove_at(&["metadata", "resourceVersion"]);
    object.set_at(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set_at(&["metadata", "creationTimestamp"], context.now.rfc3339());
}

/// Copies the metadata fields that only the server sets from the old object. A uid or namespace that the client sends
/// stays, so that validation can reject a change.
pub(crate) fn preserve_system_fields(object: &mut Value, old: &Value) {
    let mut preserve = |key: &str, always: bool| {
        let absent = object.at(&["metadata", key]).is_none();
        match old.at(&["metadata", key]) {
            Some(value) if always || absent => object.set_at(&["metadata", key], value.clone()),
            None if always => {
                object.remove_at(&["metadata", key]);
            }
            _ => {}
        }
    };
    preserve("uid", false);
    preserve("creationTimestamp", true);
    preserve("generation", true);
    // A deletion cannot be cancelled or delayed.
    preserve("deletionTimestamp", old.is_terminating());
    preserve("deletionGracePeriodSeconds", false);
    preserve("namespace", false);
}

/// Validates the metadata of a new object.
pub(crate) fn validate(gates: &Gates, object: &Value, resource: &Resource) -> Errors {
    let rule = |name: &str, prefix: bool| resource.strategy.validate_object_name(gates, object, name, prefix);
    let mut errors = pintle_value::metadata::validate_object_meta(
        object,
        resource.scope == Scope::Namespaced,
        &rule,
        missing_fields(gates),
    );
    errors.append(validate_finalizers(object, resource));
    errors
}

/// Validates finalizers by the rules of `pkg/apis/core`, which apimachinery does not have.
fn validate_finalizers(object: &Value, resource: &Resource) -> Errors {
    let mut errors = Errors::new();
    if !model(resource).validates_finalizers(resource) {
        return errors;
    }
    let path = FieldPath::new("metadata");
    let path = path.child("finalizers");
    for (index, finalizer) in object.items_at(&["metadata", "finalizers"]).iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !is_standard_or_qualified_finalizer(name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&path.index(index), name, why);
        }
    }
    errors
}

/// Removes duplicate owner references and adds a warning (upstream: `dedupOwnerReferencesAndAddWarning`).
pub(crate) fn dedup_owner_references(object: &mut Value, recorder: &Recorder, after_admission: bool) {
    let owners = object.items_at(&["metadata", "ownerReferences"]);
    let repeats: BTreeSet<usize> = repeated(owners.iter().map(ValueKey)).collect();
    if repeats.is_empty() {
        return;
    }
    let duplicates: Vec<&str> = repeats.iter().map(|i| owners[*i].str_at(&["uid"])).collect();
    let unique = owners.iter().enumerate().filter(|(i, _)| !repeats.contains(i)).map(|(_, owner)| owner.clone());
    let unique: Vec<Value> = unique.collect();
    let when = if after_admission { " after mutating admission happens" } else { "" };
    recorder.warn(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ));
    object.set_at(&["metadata", "ownerReferences"], unique);
}

/// Validates the metadata of an updated object: the metadata itself, where the name may be any path segment, and the
/// changes. Upstream's strategies validate the changes a second time. So their errors appear twice among the causes,
/// but only if the object has the type of its resource.
pub(crate) fn validate_update(
    gates: &Gates,
    object: &Value,
    old: &Value,
    resource: &Resource,
    has_valid_type: bool,
) -> Errors {
    let missing = missing_fields(gates);
    let namespaced = resource.scope == Scope::Namespaced;
    let validate_name = &pintle_value::names::path_segment_name;
    let mut errors = pintle_value::metadata::validate_object_meta(object, namespaced, validate_name, missing);
    let update_errors = pintle_value::metadata::validate_object_meta_update(object, old, missing);
    if has_valid_type {
        errors.append(update_errors.clone());
    }
    errors.append(update_errors);
    errors.append(validate_finalizers(object, resource));
    errors
}

/// Turns validation errors of an object into the error of the request. The error contains the name of the object.
///
/// # Errors
/// Returns [`ApiError::Invalid`] if there are validation errors.
pub(crate) fn check_errors(resource: &Resource, object: &Value, errors: Errors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    // A custom resource may still have another kind or group than its resource.
    let group = match GroupVersion::parse(object.api_version()) {
        Some(found) if model(resource).requires_type() => found.group,
        _ => resource.group.clone(),
    };
    let kind = GroupVersionKind::new(group, resource.version.clone(), object.kind());
    Err(ApiError::Invalid { kind, name: object.name().into(), errors })
}

/// Checks that an object has a kind and apiVersion, which a patch can remove from a custom resource (upstream:
/// `rest.objectMetaAndKind`).
///
/// # Errors
/// Returns an error if one of them is missing.
pub(crate) fn check_has_type(object: &Value) -> Result<(), ApiError> {
    let missing = |name, why| Err(ApiError::Internal(format!("Object '{name}' is missing in '{why}'")));
    if object.kind().is_empty() {
        return missing("Kind", "object has no kind field ");
    }
    if object.api_version().is_empty() { missing("apiVersion", "object has no apiVersion field") } else { Ok(()) }
}

/// The error for an update without a resourceVersion, if the kind requires a resourceVersion.
pub(crate) fn resource_version_required(resource: &Resource, name: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(&FieldPath::new("metadata.resourceVersion"), Value::Int(0), "must be specified for an update");
    // Upstream names the resource here, not the kind.
    let kind = GroupVersionKind::new(resource.group.clone(), resource.version.clone(), resource.plural.clone());
    ApiError::Invalid { kind, name: name.into(), errors }
}

/// The error for an update with a stale resourceVersion (upstream: `OptimisticLockErrorMsg`).
pub(crate) fn optimistic_lock_conflict(resource: &Resource, name: &str) -> ApiError {
    ApiError::Conflict {
        resource: resource.group_resource(),
        name: name.into(),
        why: "the object has been modified; please apply your changes to the latest version and try again".to_owned(),
    }
}
