//! Decoding of request bodies, encoding of responses, and the two object models. Built-in kinds behave like Go structs,
//! custom resources like unstructured objects with a schema. Only [`model`] decides which model a resource has.

mod built_in;
mod custom;
pub(crate) mod decode;
mod decode_cbor;
pub(crate) mod encode;

use pintle_cache::Object;
use pintle_registry::{ApiError, Resource, Subresource, Verb};
use pintle_schema::{Problems, Schema};
use pintle_value::Value;

use self::decode::{DecodeError, ExpectedKind, KindScheme, TypeCheck};
use self::encode::Shape;
use crate::request::negotiate::EndpointRestrictions;

pub(crate) use built_in::BuiltIn;

/// Upstream's way of dispatching requests for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// A router with a route for each verb (upstream: go-restful).
    Routes,
    /// One handler for all requests (upstream: `customresource_handler.go`).
    Handler,
}

/// The rules for decoding, encoding and describing the objects of a resource.
pub(crate) trait ObjectModel: Send + Sync {
    /// Upstream's way of dispatching requests for such resources.
    fn routing(&self) -> Routing;

    /// The encodings that an endpoint for such objects supports.
    fn endpoint(&self, endpoint: EndpointRestrictions) -> EndpointRestrictions;

    /// Determines the order and numbers of an object's fields.
    fn shape<'s>(&self, schema: &'s Schema) -> Shape<'s>;

    /// True if strategic merge patches are accepted.
    fn has_strategic_merge_patch(&self) -> bool;

    /// Brings a tree into the form in which the kind is encoded. A Go struct is decoded and encoded; an unstructured
    /// object is pruned. `resource` is `None` for kinds without a resource (`Scale`). `normal` is the object, already
    /// in this form, from a copy of which the tree was made.
    fn normalise(
        &self,
        schema: &Schema,
        resource: Option<&Resource>,
        value: &mut Value,
        normal: Option<&Value>,
    ) -> Problems;

    /// True if every object that is read already has the form of [`Self::normalise`].
    fn keeps_normal_form(&self) -> bool;

    /// Sets the defaults that the schema declares, unless the strategy sets them. `live` is the object, with its
    /// defaults, from a copy of which the tree was made.
    fn set_schema_defaults(&self, schema: &Schema, value: &mut Value, live: Option<&Value>);

    /// Checks and converts the result of a strategic merge patch (upstream: `runtime.DefaultUnstructuredConverter`). If
    /// it patched an object in normal form, `normal` is that object.
    ///
    /// # Errors
    /// Returns upstream's message if a value does not match its type.
    fn convert_patched(&self, schema: &Schema, value: &mut Value, normal: Option<&Value>) -> Result<(), String>;

    /// Brings an object that an apply has merged into `live` into the form in which the kind is encoded.
    ///
    /// # Errors
    /// Returns upstream's message if a value does not match its type.
    fn decode_merged(&self, value: Value, live: &Value, expected: &ExpectedKind<'_>) -> Result<Value, String>;

    /// True if an object must have a kind and apiVersion of its own. Otherwise a missing kind or apiVersion defaults to
    /// the expected value.
    fn requires_type(&self) -> bool;

    /// Checks the kind and apiVersion of a body before it is decoded. `type_of` contains them; a missing value is
    /// empty.
    ///
    /// # Errors
    /// Returns an error if a body of this type cannot be decoded as the expected kind.
    fn check_type(
        &self,
        value: &Value,
        expected: &ExpectedKind<'_>,
        type_of: (&str, &str),
        check: TypeCheck<'_>,
    ) -> Result<(), DecodeError>;

    /// Checks the apiVersion of a decoded body (upstream: `AcceptsGroupVersion`).
    ///
    /// # Errors
    /// Returns an error if the body does not have the expected apiVersion.
    fn check_version(&self, value: &Value, expected: &ExpectedKind<'_>) -> Result<(), DecodeError>;

    /// Decodes a JSON body a second time, for strict decoding errors with upstream's order and wording. `value` is the
    /// normalised tree of the first pass, `found` its problems.
    ///
    /// # Errors
    /// Returns an error if a value does not match its type.
    fn strict_json(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        value: Value,
        found: Problems,
    ) -> Result<(Value, Vec<String>), DecodeError>;

    /// Decodes a CBOR body. The second value holds the errors of strict decoding.
    ///
    /// # Errors
    /// Returns an error if the body is malformed or has another type.
    fn decode_cbor(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        check: TypeCheck<'_>,
    ) -> Result<(Value, Vec<String>), DecodeError>;

    /// The offset in an object's stored JSON where a list item starts, if items have no kind and apiVersion.
    fn item_offset(&self, object: &Object) -> Option<u32>;

    /// Removes the fields of an object that list items do not have.
    fn strip_item_type(&self, item: &mut Value);

    /// True if stored JSON has `metadata` at a known offset, so that it can be copied without decoding the object.
    fn has_metadata_first(&self) -> bool;

    /// The Go type of the objects in upstream's messages.
    fn go_type(&self, resource: &Resource) -> String;

    /// The error for `PartialObjectMetadataList` as the format of a single object.
    fn not_a_list_error(&self, resource: &Resource) -> ApiError;

    /// The Go type of a list of the objects in upstream's messages.
    fn go_list_type(&self, resource: &Resource) -> String;

    /// The verbs of a resource in discovery's order.
    fn discovery_verbs(&self, resource: &Resource) -> Vec<&'static str>;

    /// The subresources of a resource in discovery's order.
    fn discovery_subresources<'r>(&self, resource: &'r Resource) -> Vec<&'r Subresource>;

    /// True if a scale whose uid differs from the object's uid is a conflict. A PUT always has the uid as a
    /// precondition.
    fn checks_scale_uid(&self) -> bool;

    /// The scheme that decodes the scales of the objects.
    fn scale_scheme(&self) -> &'static KindScheme;

    /// True if finalizers must be qualified names (upstream: `pkg/apis/core/validation`).
    fn validates_finalizers(&self, resource: &Resource) -> bool;
}

/// Returns the model of a resource.
pub(crate) fn model(resource: &Resource) -> &'static dyn ObjectModel {
    if resource.built_in { &BuiltIn } else { &custom::Custom }
}

/// Returns the names of a resource's verbs in the given order.
fn verb_names(resource: &Resource, order: &[Verb]) -> Vec<&'static str> {
    order.iter().filter(|verb| resource.verbs.has(**verb)).map(|verb| verb.name()).collect()
}
