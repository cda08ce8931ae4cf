//! Validation of converted objects. Their metadata is restored from the original, except for labels and annotations,
//! which a webhook may change (upstream: `validateConvertedObject`, `restoreObjectMeta`).

use pintle_registry::GroupVersion;
use pintle_value::metadata::{validate_annotations, validate_labels};
use pintle_value::{FieldPath, Value, print};

use super::{ConversionError, ConversionErrorType, format_kind_of};

/// Validates an object that a webhook converted, and restores its metadata.
///
/// # Errors
/// Returns an error if the result is not the same object at the desired version.
pub fn accept_converted(original: &Value, converted: Value, desired: &str) -> Result<Value, ConversionError> {
    let invalid = |message| ConversionError { error_type: ConversionErrorType::InvalidConvertedObject, message };
    let webhook = || format!("conversion webhook for {}", format_kind_of(original));
    check_is_object(&converted).map_err(invalid)?;
    let found = converted.api_version();
    if found != desired {
        return Err(invalid(format!(
            "{} returned invalid object at index 0: invalid groupVersion (expected {desired}, received {found})",
            webhook()
        )));
    }
    if converted.kind() != original.kind() {
        return Err(invalid(format!(
            "{} returned invalid object at index 0: invalid kind (expected {}, received {})",
            webhook(),
            original.kind(),
            converted.kind()
        )));
    }
    check_same_identity(original, &converted)
        .map_err(|why| invalid(format!("{} returned invalid object: {why}", webhook())))?;
    restore_metadata(original, converted)
        .map_err(|why| invalid(format!("{} returned invalid metadata: {why}", webhook())))
}

/// Checks that a value is an object with a kind, as Go's decoder of unstructured objects does.
fn check_is_object(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(_) => {
            let version = value.api_version();
            let has_type = !value.kind().is_empty() && (version.is_empty() || GroupVersion::parse(version).is_some());
            if has_type { Ok(()) } else { Err(format!("Object 'Kind' is missing in '{}'", print::json(value))) }
        }
        Value::Null => Err("unexpected end of JSON input".to_owned()),
        other => {
            let found = other.json_type();
            Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
    }
}

/// Checks that both objects have the same name, namespace and UID.
fn check_same_identity(original: &Value, converted: &Value) -> Result<(), String> {
    let identity = [
        ("name", original.name(), converted.name()),
        ("namespace", original.namespace(), converted.namespace()),
        ("UID", original.uid(), converted.uid()),
    ];
    match identity.into_iter().find(|(_, expected, found)| expected != found) {
        Some((what, expected, found)) => Err(format!("must have the same {what}: {expected} != {found}")),
        None => Ok(()),
    }
}

/// Returns the converted object with the metadata of the original, except for labels and annotations.
fn restore_metadata(original: &Value, mut converted: Value) -> Result<Value, String> {
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(Value::object);
    let mut returned = match converted.remove("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(returned @ Value::Object(_)) => returned,
        Some(other) => return Err(format!("invalid metadata of type {} in converted object", print::go_type(&other))),
    };
    for field in ["labels", "annotations"] {
        match returned.remove(field) {
            None | Some(Value::Null) => drop(metadata.remove(field)),
            Some(texts) => {
                validate_string_map(field, metadata.get(field), &texts)?;
                metadata.set(field, texts);
            }
        }
    }
    converted.set("metadata", metadata);
    Ok(converted)
}

/// Validates labels or annotations. Only changed entries must be valid.
fn validate_string_map(field: &str, before: Option<&Value>, texts: &Value) -> Result<(), String> {
    let Some(entries) = texts.as_object() else {
        return Err(format!("invalid metadata.{field} of type {} in converted object", print::go_type(texts)));
    };
    if let Some((key, value)) = entries.iter().find(|(_, value)| value.as_str().is_none()) {
        let ty = print::go_type(value);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {ty} in converted object"));
    }
    let nothing = Value::object();
    if before.unwrap_or(&nothing) == texts {
        return Ok(());
    }
    let path = FieldPath::new("metadata");
    let errors = match field {
        "labels" => validate_labels(texts, &path.child("labels")),
        // Upstream's path is `metadata.annotation`.
        _ => validate_annotations(texts, &path.child("annotation")),
    };
    if errors.is_empty() { Ok(()) } else { Err(errors.message()) }
}
