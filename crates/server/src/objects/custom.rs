//! Custom resources, whose objects are unstructured. The schema of the CRD prunes and validates them (upstream:
//! apiextensions' `customresource_handler.go`).

use pintle_cache::Object;
use pintle_codec::json;
use pintle_registry::{ApiError, GroupVersion, Resource, Subresource, Verb};
use pintle_schema::{Problems, Schema};
use pintle_value::Value;
use pintle_value::print::quote;

use super::decode::{DecodeError, ExpectedKind, KindScheme, TypeCheck};
use super::encode::Shape;
use super::{ObjectModel, Routing, decode_cbor, verb_names};
use crate::request::negotiate::EndpointRestrictions;

/// The order of verbs in discovery (upstream: hard-coded in `crdHandler`).
const VERBS: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];
/// The verbs of a resource whose CRD is terminating.
const TERMINATING_VERBS: [Verb; 5] = [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Watch];

/// The model of custom resources.
pub(super) struct Custom;

impl ObjectModel for Custom {
    fn routing(&self) -> Routing {
        Routing::Handler
    }

    fn endpoint(&self, endpoint: EndpointRestrictions) -> EndpointRestrictions {
        EndpointRestrictions { has_protobuf: false, has_router: false, ..endpoint }
    }

    fn shape<'s>(&self, _: &'s Schema) -> Shape<'s> {
        Shape::Untyped
    }

    fn has_strategic_merge_patch(&self) -> bool {
        false
    }

    fn normalise(&self, _: &Schema, resource: Option<&Resource>, value: &mut Value, _: Option<&Value>) -> Problems {
        let mut problems = Problems::default();
        // `check_type` has refused values of other types.
        if value.as_object().and_then(|object| object.get("apiVersion")).is_some_and(Value::is_null) {
            problems.errors.push(".apiVersion accessor error: <nil> is of the type <nil>, expected string".to_owned());
            return problems;
        }
        match resource.map(|resource| resource.strategy.prune_unknown_fields(value)) {
            Some(Ok(unknown)) => problems.unknown = unknown,
            Some(Err(error)) => problems.errors.push(error),
            None => {}
        }
        problems
    }

    /// The schema may differ from the schema at the write, and a webhook may have converted the object.
    fn keeps_normal_form(&self) -> bool {
        false
    }

    /// The strategy sets the defaults.
    fn set_schema_defaults(&self, _: &Schema, _: &mut Value, _: Option<&Value>) {}

    fn convert_patched(&self, _: &Schema, _: &mut Value, _: Option<&Value>) -> Result<(), String> {
        Ok(())
    }

    /// Upstream treats every unstructured object as a list.
    fn not_a_list_error(&self, _: &Resource) -> ApiError {
        ApiError::Unclassified("content is not a list".to_owned())
    }

    fn decode_merged(&self, mut value: Value, _: &Value, expected: &ExpectedKind<'_>) -> Result<Value, String> {
        if let Some(resource) = expected.resource {
            resource.strategy.decode_merged(&mut value)?;
        }
        Ok(value)
    }

    fn requires_type(&self) -> bool {
        true
    }

    /// A body with another kind fails in validation, not here.
    fn check_type(
        &self,
        value: &Value,
        _: &ExpectedKind<'_>,
        (_, api_version): (&str, &str),
        _: TypeCheck<'_>,
    ) -> Result<(), DecodeError> {
        if GroupVersion::parse(api_version).is_none() {
            return Err(DecodeError::unexpected_group_version(api_version));
        }
        // Unlike the earlier check, an unstructured object finds its fields by their exact names.
        if value.kind().is_empty() { Err(DecodeError::MissingKind) } else { Ok(()) }
    }

    fn check_version(&self, value: &Value, expected: &ExpectedKind<'_>) -> Result<(), DecodeError> {
        let version = GroupVersion::parse(value.api_version()).unwrap_or_default();
        if version == expected.group_version {
            return Ok(());
        }
        Err(DecodeError::VersionMismatch(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            expected.group_version
        )))
    }

    fn strict_json(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        value: Value,
        found: Problems,
    ) -> Result<(Value, Vec<String>), DecodeError> {
        if let Some(error) = found.errors.into_iter().next() {
            return Err(expected.undecodable_value(&value, error));
        }
        let duplicates = json::decode(body, json::DecodeOptions { duplicates: true, ..json::DecodeOptions::default() })
            .map(|d| d.duplicates)
            .unwrap_or_default();
        let duplicates = duplicates.iter().map(|path| format!("duplicate field {}", quote(path)));
        let unknown = found.unknown.iter().map(|path| format!("unknown field \"{path}\""));
        Ok((value, duplicates.chain(unknown).collect()))
    }

    fn decode_cbor(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        check: TypeCheck<'_>,
    ) -> Result<(Value, Vec<String>), DecodeError> {
        Ok((decode_cbor::decode_custom(body, expected, check)?, Vec::new()))
    }

    fn item_offset(&self, _: &Object) -> Option<u32> {
        None
    }

    fn strip_item_type(&self, _: &mut Value) {}

    fn has_metadata_first(&self) -> bool {
        false
    }

    fn go_type(&self, resource: &Resource) -> String {
        format!("{}, Kind={}", resource.group_version(), resource.kind)
    }

    fn go_list_type(&self, _: &Resource) -> String {
        "*unstructured.UnstructuredList".to_owned()
    }

    fn discovery_verbs(&self, resource: &Resource) -> Vec<&'static str> {
        verb_names(resource, if resource.terminating { &TERMINATING_VERBS } else { &VERBS })
    }

    fn discovery_subresources<'r>(&self, resource: &'r Resource) -> Vec<&'r Subresource> {
        resource.subresources.iter().collect()
    }

    fn checks_scale_uid(&self) -> bool {
        false
    }

    fn scale_scheme(&self) -> &'static KindScheme {
        &KindScheme::CUSTOM_SCALE
    }

    fn validates_finalizers(&self, _: &Resource) -> bool {
        false
    }
}
