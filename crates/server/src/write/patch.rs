//! Patch: the new object is computed inside the guaranteed-update loop, by one of the patch types.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use pintle_codec::json;
use pintle_patch::{
    JsonPatch, PatchError, PatchErrorKind, check_merge_patch, check_strategic_patch, merge_patch, strategic,
};
use pintle_registry::{ApiError, GroupVersionKind, Resource};
use pintle_value::{Errors, FieldPath, Str, Value};

use super::decode::{Expected, answer, default, patched};
use super::metadata;
use super::update::Change;
use crate::http::Response;
use crate::pipeline::Call;
use crate::query::{FieldValidation, WriteOptions};
use crate::represent::Form;

/// A patch that was read.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(JsonPatch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own, by the schema.
    Strategic(Value),
}

/// The type of a patch, as its media type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchKind {
    Json,
    Merge,
    Strategic,
}

impl PatchKind {
    /// Unlike elsewhere, the media type has to be spelled exactly.
    fn of(call: &Call, typed: bool) -> Result<Self, ApiError> {
        let known = [
            ("application/json-patch+json", PatchKind::Json),
            ("application/merge-patch+json", PatchKind::Merge),
            ("application/strategic-merge-patch+json", PatchKind::Strategic),
        ];
        let known = if typed { &known[..] } else { &known[..2] };
        let said = call.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let said = said.split_once(';').map_or(said, |(media_type, _)| media_type);
        known.iter().find(|(media_type, _)| *media_type == said).map(|(_, kind)| *kind).ok_or_else(|| {
            ApiError::UnsupportedMediaType(known.iter().map(|(media_type, _)| (*media_type).to_owned()).collect())
        })
    }
}

impl Patch {
    /// Reads a patch, and what strict decoding says of it.
    ///
    /// # Errors
    /// The body is malformed.
    fn read(kind: PatchKind, body: &[u8], strict: bool) -> Result<(Self, Vec<String>), ApiError> {
        let decoded = json::decode(body, json::Options { duplicates: true }).map_err(|error| {
            ApiError::BadRequest(match (kind, strict) {
                (PatchKind::Strategic, _) | (PatchKind::Json, false) => error.to_string(),
                (PatchKind::Merge, false) => "Invalid JSON Patch".to_owned(),
                (PatchKind::Json | PatchKind::Merge, true) => format!("error decoding patch: {error}"),
            })
        })?;
        let mut problems: Vec<String> =
            decoded.duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
        let patch = match kind {
            PatchKind::Json => {
                let patch = JsonPatch::decode(&decoded.value, strict).map_err(patch_error)?;
                problems.extend(patch.unknown.iter().cloned());
                Patch::Json(patch)
            }
            PatchKind::Merge => {
                check_merge_patch(&decoded.value).map_err(patch_error)?;
                Patch::Merge(decoded.value)
            }
            PatchKind::Strategic => {
                check_strategic_patch(&decoded.value).map_err(patch_error)?;
                Patch::Strategic(decoded.value)
            }
        };
        Ok((patch, problems))
    }

    /// Applies the patch.
    ///
    /// # Errors
    /// It does not fit the object.
    pub(crate) fn apply(&self, expected: &Expected<'_>, old: &Value) -> Result<Value, ApiError> {
        let patched = match self {
            Patch::Json(patch) => patch.apply(old.clone()),
            Patch::Merge(patch) => merge_patch(old.clone(), patch.clone()),
            Patch::Strategic(patch) => {
                strategic(old.clone(), patch.clone(), &expected.schema.types, expected.schema.root)
            }
        };
        patched.map_err(patch_error)
    }
}

fn patch_error(error: PatchError) -> ApiError {
    let PatchError { kind, message } = error;
    match kind {
        PatchErrorKind::Malformed => ApiError::BadRequest(message),
        PatchErrorKind::TooLarge => ApiError::TooLarge(message),
        PatchErrorKind::NotApplicable => ApiError::Unprocessable(message),
        PatchErrorKind::Plain => ApiError::Unclassified(message),
    }
}

/// Answers a patch.
pub(crate) async fn patch(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    PatchKind::of(call, resource.typed)?;
    let form = Form::negotiate(call, resource, false)?;
    let change = Change::of(call, resource, false);
    let (patch, change) = prepare(call, resource, change).await?;
    let expected = Expected::of(resource);
    let updated = change.run(|old| {
        let mut object = patch.apply(call, &expected, old)?;
        metadata::ensure_namespace(&mut object, resource, &change.namespace)?;
        metadata::ensure_name(&object, &change.name, &change.namespace)?;
        default(resource, &mut object);
        Ok(object)
    });
    let updated = updated.await?;
    Ok(form.respond(StatusCode::OK, form.body(&updated.object)?))
}

/// A patch, and how to treat its unknown and duplicate fields.
pub(crate) struct Prepared {
    /// What is wrong with it is said only to those whose object is there.
    patch: Result<(Patch, Vec<String>), ApiError>,
    validation: FieldValidation,
}

/// Reads a patch and its options.
///
/// # Errors
/// As [`PatchKind::of`] and [`WriteOptions::read`].
pub(crate) async fn prepare<'a>(
    call: &'a Call,
    resource: &'a Arc<Resource>,
    mut change: Change<'a>,
) -> Result<(Prepared, Change<'a>), ApiError> {
    let kind = PatchKind::of(call, resource.typed)?;
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, "PatchOptions")?;
    change.context.dry_run = options.dry_run;
    // The name of the object is the precondition of a full update only.
    change.uid_is_precondition = false;
    let validation = options.field_validation;
    Ok((Prepared { patch: Patch::read(kind, &body, validation != FieldValidation::Ignore), validation }, change))
}

impl Prepared {
    /// Applies the patch: the new object at the request's version, without defaults.
    ///
    /// # Errors
    /// The patch is malformed or does not fit the object, or what comes out is not of its kind.
    pub(crate) fn apply(&self, call: &Call, expected: &Expected<'_>, old: &Value) -> Result<Value, ApiError> {
        let (patch, problems) = self.patch.as_ref().map_err(Clone::clone)?;
        let object = patch.apply(expected, old)?;
        let shown = || match patch {
            Patch::Strategic(patch) => go_value(patch),
            _ => String::from_utf8_lossy(&json::encode(&object)).into_owned(),
        };
        let refused = |shown: String, why: &str| {
            let mut errors = Errors::new();
            errors.invalid(&FieldPath::new("patch"), shown, why);
            ApiError::Invalid { kind: GroupVersionKind::new("", "", ""), name: Str::default(), errors }
        };
        let (object, found) = patched(call, object.clone(), expected).map_err(|error| {
            let why = error.why();
            match patch {
                Patch::Strategic(_) => refused(shown(), &converters_words(&why)),
                _ => refused(shown(), &why),
            }
        })?;
        let problems: Vec<String> = problems.iter().cloned().chain(found).collect();
        answer(call, &problems, self.validation).map_err(|why| refused(shown(), &why))?;
        Ok(object)
    }
}

/// A type error of Go's JSON decoder in the words of the converter from untyped data, which strategic merge patches go
/// through instead (upstream: `runtime.DefaultUnstructuredConverter`).
fn converters_words(error: &str) -> String {
    let parts = error
        .strip_prefix("json: cannot unmarshal ")
        .and_then(|rest| rest.split_once(" into Go "))
        .and_then(|(shape, rest)| Some((shape, rest.rsplit_once(" of type ")?.1)));
    let Some((shape, wanted)) = parts else { return error.to_owned() };
    let (go_type, go_kind) = match shape.split_once(' ').unwrap_or((shape, "")) {
        ("array", _) => ("[]interface {}", "slice"),
        ("object", _) => ("map[string]interface {}", "map"),
        ("string", _) => ("string", "string"),
        ("bool", _) => ("bool", "bool"),
        ("number", text) if text.contains(['.', 'e', 'E']) => ("float64", "float64"),
        _ => ("int64", "int64"),
    };
    match wanted {
        "[]uint8" => format!("cannot convert {go_type} to []byte"),
        list if list.starts_with("[]") => format!("cannot restore slice from {go_kind}"),
        map if map.starts_with("map[") => format!("cannot restore map from {go_kind}"),
        structure if structure.contains('.') => format!("cannot restore struct from: {go_kind}"),
        scalar => format!("cannot convert {go_type} to {scalar}"),
    }
}

/// A value as Go prints it with `%+v`.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|a, b| a.0.cmp(b.0));
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        other => String::from_utf8_lossy(&json::encode(other)).into_owned(),
    }
}
