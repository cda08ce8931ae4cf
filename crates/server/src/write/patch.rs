//! Patch: the new object is computed inside the guaranteed-update loop, by one of the patch types. Server-side apply is
//! one of them, which makes objects that are not there.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use pintle_codec::{cbor, json, yaml};
use pintle_patch::{
    JsonPatch, PatchError, PatchErrorKind, check_merge_patch, merge_patch, remaining_patch, strategic_merge_patch,
    validate_strategic_merge_patch,
};
use pintle_registry::{ApiError, GroupVersionKind, Resource};
use pintle_value::{Errors, FieldPath, Str, Value, print};

use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::shown::{opened_by_merge, opened_by_operations, shown};
use super::update::GuaranteedUpdate;
use crate::context::RequestContext;
use crate::http::Response;
use crate::objects::decode::{DecodeError, ExpectedKind, answer, converted, patched};
use crate::objects::model;
use crate::represent::ResponseFormat;
use crate::request::negotiate::Encoding;
use crate::request::query::{FieldValidation, WriteOptions, Writing};

/// A patch that was read.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(JsonPatch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own, by the schema.
    Strategic(Value),
    /// A configuration that its manager applies (KEP-555).
    Apply(Value),
}

/// The type of a patch, as its media type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchKind {
    Json,
    Merge,
    Strategic,
    /// In YAML or CBOR.
    Apply(Encoding),
}

impl PatchKind {
    const fn is_apply(self) -> bool {
        matches!(self, PatchKind::Apply(_))
    }

    /// Unlike elsewhere, the media type has to be spelled exactly.
    fn of(call: &RequestContext, resource: &Resource) -> Result<Self, ApiError> {
        let known = [
            ("application/json-patch+json", PatchKind::Json),
            ("application/merge-patch+json", PatchKind::Merge),
            ("application/strategic-merge-patch+json", PatchKind::Strategic),
            ("application/apply-patch+yaml", PatchKind::Apply(Encoding::Yaml)),
            ("application/apply-patch+cbor", PatchKind::Apply(Encoding::Cbor)),
        ];
        let cbor = call.endpoint().cbor;
        let served = |kind: PatchKind| match kind {
            // Custom kinds have no strategies of merging.
            PatchKind::Strategic => model(resource).has_strategic_merge_patch(),
            PatchKind::Apply(encoding) => cbor || encoding != Encoding::Cbor,
            PatchKind::Json | PatchKind::Merge => true,
        };
        let known: Vec<_> = known.into_iter().filter(|(_, kind)| served(*kind)).collect();
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
        match kind {
            PatchKind::Apply(Encoding::Cbor) => return cbor_configuration(body),
            PatchKind::Apply(_) => return configuration(body),
            PatchKind::Json | PatchKind::Merge | PatchKind::Strategic => {}
        }
        let decoded = json::decode(body, json::DecodeOptions { duplicates: true }).map_err(|error| {
            ApiError::BadRequest(match (kind, strict) {
                (PatchKind::Merge, false) => "Invalid JSON Patch".to_owned(),
                (PatchKind::Json | PatchKind::Merge, true) => format!("error decoding patch: {error}"),
                _ => error.to_string(),
            })
        })?;
        let of = if kind == PatchKind::Json { "json patch " } else { "" };
        let mut problems: Vec<String> =
            decoded.duplicates.iter().map(|path| format!("{of}duplicate field \"{path}\"")).collect();
        let patch = match kind {
            PatchKind::Json => {
                let patch = JsonPatch::decode(&decoded.value, strict).map_err(patch_error)?;
                problems.extend(patch.unknown_fields.iter().cloned());
                Patch::Json(patch)
            }
            PatchKind::Merge => {
                check_merge_patch(&decoded.value).map_err(patch_error)?;
                Patch::Merge(decoded.value)
            }
            PatchKind::Strategic | PatchKind::Apply(_) => {
                validate_strategic_merge_patch(&decoded.value).map_err(patch_error)?;
                Patch::Strategic(decoded.value)
            }
        };
        Ok((patch, problems))
    }
}

/// Reads a configuration. It is YAML, of which JSON is a part.
fn configuration(body: &[u8]) -> Result<(Patch, Vec<String>), ApiError> {
    let unread = |why: String| ApiError::BadRequest(format!("error decoding YAML: {why}"));
    let (config, duplicates) = match json::decode(body, json::DecodeOptions::default()) {
        Ok(json::Decoded { value, has_duplicates: false, .. }) => (value, None),
        // The words for what is wrong are those of YAML.
        _ => {
            let decoded =
                yaml::decode(body).map_err(|error| unread(format!("error converting YAML to JSON: {error}")))?;
            (decoded.value, decoded.strict_error)
        }
    };
    let shape = match &config {
        Value::Object(_) => return Ok((Patch::Apply(config), duplicates.into_iter().collect())),
        Value::Null => return Ok((Patch::Apply(Value::object()), Vec::new())),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
    };
    Err(unread(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {shape} into Go value of type map[string]interface {{}}"
    )))
}

/// Reads a configuration in CBOR, of which upstream speaks as of YAML.
fn cbor_configuration(body: &[u8]) -> Result<(Patch, Vec<String>), ApiError> {
    let config = cbor::decode_object(body, cbor::Limits::default())
        .map_err(|error| ApiError::BadRequest(format!("error decoding YAML: {error}")))?;
    Ok((Patch::Apply(if config.is_null() { Value::object() } else { config }), Vec::new()))
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

/// Checks that the media type of a request is that of a patch.
///
/// # Errors
/// It is not.
pub(crate) fn check_patch_type(call: &RequestContext, resource: &Resource) -> Result<(), ApiError> {
    PatchKind::of(call, resource).map(drop)
}

/// Answers a patch.
pub(crate) async fn patch(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    PatchKind::of(call, resource)?;
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let prepared = Prepared::read(call, resource).await?;
    let change = prepared.change(call, resource);
    let expected = ExpectedKind::of(resource);
    let ownership = ManagedFieldsUpdater::of(call, &expected, &prepared.options);
    let make = |live: &Value| {
        let mut object = prepared.apply(call, &expected, &ownership, live)?;
        if live.uid().is_empty() && !object.uid().is_empty() {
            return Err(change.uid_without_object(object.uid()));
        }
        metadata::ensure_namespace(&mut object, resource, &change.namespace)?;
        metadata::ensure_name(&object, &change.name, &change.namespace)?;
        Ok(object)
    };
    // Through a subresource nothing is made.
    if prepared.kind.is_apply() && change.subresource.is_empty() {
        let (code, object) = change.run_or_create(call, || ownership.nothing(), make).await?;
        return form.answer(code, &object).await;
    }
    form.answer(StatusCode::OK, &change.run(make).await?).await
}

/// A patch with its options.
pub(crate) struct Prepared {
    kind: PatchKind,
    /// What is wrong with it is said only to those whose object is there.
    patch: Result<(Patch, Vec<String>), ApiError>,
    pub(crate) options: WriteOptions,
}

impl Prepared {
    /// Reads a patch of an object of a resource, and its options.
    ///
    /// # Errors
    /// As [`PatchKind::of`] and [`WriteOptions::read`].
    pub(crate) async fn read(call: &RequestContext, resource: &Resource) -> Result<Self, ApiError> {
        let kind = PatchKind::of(call, resource)?;
        let body = call.body().await?;
        let writing = if kind.is_apply() { Writing::Apply } else { Writing::Patch };
        let options = WriteOptions::read(&call.query, writing)?;
        let patch = Patch::read(kind, &body, options.field_validation != FieldValidation::Ignore);
        Ok(Self { kind, patch, options })
    }

    /// The change that the patch makes.
    pub(crate) fn change<'a>(&'a self, call: &'a RequestContext, resource: &'a Arc<Resource>) -> GuaranteedUpdate<'a> {
        // The uid of the object is the precondition of a full update only.
        GuaranteedUpdate { uid_is_precondition: false, ..GuaranteedUpdate::of(call, resource, &self.options) }
    }

    /// Applies the patch: the new object at the request's version, with defaults, and with who owns what.
    ///
    /// # Errors
    /// The patch is malformed or does not fit the object, what comes out is not of its kind, or others own what it would
    /// change.
    pub(crate) fn apply(
        &self,
        call: &RequestContext,
        expected: &ExpectedKind<'_>,
        ownership: &ManagedFieldsUpdater<'_>,
        live: &Value,
    ) -> Result<Value, ApiError> {
        let (patch, problems) = self.patch.as_ref().map_err(Clone::clone)?;
        let patched = match patch {
            Patch::Json(patch) => patch.apply(live.clone()),
            Patch::Merge(patch) => merge_patch(live.clone(), patch.clone()),
            Patch::Strategic(patch) => {
                strategic_merge_patch(live.clone(), patch.clone(), &expected.schema.types, expected.schema.root)
            }
            Patch::Apply(config) => {
                let object = ownership.apply(live, config, self.options.force)?;
                // That keys stand there twice is said last, and in words of its own.
                answer(call, problems, self.options.field_validation).map_err(|_| {
                    let why = problems.join(", ");
                    ApiError::BadRequest(format!("error strict decoding YAML: error converting YAML to JSON: {why}"))
                })?;
                return Ok(object);
            }
        };
        let object = patched.map_err(patch_error)?;
        let mut object = self.settled(call, expected, live, (patch, problems), object)?;
        expected.default(&mut object);
        ownership.update(live, &mut object);
        Ok(object)
    }

    /// What a patch made, as its kind writes it.
    fn settled(
        &self,
        call: &RequestContext,
        expected: &ExpectedKind<'_>,
        live: &Value,
        (patch, problems): (&Patch, &[String]),
        object: Value,
    ) -> Result<Value, ApiError> {
        let refused = |shown: String, why: &str| {
            let mut errors = Errors::new();
            errors.invalid(&FieldPath::new("patch"), shown, why);
            ApiError::Invalid { kind: GroupVersionKind::new("", "", ""), name: Str::default(), errors }
        };
        let patch_or_result = || match patch {
            Patch::Strategic(patch) => {
                print::plain(&remaining_patch(live, patch.clone(), &expected.schema.types, expected.schema.root))
            }
            Patch::Merge(patch) => {
                shown(&object, live, &opened_by_merge(patch), &expected.schema.types, expected.schema.root)
            }
            Patch::Json(patch) => {
                shown(&object, live, &opened_by_operations(patch), &expected.schema.types, expected.schema.root)
            }
            Patch::Apply(_) => String::new(),
        };
        let read = match patch {
            Patch::Strategic(_) => converted(object.clone(), expected),
            _ => patched(call, object.clone(), expected).map_err(DecodeError::why),
        };
        let (decoded, found) = read.map_err(|why| refused(patch_or_result(), &why))?;
        let problems: Vec<String> = problems.iter().cloned().chain(found).collect();
        answer(call, &problems, self.options.field_validation).map_err(|why| refused(patch_or_result(), &why))?;
        Ok(decoded)
    }
}
