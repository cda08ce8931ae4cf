//! Patches. The new object is computed in the guaranteed-update loop, by one of the patch types. Server-side apply is
//! one of them, and creates objects that do not exist.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use pintle_audit::is_json;
use pintle_codec::{cbor, json, yaml};
use pintle_gates::Change;
use pintle_patch::{
    JsonPatch, PatchError, PatchErrorKind, check_merge_patch, merge_patch, remaining_patch, strategic_merge_patch,
    validate_strategic_merge_patch,
};
use pintle_registry::{ApiError, GroupVersionKind, Resource, SubresourceStrategy};
use pintle_schema::Schema;
use pintle_value::{Errors, FieldPath, Str, Value, print};

use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::patched_text::{fields_opened_by_json_patch, fields_opened_by_merge_patch, patched_text};
use super::update::{GuaranteedUpdate, UpdateMode};
use crate::context::RequestContext;
use crate::http::{Response, header_text};
use crate::objects::decode::{ExpectedKind, convert_strategic_patch, decode_patched, report_strict_errors};
use crate::objects::encode::{self, Shape};
use crate::objects::{Routing, model};
use crate::represent::ResponseFormat;
use crate::request::negotiate::Encoding;
use crate::request::query::{FieldValidation, WriteOptions, WriteVerb};
use crate::request::trace::Step;
use crate::request::work_memory::budget_error;

/// A decoded patch.
#[derive(Debug)]
pub(crate) enum Patch {
    /// A JSON patch (RFC 6902).
    Json(JsonPatch),
    /// A JSON merge patch (RFC 7386).
    Merge(Value),
    /// A strategic merge patch.
    Strategic(Value),
    /// A configuration for server-side apply (KEP-555).
    Apply(Value),
}

/// The type of a patch, from its media type (upstream: `types.PatchType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    Json,
    Merge,
    Strategic,
    /// Server-side apply, in YAML or CBOR.
    Apply(Encoding),
}

impl PatchType {
    const fn is_apply(self) -> bool {
        matches!(self, PatchType::Apply(_))
    }

    /// The patch type of a request. Unlike elsewhere, the media type is compared exactly.
    fn from_content_type(request: &RequestContext, resource: &Resource) -> Result<Self, ApiError> {
        let known = [
            ("application/json-patch+json", PatchType::Json),
            ("application/merge-patch+json", PatchType::Merge),
            ("application/strategic-merge-patch+json", PatchType::Strategic),
            ("application/apply-patch+yaml", PatchType::Apply(Encoding::Yaml)),
            ("application/apply-patch+cbor", PatchType::Apply(Encoding::Cbor)),
        ];
        let cbor = request.endpoint().has_cbor;
        let is_supported = |patch_type: PatchType| match patch_type {
            // Custom resources have no strategic merge patch.
            PatchType::Strategic => model(resource).has_strategic_merge_patch(),
            PatchType::Apply(encoding) => cbor || encoding != Encoding::Cbor,
            PatchType::Json | PatchType::Merge => true,
        };
        let supported: Vec<_> = known.into_iter().filter(|(_, patch_type)| is_supported(*patch_type)).collect();
        let content_type = header_text(&request.headers, &CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or_default();
        let found = supported.iter().find(|(media_type, _)| *media_type == content_type).map(|(_, t)| *t);
        found.ok_or_else(|| match model(resource).routing() {
            Routing::Routes => ApiError::NoRouteForMediaType,
            Routing::Handler => ApiError::UnsupportedMediaType(
                supported.iter().map(|(media_type, _)| (*media_type).to_owned()).collect(),
            ),
        })
    }
}

/// The error of a patch that cannot be decoded.
#[derive(Debug)]
enum InvalidPatch {
    /// The error precedes all others, and no audit event has the patch.
    AtOnce(ApiError),
    /// The error is reported only if the object exists.
    IfObjectExists(ApiError),
}

impl From<ApiError> for InvalidPatch {
    fn from(error: ApiError) -> Self {
        InvalidPatch::IfObjectExists(error)
    }
}

/// The rules for malformed patches.
#[derive(Clone, Copy, Debug)]
struct PatchDecoder {
    /// True if the body is checked before the object is read (since 1.37).
    checks_first: bool,
    /// True if duplicate and unknown fields are reported.
    strict: bool,
}

impl PatchDecoder {
    /// Decodes a patch. Also returns the errors of strict decoding.
    ///
    /// # Errors
    /// Returns an error if the body is malformed.
    fn decode(self, patch_type: PatchType, body: &[u8]) -> Result<(Patch, Vec<String>), InvalidPatch> {
        match patch_type {
            PatchType::Apply(Encoding::Cbor) => return self.cbor_configuration(body),
            PatchType::Apply(_) => return self.yaml_configuration(body),
            PatchType::Json | PatchType::Merge | PatchType::Strategic => {}
        }
        let strict = self.strict;
        let decoded = json::decode(body, json::DecodeOptions { duplicates: true, ..json::DecodeOptions::default() })
            .map_err(|error| {
                if self.checks_first && matches!(error, json::DecodeError::Syntax(_)) {
                    return InvalidPatch::AtOnce(ApiError::BadRequest("invalid JSON patch".to_owned()));
                }
                InvalidPatch::IfObjectExists(ApiError::BadRequest(match (patch_type, strict) {
                    (PatchType::Merge, false) => "Invalid JSON Patch".to_owned(),
                    (PatchType::Json | PatchType::Merge, true) => format!("error decoding patch: {error}"),
                    _ => error.to_string(),
                }))
            })?;
        let prefix = if patch_type == PatchType::Json { "json patch " } else { "" };
        let mut strict_errors: Vec<String> =
            decoded.duplicates.iter().map(|path| format!("{prefix}duplicate field {}", print::quote(path))).collect();
        let patch = match patch_type {
            PatchType::Json => {
                let patch = JsonPatch::decode(&decoded.value, strict).map_err(patch_error)?;
                strict_errors.extend(patch.unknown_fields.iter().cloned());
                Patch::Json(patch)
            }
            PatchType::Merge => {
                check_merge_patch(&decoded.value).map_err(patch_error)?;
                Patch::Merge(decoded.value)
            }
            PatchType::Strategic | PatchType::Apply(_) => {
                validate_strategic_merge_patch(&decoded.value).map_err(patch_error)?;
                Patch::Strategic(decoded.value)
            }
        };
        Ok((patch, strict_errors))
    }

    /// The name of a configuration in error messages.
    fn configuration_name(self) -> &'static str {
        if self.checks_first { "patch" } else { "YAML" }
    }

    fn configuration_error(self, why: impl Display) -> InvalidPatch {
        let error = ApiError::BadRequest(format!("error decoding {}: {why}", self.configuration_name()));
        InvalidPatch::IfObjectExists(error)
    }

    /// Decodes a configuration in YAML, which may be JSON.
    fn yaml_configuration(self, body: &[u8]) -> Result<(Patch, Vec<String>), InvalidPatch> {
        let as_json = yaml::may_be_json(body).then(|| json::decode(body, json::DecodeOptions::default()));
        let (config, duplicates) = match as_json {
            Some(Ok(json::Decoded { mut value, has_duplicates: false, .. })) => {
                yaml::convert_json_numbers(&mut value);
                (value, None)
            }
            // Error messages come from the YAML decoder.
            _ => {
                let decoded = yaml::decode(body).map_err(|error| {
                    // The first check takes a text that begins with a brace for JSON and leaves it to the second.
                    if self.checks_first && !begins_with_brace(body) {
                        InvalidPatch::AtOnce(ApiError::BadRequest(format!("error encoding patch: {error}")))
                    } else {
                        self.configuration_error(format_args!("error converting YAML to JSON: {error}"))
                    }
                })?;
                (decoded.value, decoded.strict_error)
            }
        };
        let json_type = match &config {
            Value::Object(_) => return Ok((Patch::Apply(config), duplicates.into_iter().collect())),
            Value::Null => return Ok((Patch::Apply(Value::object()), Vec::new())),
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
        };
        Err(self.configuration_error(format_args!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {json_type} into Go value of type map[string]interface {{}}"
        )))
    }

    /// Decodes a configuration in CBOR. As in upstream, its error messages up to 1.36 say YAML.
    fn cbor_configuration(self, body: &[u8]) -> Result<(Patch, Vec<String>), InvalidPatch> {
        let config = cbor::decode_object(body, cbor::Limits::default()).map_err(|error| {
            // The first check accepts all types.
            match cbor::decode(body, cbor::Limits::default()) {
                Err(error) if self.checks_first => {
                    InvalidPatch::AtOnce(ApiError::BadRequest(format!("error decoding patch: {error}")))
                }
                _ => self.configuration_error(error),
            }
        })?;
        Ok((Patch::Apply(if config.is_null() { Value::object() } else { config }), Vec::new()))
    }
}

/// True if the first character of a text that is not white space is a brace (upstream: `IsJSONBuffer`).
fn begins_with_brace(text: &[u8]) -> bool {
    let start = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    start.trim_start().starts_with('{')
}

impl Patch {
    /// The object with the changes of the patch. The field manager merges a configuration, so an apply changes nothing
    /// here.
    fn changed(&self, live: &Value, schema: &Schema) -> Result<Value, PatchError> {
        match self {
            Patch::Json(patch) => patch.apply(live.clone()),
            Patch::Merge(patch) => merge_patch(live.clone(), patch.clone()),
            Patch::Strategic(patch) => strategic_merge_patch(live.clone(), patch.clone(), &schema.types, schema.root),
            Patch::Apply(_) => Ok(live.clone()),
        }
    }
}

fn patch_error(error: PatchError) -> ApiError {
    let PatchError { kind, message } = error;
    match kind {
        PatchErrorKind::Malformed => ApiError::BadRequest(message),
        PatchErrorKind::TooLarge => ApiError::TooLarge(format!("Request entity too large: {message}")),
        PatchErrorKind::NotApplicable | PatchErrorKind::TestFailed => ApiError::Unprocessable(message),
        PatchErrorKind::Plain => ApiError::Unclassified(message),
    }
}

/// Checks that the media type of a request is a supported patch type.
///
/// # Errors
/// Returns an error if the media type is not supported.
pub(crate) fn check_patch_type(request: &RequestContext, resource: &Resource) -> Result<(), ApiError> {
    PatchType::from_content_type(request, resource).map(drop)
}

/// Handles a patch request.
pub(crate) async fn patch(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    PatchType::from_content_type(request, resource)?;
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let patch_request = PatchRequest::read(request, resource).await?;
    let update = patch_request.guaranteed_update(request, resource);
    let expected = ExpectedKind::of(resource);
    let managed_fields = ManagedFieldsUpdater::for_request(request, &expected, &patch_request.options);
    let compute = |live: &Value| {
        let mut object = patch_request.apply(request, &expected, &managed_fields, live)?;
        if live.uid().is_empty() && !object.uid().is_empty() {
            return Err(update.uid_without_object(object.uid()));
        }
        metadata::ensure_namespace(&mut object, resource, &update.namespace)?;
        metadata::check_name(&object, &update.name, &update.namespace)?;
        Ok(object)
    };
    // Only an apply to the object itself creates a missing object.
    if patch_request.patch_type.is_apply() && update.subresource.is_empty() {
        let (code, object) = update.run_or_create(request, || managed_fields.empty_object(), compute).await?;
        return format.respond_object(code, &object).await;
    }
    format.respond_object(StatusCode::OK, &update.run(compute).await?).await
}

/// The patch of a request, with its options.
pub(crate) struct PatchRequest {
    patch_type: PatchType,
    decoder: PatchDecoder,
    /// The patch, or the error of decoding it. The error is reported only if the object exists.
    patch: Result<(Patch, Vec<String>), ApiError>,
    pub(crate) options: WriteOptions,
}

impl PatchRequest {
    /// Reads the patch of a request and its options.
    ///
    /// # Errors
    /// See [`PatchType::from_content_type`] and [`WriteOptions::read`].
    pub(crate) async fn read(request: &RequestContext, resource: &Resource) -> Result<Self, ApiError> {
        let patch_type = PatchType::from_content_type(request, resource)?;
        let body = request.body().await?;
        let writing = if patch_type.is_apply() { WriteVerb::Apply } else { WriteVerb::Patch };
        let options = WriteOptions::read(&request.query, writing)?;
        let decoder = PatchDecoder {
            checks_first: request.cluster.gates().has(Change::PATCHES_ARE_CHECKED_FIRST),
            strict: options.field_validation != FieldValidation::Ignore,
        };
        let patch = match decoder.decode(patch_type, &body) {
            Ok(patch) => Ok(patch),
            Err(InvalidPatch::IfObjectExists(error)) => Err(error),
            Err(InvalidPatch::AtOnce(error)) => {
                pintle_budget::check().map_err(budget_error)?;
                return Err(error);
            }
        };
        if let Some(audit) = &request.audit {
            audit.set_patch(|| audited_patch(patch_type, &body));
        }
        request.recorder.trace.step(Step::Decoded);
        Ok(Self { patch_type, decoder, patch, options })
    }

    /// The update that the patch makes.
    pub(crate) fn guaranteed_update<'a>(
        &'a self,
        request: &'a RequestContext,
        resource: &'a Arc<Resource>,
    ) -> GuaranteedUpdate<'a> {
        let subresource = resource.strategy.subresource(&request.info.subresource);
        GuaranteedUpdate {
            mode: UpdateMode::Patch,
            // An apply compares the whole object, and a JSON patch measures the object's depth.
            seldom_used: subresource
                .filter(|_| matches!(self.patch_type, PatchType::Merge | PatchType::Strategic))
                .map_or(&[], SubresourceStrategy::seldom_used),
            ..GuaranteedUpdate::for_request(request, resource, &self.options)
        }
    }

    /// Applies the patch. Returns the new object at the request's version, with defaults and managed fields.
    ///
    /// # Errors
    /// Returns an error if the patch is malformed or does not fit the object. The result may not be an object of the
    /// kind. Other managers may own fields that the patch changes.
    pub(crate) fn apply(
        &self,
        request: &RequestContext,
        expected: &ExpectedKind<'_>,
        managed_fields: &ManagedFieldsUpdater<'_>,
        live: &Value,
    ) -> Result<Value, ApiError> {
        let (patch, strict_errors) = self.patch.as_ref().map_err(Clone::clone)?;
        if let Patch::Apply(config) = patch {
            let object = managed_fields.apply(live, config, self.options.force)?;
            // Duplicate keys are reported last, with a message of their own.
            report_strict_errors(&request.recorder, strict_errors, self.options.field_validation).map_err(|_| {
                let why = strict_errors.join(", ");
                let name = self.decoder.configuration_name();
                ApiError::BadRequest(format!("error strict decoding {name}: error converting YAML to JSON: {why}"))
            })?;
            return Ok(object);
        }
        let object = patch.changed(live, expected.schema).map_err(patch_error)?;
        let mut object = self.decode_patched(request, expected, live, (patch, strict_errors), object)?;
        expected.set_defaults_of_changed(&mut object, live);
        managed_fields.update(live, &mut object);
        Ok(object)
    }

    /// Decodes a patched object as its kind.
    fn decode_patched(
        &self,
        request: &RequestContext,
        expected: &ExpectedKind<'_>,
        live: &Value,
        (patch, strict_errors): (&Patch, &[String]),
        object: Value,
    ) -> Result<Value, ApiError> {
        let invalid = |value: String, why: &str| {
            let mut errors = Errors::new();
            errors.invalid(&FieldPath::new("patch"), value, why);
            ApiError::Invalid { kind: GroupVersionKind::new("", "", ""), name: Str::default(), errors }
        };
        // Decoding takes the object, and few patches fail, so a failure computes the object again.
        let again = || patch.changed(live, expected.schema).unwrap_or_default();
        let text_of_result = |opened: &Value| match expected.model.shape(expected.schema) {
            Shape::Typed(types, root) => patched_text(&again(), live, opened, types, root),
            Shape::TypedFromUntyped(..) | Shape::Untyped => print::json(&again()),
        };
        let patch_or_result = || match patch {
            Patch::Strategic(patch) => {
                print::plain(&remaining_patch(live, patch.clone(), &expected.schema.types, expected.schema.root))
            }
            Patch::Merge(patch) => text_of_result(&fields_opened_by_merge_patch(patch)),
            Patch::Json(patch) => text_of_result(&fields_opened_by_json_patch(patch)),
            Patch::Apply(_) => String::new(),
        };
        let decoded = match patch {
            Patch::Strategic(_) => convert_strategic_patch(object, Some(live), expected),
            _ => decode_patched(&request.cluster.served.catalog, object, Some(live), again, expected)
                .map_err(|error| error.message(patch_or_result)),
        };
        let (decoded, field_errors) = decoded.map_err(|why| invalid(patch_or_result(), &why))?;
        let strict_errors: Vec<String> = strict_errors.iter().cloned().chain(field_errors).collect();
        report_strict_errors(&request.recorder, &strict_errors, self.options.field_validation)
            .map_err(|why| invalid(patch_or_result(), &why))?;
        Ok(decoded)
    }
}

/// A patch as audit events have it: as it was sent if it is JSON, otherwise converted to JSON. The text of a malformed
/// patch is a JSON string. Upstream records no event of a request whose patch is not JSON.
fn audited_patch(patch_type: PatchType, body: &Bytes) -> Bytes {
    if is_json(body) {
        return body.clone();
    }
    let decoded = match patch_type {
        PatchType::Apply(Encoding::Cbor) => cbor::decode(body, cbor::Limits::default()).ok(),
        PatchType::Apply(_) => yaml::decode(body).ok().map(|decoded| decoded.value),
        PatchType::Json | PatchType::Merge | PatchType::Strategic => None,
    };
    let value = decoded.unwrap_or_else(|| Value::from(String::from_utf8_lossy(body).into_owned()));
    encode::json(&value, Shape::Untyped).into()
}
