//! Objects as trees and bytes: decoding of bodies, encoding of responses, and the two models that kinds follow. Built-in
//! kinds behave as Go structs, custom resources as unstructured objects with a schema. [`model`] is the only place that asks
//! which one a resource follows.

mod built_in;
mod custom;
pub(crate) mod decode;
mod decode_cbor;
pub(crate) mod encode;

use pintle_cache::Object;
use pintle_registry::{Resource, Subresource, Verb};
use pintle_schema::{Problems, Schema};
use pintle_value::Value;

use self::decode::{DecodeError, ExpectedKind, TypeCheck};
use self::encode::Shape;
use crate::request::negotiate::Endpoint;

pub(crate) use built_in::BuiltIn;

/// Who decides which operation a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// A router with a route for each verb (upstream: go-restful).
    Routes,
    /// One handler for all requests (upstream: `customresource_handler.go`).
    Handler,
}

/// How the objects of a resource are decoded, encoded and described.
pub(crate) trait ObjectModel: Send + Sync {
    /// Who decides which operation a request asks for.
    fn routing(&self) -> Routing;

    /// The encodings of an endpoint that serves such objects.
    fn endpoint(&self, endpoint: Endpoint) -> Endpoint;

    /// What orders and numbers the fields of an object.
    fn shape<'s>(&self, schema: &'s Schema) -> Shape<'s>;

    /// True if strategic merge patches are accepted.
    fn has_strategic_merge_patch(&self) -> bool;

    /// Brings a tree into the form in which the kind writes it: a Go struct is decoded and encoded, an unstructured object is
    /// pruned. `resource` is `None` for kinds that are no resource (`Scale`).
    fn normalise(&self, schema: &Schema, resource: Option<&Resource>, value: &mut Value) -> Problems;

    /// Sets the defaults that the schema declares, where that is not done by the strategy.
    fn set_schema_defaults(&self, schema: &Schema, value: &mut Value);

    /// Checks and converts the result of a strategic merge patch (upstream: `runtime.DefaultUnstructuredConverter`).
    ///
    /// # Errors
    /// Upstream's message: a value does not fit its type.
    fn convert_patched(&self, schema: &Schema, value: &mut Value) -> Result<(), String>;

    /// Checks the kind and apiVersion of a body, given as `type_of`. The kind is the expected one where the body has none.
    ///
    /// # Errors
    /// The body is of another type.
    fn check_type(
        &self,
        value: &Value,
        expected: &ExpectedKind<'_>,
        type_of: (&str, &str),
        check: TypeCheck<'_>,
    ) -> Result<(), DecodeError>;

    /// Decodes a JSON body a second time, for the errors of strict decoding in upstream's order and wording. `value` is the
    /// normalised tree of the first time, `found` what was wrong with it.
    ///
    /// # Errors
    /// A value does not fit its type.
    fn strict_json(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        value: Value,
        found: Problems,
    ) -> Result<(Value, Vec<String>), DecodeError>;

    /// Decodes a CBOR body, with the errors of strict decoding.
    ///
    /// # Errors
    /// The body is malformed, or of another type.
    fn decode_cbor(
        &self,
        body: &[u8],
        expected: &ExpectedKind<'_>,
        check: TypeCheck<'_>,
    ) -> Result<(Value, Vec<String>), DecodeError>;

    /// Where in an object's stored JSON a list item starts, if items have no kind and apiVersion.
    fn item_offset(&self, object: &Object) -> Option<u32>;

    /// Removes from a list item what items do not have.
    fn strip_item_type(&self, item: &mut Value);

    /// True if stored JSON has `metadata` in a fixed place, so that it can be copied without parsing the object.
    fn has_metadata_first(&self) -> bool;

    /// The Go type of the objects, as upstream's messages name it.
    fn go_type(&self, resource: &Resource) -> String;

    /// The Go type of a list of the objects, as upstream's messages name it.
    fn go_list_type(&self, resource: &Resource) -> String;

    /// The verbs of a resource, in discovery's order.
    fn discovery_verbs(&self, resource: &Resource) -> Vec<&'static str>;

    /// The subresources of a resource, in discovery's order.
    fn discovery_subresources<'r>(&self, resource: &'r Resource) -> Vec<&'r Subresource>;

    /// True if finalizers have to be qualified names (upstream: `pkg/apis/core/validation`).
    fn validates_finalizers(&self, resource: &Resource) -> bool;
}

/// The model that a resource follows.
pub(crate) fn model(resource: &Resource) -> &'static dyn ObjectModel {
    if resource.built_in { &BuiltIn } else { &custom::Custom }
}

/// The names of all verbs that a resource has, in an order.
fn verb_names(resource: &Resource, order: &[Verb]) -> Vec<&'static str> {
    order.iter().filter(|verb| resource.verbs.has(**verb)).map(|verb| verb.name()).collect()
}
