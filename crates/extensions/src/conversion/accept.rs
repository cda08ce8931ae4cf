//! What of a converted object is taken: all but its metadata, of which labels and annotations may change and the rest is
//! as it was.

use pintle_registry::GroupVersion;
use pintle_value::metadata::{validate_annotations, validate_labels};
use pintle_value::{FieldPath, Value, print};

use super::{Failure, Fault, named};

/// Takes what a webhook made of an object.
///
/// # Errors
/// It is not the same object at the version that was wanted.
pub fn accept(original: &Value, converted: Value, desired: &str) -> Result<Value, Failure> {
    let invalid = |message| Failure { fault: Fault::Object, message };
    let webhook = || format!("conversion webhook for {}", named(original));
    readable(&converted).map_err(invalid)?;
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
    same(original, &converted).map_err(|why| invalid(format!("{} returned invalid object: {why}", webhook())))?;
    with_metadata(original, converted).map_err(|why| invalid(format!("{} returned invalid metadata: {why}", webhook())))
}

/// Checks that a value can be taken for an object at all, as Go's decoder of unstructured objects does.
fn readable(value: &Value) -> Result<(), String> {
    let shape = match value {
        Value::Object(_) => {
            let version = value.api_version();
            let named = !value.kind().is_empty() && (version.is_empty() || GroupVersion::parse(version).is_some());
            return if named { Ok(()) } else { Err(format!("Object 'Kind' is missing in '{}'", print::json(value))) };
        }
        Value::Null => return Err("unexpected end of JSON input".to_owned()),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
    };
    Err(format!("json: cannot unmarshal {shape} into Go value of type map[string]interface {{}}"))
}

/// Checks that two objects are the same one.
fn same(original: &Value, converted: &Value) -> Result<(), String> {
    let facts = [
        ("name", original.name(), converted.name()),
        ("namespace", original.namespace(), converted.namespace()),
        ("UID", original.uid(), converted.uid()),
    ];
    match facts.into_iter().find(|(_, expected, found)| expected != found) {
        Some((what, expected, found)) => Err(format!("must have the same {what}: {expected} != {found}")),
        None => Ok(()),
    }
}

/// The converted object with the metadata of the original one, but for labels and annotations.
fn with_metadata(original: &Value, mut converted: Value) -> Result<Value, String> {
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
                check_texts(field, metadata.get(field), &texts)?;
                metadata.set(field, texts);
            }
        }
    }
    converted.set("metadata", metadata);
    Ok(converted)
}

/// Checks labels or annotations, which have to be valid only if they have changed.
fn check_texts(field: &str, before: Option<&Value>, texts: &Value) -> Result<(), String> {
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
        // Upstream calls the field so.
        _ => validate_annotations(texts, &path.child("annotation")),
    };
    if errors.is_empty() { Ok(()) } else { Err(errors.message()) }
}
