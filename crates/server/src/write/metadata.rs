//! The rules of `metadata` that hold for every kind (upstream: `registry/rest`: `BeforeCreate`, `BeforeUpdate`).

use crate::objects::model;
use crate::request::recorder::Recorder;
use pintle_registry::{ApiError, GroupVersionKind, Resource, Scope, StrategyContext};
use pintle_value::metadata::is_standard_or_qualified_finalizer;
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
            "the namespace of the object ({found}) does not match the namespace on the request ({namespace})"
        )));
    }
    Ok(())
}

/// The revision that an object says it is of; none and 0 are `None`.
///
/// # Errors
/// It is no number.
pub(crate) fn revision(object: &Value) -> Result<Option<u64>, String> {
    match object.resource_version() {
        "" => Ok(None),
        text => crate::request::query::parse_revision(text).map(|revision| Some(revision).filter(|r| *r != 0)),
    }
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

/// Forgets what a new object says of things that the server alone decides (upstream: `WipeObjectMetaSystemFields`).
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for key in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object.remove_at(&["metadata", key]);
    }
}

/// Sets what the server sets in the metadata of a new object.
pub(crate) fn fill_system_fields(context: &StrategyContext, object: &mut Value) {
    wipe_system_fields(object);
    object.remove_at(&["metadata", "resourceVersion"]);
    object.set_at(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set_at(&["metadata", "creationTimestamp"], context.now.rfc3339());
}

/// Takes over from the old object what an update cannot change silently.
pub(crate) fn keep_system_fields(object: &mut Value, old: &Value) {
    object.remove_at(&["metadata", "selfLink"]);
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
    // A deletion cannot be taken back, nor put off.
    keep("deletionTimestamp", old.is_terminating());
    keep("deletionGracePeriodSeconds", false);
    keep("namespace", false);
}
/// Checks a new object's metadata.
pub(crate) fn validate(object: &Value, resource: &Resource) -> Errors {
    let rule = |name: &str, prefix: bool| resource.strategy.validate_name(name, prefix);
    let mut errors = pintle_value::metadata::validate_object_meta(object, resource.scope == Scope::Namespaced, &rule);
    errors.append(core_rules(object, resource));
    errors
}

/// What `pkg/apis/core` asks of finalizers beyond what apimachinery does.
fn core_rules(object: &Value, resource: &Resource) -> Errors {
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

/// Drops owner references that stand there twice, and says so.
pub(crate) fn deduplicate_owners(object: &mut Value, recorder: &Recorder, after_admission: bool) {
    let owners = object.items_at(&["metadata", "ownerReferences"]);
    let (mut kept, mut duplicates): (Vec<Value>, Vec<&str>) = (Vec::with_capacity(owners.len()), Vec::new());
    for owner in owners {
        if kept.contains(owner) {
            duplicates.push(owner.str_at(&["uid"]));
        } else {
            kept.push(owner.clone());
        }
    }
    if duplicates.is_empty() {
        return;
    }
    let when = if after_admission { " after mutating admission happens" } else { "" };
    recorder.warn(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ));
    object.set_at(&["metadata", "ownerReferences"], kept);
}

/// Checks a changed object's metadata: as a whole, with any name that fits into a path, and the change. Upstream's kinds
/// check the change once more, so that what is wrong with it stands among the causes twice.
pub(crate) fn validate_update(object: &Value, old: &Value, resource: &Resource) -> Errors {
    let namespaced = resource.scope == Scope::Namespaced;
    let any = &pintle_value::names::path_segment_name;
    let mut errors = pintle_value::metadata::validate_object_meta(object, namespaced, any);
    let change = pintle_value::metadata::validate_object_meta_update(object, old);
    errors.append(change.clone());
    errors.append(change);
    errors.append(core_rules(object, resource));
    errors
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
