//! Patch: the new object is computed inside the guaranteed-update loop, by one of the patch types.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pintle_codec::json;
use pintle_patch::{
    JsonPatch, PatchError, PatchErrorKind, check_merge_patch, check_strategic_patch, merge_patch, strategic,
};
use pintle_registry::{ApiError, Resource};
use pintle_value::Value;

use super::decode::{Expected, answer, default, patched};
use super::metadata;
use super::update::Change;
use crate::http::Response;
use crate::negotiate;
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

impl Patch {
    /// Reads a patch of the type that the request says.
    ///
    /// # Errors
    /// The type is not known, or the body is malformed.
    pub(crate) fn read(call: &Call, body: &Bytes, typed: bool, validation: FieldValidation) -> Result<Self, ApiError> {
        let mut known = vec!["application/json-patch+json", "application/merge-patch+json"];
        if typed {
            known.push("application/strategic-merge-patch+json");
        }
        let unsupported = || ApiError::UnsupportedMediaType(known.iter().map(|t| (*t).to_owned()).collect());
        let media_type = negotiate::media_type(&call.headers).ok_or_else(unsupported)?;
        if !known.contains(&media_type.as_str()) {
            return Err(unsupported());
        }
        let decoded = json::decode(body, json::Options { duplicates: true })
            .map_err(|error| ApiError::BadRequest(format!("error decoding patch: {error}")))?;
        let mut problems: Vec<String> =
            decoded.duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
        let patch = match media_type.as_str() {
            "application/json-patch+json" => {
                let patch =
                    JsonPatch::decode(&decoded.value, validation != FieldValidation::Ignore).map_err(patch_error)?;
                problems.extend(patch.unknown.iter().cloned());
                Patch::Json(patch)
            }
            "application/merge-patch+json" => {
                check_merge_patch(&decoded.value).map_err(patch_error)?;
                Patch::Merge(decoded.value)
            }
            _ => {
                check_strategic_patch(&decoded.value).map_err(patch_error)?;
                Patch::Strategic(decoded.value)
            }
        };
        answer(call, &problems, validation).map_err(ApiError::BadRequest)?;
        Ok(patch)
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
    let form = Form::negotiate(call, resource, false)?;
    let change = Change::of(call, resource, false);
    let (patch, change) = prepare(call, resource, change).await?;
    let expected = Expected::of(resource);
    let updated = change.run(|old| {
        let object = patch.patch.apply(&expected, old)?;
        let mut object = patched(call, object, &expected, patch.validation)?;
        checked(&mut object, &expected, &change)?;
        default(resource, &mut object);
        Ok(object)
    });
    let updated = updated.await?;
    Ok(form.respond(StatusCode::OK, form.body(&updated.object)?))
}

/// A patch and how to treat its unknown fields.
pub(crate) struct Prepared {
    pub(crate) patch: Patch,
    pub(crate) validation: FieldValidation,
}

/// Reads a patch and its options.
///
/// # Errors
/// As [`Patch::read`] and [`WriteOptions::read`].
pub(crate) async fn prepare<'a>(
    call: &'a Call,
    resource: &'a Arc<Resource>,
    mut change: Change<'a>,
) -> Result<(Prepared, Change<'a>), ApiError> {
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, "PatchOptions")?;
    let patch = Patch::read(call, &body, resource.typed, options.field_validation)?;
    change.context.dry_run = options.dry_run;
    Ok((Prepared { patch, validation: options.field_validation }, change))
}

/// Sees to it that a patch did not make another object of it.
fn checked(object: &mut Value, expected: &Expected<'_>, change: &Change<'_>) -> Result<(), ApiError> {
    if object.kind() != expected.kind || object.api_version() != expected.group_version.to_string() {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            object.api_version(),
            expected.group_version
        )));
    }
    metadata::ensure_name(object, &change.name, &change.namespace)
}
