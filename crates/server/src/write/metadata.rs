//! The rules of `metadata` that hold for every kind (upstream: `registry/rest`: `BeforeCreate`, `BeforeUpdate`).

use pintle_registry::{ApiError, Context, GroupVersionKind, Resource, Scope};
use pintle_value::{Errors, FieldPath, Str, Value};

/// Letters of generated names: no vowels and nothing that looks like something else.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters are added to a `generateName`.
const SUFFIX: usize = 5;
/// The longest `generateName` that is kept whole.
const LONGEST_BASE: usize = 63 - SUFFIX;

/// Sees to it that an object is in the namespace of its request.
///
/// # Errors
/// It says that it is in another one.
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

/// Sees to it that an object is the one of its request's path.
///
/// # Errors
/// It has another name or namespace.
pub(crate) fn ensure_name(object: &Value, name: &str, namespace: &str) -> Result<(), ApiError> {
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
            "the namespace of the object ({found}) does not match the namespace on the URL ({namespace})"
        )));
    }
    Ok(())
}

/// Makes a name of a `generateName`.
pub(crate) fn generate_name(base: &str) -> Str {
    let mut end = base.len().min(LONGEST_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = String::with_capacity(end + SUFFIX);
    name.push_str(&base[..end]);
    for byte in uuid::Uuid::new_v4().as_bytes().iter().take(SUFFIX) {
        name.push(char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
    }
    name.into()
}

/// Sets what the server sets in the metadata of a new object.
pub(crate) fn fill_system_fields(context: &Context, object: &mut Value) {
    for key in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "resourceVersion"] {
        object.remove_at(&["metadata", key]);
    }
    object.set_at(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set_at(&["metadata", "creationTimestamp"], context.now.rfc3339());
}

/// Takes over from the old object what an update cannot change silently.
pub(crate) fn keep_system_fields(object: &mut Value, old: &Value) {
    for key in ["selfLink", "managedFields"] {
        object.remove_at(&["metadata", key]);
    }
    let mut keep = |key: &str, always: bool| {
        let absent = object.at(&["metadata", key]).is_none();
        match old.at(&["metadata", key]) {
            Some(value) if always || absent => object.set_at(&["metadata", key], value.clone()),
            None if always => {
                object.remove_at(&["metadata", key]);
            }
            _ => {}
        }
    };
    keep("uid", false);
    keep("creationTimestamp", true);
    keep("generation", true);
    // A deletion cannot be taken back.
    keep("deletionTimestamp", false);
    keep("deletionGracePeriodSeconds", false);
    keep("namespace", false);
    keep("managedFields", true);
}

/// Checks a new object's metadata.
pub(crate) fn validate(object: &Value, resource: &Resource) -> Errors {
    let rule = |name: &str, prefix: bool| resource.behaviour.validate_name(name, prefix);
    pintle_value::metadata::validate_object_meta(object, resource.scope == Scope::Namespaced, &rule)
}

/// Checks a changed object's metadata.
pub(crate) fn validate_update(object: &Value, old: &Value) -> Errors {
    pintle_value::metadata::validate_object_meta_update(object, old)
}

/// The error of an object with these errors, if there are any.
///
/// # Errors
/// There are.
pub(crate) fn refuse(resource: &Resource, name: &str, errors: Errors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupVersionKind::new(resource.group.clone(), resource.version.clone(), resource.kind.clone());
    Err(ApiError::Invalid { kind, name: name.into(), errors })
}

/// The error of an update without a resourceVersion where one is needed.
pub(crate) fn version_required(resource: &Resource, name: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(&FieldPath::new("metadata.resourceVersion"), Value::Int(0), "must be specified for an update");
    // Upstream names the resource here, not the kind.
    let kind = GroupVersionKind::new(resource.group.clone(), resource.version.clone(), resource.plural.clone());
    ApiError::Invalid { kind, name: name.into(), errors }
}

/// The error of an update of an object that has changed meanwhile.
pub(crate) fn modified(resource: &Resource, name: &str) -> ApiError {
    ApiError::Conflict {
        resource: resource.group_resource(),
        name: name.into(),
        why: "the object has been modified; please apply your changes to the latest version and try again".to_owned(),
    }
}
