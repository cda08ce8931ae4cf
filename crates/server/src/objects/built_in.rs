//! Built-in kinds, whose objects behave like Go structs. They are decoded into declared fields and encoded in
//! declaration order. List items have no kind and apiVersion.

use pintle_cache::Object;
use pintle_codec::json;
use pintle_patch::from_unstructured;
use pintle_registry::{ApiError, GroupVersion, Resource, Subresource, Verb};
use pintle_schema::{Problems, Schema, normalise_changed, static_defaults_of_changed};
use pintle_value::Value;

use super::decode::{DecodeError, ExpectedKind, KindScheme, TypeCheck, convert_strategic_patch, internal_package};
use super::encode::Shape;
use super::{ObjectModel, Routing, decode_cbor, verb_names};
use crate::request::negotiate::EndpointRestrictions;

/// Groups whose validation does not go through `pkg/apis/core/validation`.
const WITHOUT_CORE_VALIDATION: [&str; 4] =
    ["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io"];

/// The model of built-in kinds.
pub(crate) struct BuiltIn;

impl ObjectModel for BuiltIn {
    fn routing(&self) -> Routing {
        Routing::Routes
    }

    fn endpoint(&self, endpoint: EndpointRestrictions) -> EndpointRestrictions {
        EndpointRestrictions { has_protobuf: true, has_router: true, ..endpoint }
    }

    fn shape<'s>(&self, schema: &'s Schema) -> Shape<'s> {
        Shape::Typed(&schema.types, schema.root)
    }

    fn has_strategic_merge_patch(&self) -> bool {
        true
    }

    fn normalise(&self, schema: &Schema, _: Option<&Resource>, value: &mut Value, normal: Option<&Value>) -> Problems {
        let mut problems = Problems::default();
        normalise_changed(&schema.types, schema.root, value, normal, &mut problems);
        problems
    }

    fn keeps_normal_form(&self) -> bool {
        true
    }

    fn set_schema_defaults(&self, schema: &Schema, value: &mut Value, live: Option<&Value>) {
        static_defaults_of_changed(&schema.types, schema.root, value, live);
    }

    fn convert_patched(&self, schema: &Schema, value: &mut Value, normal: Option<&Value>) -> Result<(), String> {
        from_unstructured(value, normal, &schema.types, schema.root)
    }

    fn not_a_list_error(&self, resource: &Resource) -> ApiError {
        ApiError::NotAcceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
            self.go_type(resource)
        ))
    }

    fn decode_merged(&self, value: Value, live: &Value, expected: &ExpectedKind<'_>) -> Result<Value, String> {
        let GroupVersion { group, version } = &expected.group_version;
        convert_strategic_patch(value, Some(live), expected).map(|(value, _)| value).map_err(|why| {
            format!("unable to convert unstructured object to {group}/{version}, Kind={}: {why}", expected.kind)
        })
    }

    fn requires_type(&self) -> bool {
        false
    }

    fn check_type(
        &self,
        _: &Value,
        expected: &ExpectedKind<'_>,
        (kind, api_version): (&str, &str),
        check: TypeCheck<'_>,
    ) -> Result<(), DecodeError> {
        let kind = if kind.is_empty() { expected.kind } else { kind };
        if api_version.is_empty() {
            return check(&expected.group_version, kind);
        }
        match GroupVersion::parse(api_version) {
            Some(group_version) => check(&group_version, kind),
            None => Err(DecodeError::unexpected_group_version(api_version)),
        }
    }

    /// `check_type` has already checked the version.
    fn check_version(&self, _: &Value, _: &ExpectedKind<'_>) -> Result<(), DecodeError> {
        Ok(())
    }

    fn strict_json(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        mut value: Value,
        found: Problems,
    ) -> Result<(Value, Vec<String>), DecodeError> {
        let Schema { types, root } = expected.schema;
        let mut strict =
            json::decode_strict(body, types, *root).map_err(|error| expected.undecodable(error.to_string()))?;
        if let Some(error) = strict.error.take().or(found.errors.into_iter().next()) {
            return Err(expected.undecodable(error));
        }
        let errors = std::mem::take(&mut strict.strict_errors);
        strict.correct_tree(&mut value);
        expected.normalise(&mut value, None);
        Ok((value, errors))
    }

    fn decode_cbor(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        check: TypeCheck<'_>,
    ) -> Result<(Value, Vec<String>), DecodeError> {
        decode_cbor::decode_built_in(body, expected, check)
    }

    fn item_offset(&self, object: &Object) -> Option<u32> {
        Some(object.index.item_offset)
    }

    fn strip_item_type(&self, item: &mut Value) {
        item.remove("kind");
        item.remove("apiVersion");
    }

    fn has_metadata_first(&self) -> bool {
        true
    }

    fn go_type(&self, resource: &Resource) -> String {
        format!("*{}.{}", internal_package(&resource.group), resource.kind)
    }

    fn go_list_type(&self, resource: &Resource) -> String {
        format!("*{}.{}", internal_package(&resource.group), resource.list_kind)
    }

    fn discovery_verbs(&self, resource: &Resource) -> Vec<&'static str> {
        verb_names(resource, &Verb::ALL)
    }

    fn discovery_subresources<'r>(&self, resource: &'r Resource) -> Vec<&'r Subresource> {
        let mut subresources: Vec<&Subresource> = resource.subresources.iter().collect();
        subresources.sort_by(|a, b| a.name.cmp(&b.name));
        subresources
    }

    fn checks_scale_uid(&self) -> bool {
        true
    }

    fn scale_scheme(&self) -> &'static KindScheme {
        &KindScheme::LEGACY
    }

    fn validates_finalizers(&self, resource: &Resource) -> bool {
        !WITHOUT_CORE_VALIDATION.contains(&resource.group.as_str())
    }
}
