//! Validation of the scale subresource's fields in custom resources. Replicas must be valid counts, and the selector
//! must be a string (upstream: `ValidateScaleSpec` and `ValidateScaleStatus` of `registry/customresource`).

use pintle_value::print::{self, go_type};
use pintle_value::{Errors, FieldPath, Str, Value};

/// The paths of the scale's fields, as in the CRD (`.spec.replicas`).
#[derive(Debug)]
pub(crate) struct ScaleValidator {
    replicas: Str,
    status_replicas: Str,
    selector: Option<Str>,
}

impl ScaleValidator {
    /// Returns the validator of a version, or `None` if the version has no scale subresource.
    pub(crate) fn of(version: &Value) -> Option<Self> {
        let scale = version.at(&["subresources", "scale"])?;
        Some(Self {
            replicas: scale.str_at(&["specReplicasPath"]).into(),
            status_replicas: scale.str_at(&["statusReplicasPath"]).into(),
            selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(Str::from),
        })
    }

    /// Validates the desired number of replicas.
    pub(crate) fn validate_spec(&self, object: &Value, errors: &mut Errors) {
        validate_replicas(object, &self.replicas, errors);
    }

    /// Validates the actual number of replicas and the selector.
    pub(crate) fn validate_status(&self, object: &Value, errors: &mut Errors) {
        validate_replicas(object, &self.status_replicas, errors);
        let Some(path) = &self.selector else { return };
        match find(object, path) {
            Ok(None | Some(Value::String(_))) => {}
            Ok(Some(other)) => errors.invalid(&FieldPath::new(path), "", accessor_error(path, other, "string")),
            Err(why) => errors.invalid(&FieldPath::new(path), "", why),
        }
    }
}

fn validate_replicas(object: &Value, path: &str, errors: &mut Errors) {
    let at = FieldPath::new(path);
    match find(object, path) {
        Ok(None) => {}
        Ok(Some(Value::Int(count))) if *count < 0 => errors.invalid(&at, *count, "should be a non-negative integer"),
        Ok(Some(Value::Int(count))) if *count > i64::from(i32::MAX) => {
            errors.invalid(&at, *count, format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(Some(Value::Int(_))) => {}
        Ok(Some(other)) => errors.invalid(&at, 0, accessor_error(path, other, "int64")),
        Err(why) => errors.invalid(&at, 0, why),
    }
}

/// Returns the value at a path, or an error if the path leads through a value that is not an object.
fn find<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut found = object;
    let steps = path.strip_prefix('.').unwrap_or(path);
    let mut end = 0;
    for step in steps.split('.') {
        end += step.len();
        match found {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(step) {
                Some(below) => found = below,
                None => return Ok(None),
            },
            other => return Err(accessor_error(&steps[..end], other, "map[string]interface{}")),
        }
        end += 1;
    }
    Ok(Some(found))
}

/// The accessor error of apimachinery's `unstructured` helpers.
fn accessor_error(path: &str, value: &Value, expected: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    format!(".{path} accessor error: {} is of the type {}, expected {expected}", print::plain(value), go_type(value))
}
