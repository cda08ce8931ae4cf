//! Builds the OpenAPI 2.0 (Swagger) document of the whole API like upstream's `builder`. Parameters that many
//! operations share are published once and referenced. kubectl falls back to this document, and older clients only know
//! this document.

use std::collections::HashMap;

use pintle_catalog::{Catalog, descriptions};
use pintle_registry::Registry;
use pintle_schema::base64;
use pintle_value::{Object, Str, Value, object};

use crate::kinds::{DocumentScope, KindsOfTypes};
use crate::operation::{Model, PathItem, Route, by_path, response_description};
use crate::parameters::{Parameter, ParameterLocation};
use crate::routes::RouteBuilder;
use crate::schemas::{Definitions, Dialect};
use crate::{info, kind_value, protobuf};

/// Returns the document as JSON.
#[must_use]
pub fn v2(registry: &Registry, catalog: &Catalog) -> Vec<u8> {
    crate::json(&v2_document(registry, catalog))
}

/// Returns the document as Protobuf with the messages of gnostic (`openapi.v2.Document`), which client-go requests.
#[must_use]
pub fn v2_protobuf(registry: &Registry, catalog: &Catalog) -> Vec<u8> {
    protobuf::document(&v2_document(registry, catalog))
}

/// Returns the document as a tree, into which others can be merged ([`crate::merge_v2`]).
#[must_use]
pub fn v2_document(registry: &Registry, catalog: &Catalog) -> Value {
    let texts = descriptions(catalog.minor());
    let routes = RouteBuilder::new(catalog, &texts).all(registry);
    let mut builder = SwaggerBuilder {
        schemas: Definitions::new(Dialect::V2, catalog, &texts, KindsOfTypes::new(catalog, DocumentScope::All)),
        parameters: Vec::new(),
        parameter_names: HashMap::new(),
    };
    let paths: Object = by_path(&routes).iter().map(|item| (item.path, builder.path_item(item))).collect();
    object! {
        "swagger": "2.0",
        "info": info(catalog),
        "paths": paths,
        "definitions": builder.schemas.finish(),
        "parameters": Object::from_entries(builder.parameters),
        "security": Value::Array(vec![object! { "BearerToken": Value::Array(Vec::new()) }]),
        "securityDefinitions": crate::security(),
    }
}

struct SwaggerBuilder<'a> {
    schemas: Definitions<'a>,
    /// The shared parameters.
    parameters: Vec<(Str, Value)>,
    /// The names of the shared parameters by their JSON.
    parameter_names: HashMap<Vec<u8>, Str>,
}

impl SwaggerBuilder<'_> {
    fn path_item(&mut self, item: &PathItem<'_>) -> Value {
        let mut result = Value::object();
        if !item.shared.is_empty() {
            result.set("parameters", item.shared.iter().map(|p| self.parameter(p)).collect::<Vec<_>>());
        }
        for route in &item.routes {
            result.set(route.method, self.operation(item, route));
        }
        result
    }

    fn operation<'r>(&mut self, item: &PathItem<'r>, route: &'r Route) -> Value {
        let mut parameters: Vec<Value> = Vec::new();
        // The body has the name `body` and is sorted with the other parameters.
        let mut body = route.body.as_ref().map(|body| self.body(&body.model, body.required));
        for own in item.own(route) {
            if own.name.as_ref() > "body" {
                parameters.extend(body.take());
            }
            parameters.push(self.parameter(own));
        }
        parameters.extend(body);
        let mut responses: Vec<(Str, Value)> = Vec::new();
        for (code, model) in &route.responses {
            let response = object! { "description": response_description(*code), "schema": self.schemas.model(model) };
            responses.push((code.to_string().into(), response));
        }
        responses.push(("401".into(), object! { "description": response_description(401) }));
        let mut result = object! {
            "description": &route.description,
            "produces": route.produces.to_vec(),
            "schemes": vec!["https"],
            "tags": vec![route.tag.as_str()],
            "operationId": &route.id,
            "responses": Object::from_entries(responses),
        };
        if !route.consumes.is_empty() {
            result.set("consumes", route.consumes.to_vec());
        }
        if !parameters.is_empty() {
            result.set("parameters", parameters);
        }
        if let Some(action) = route.action {
            result.set("x-kubernetes-action", action);
        }
        if let Some(kind) = &route.kind {
            result.set("x-kubernetes-group-version-kind", kind_value(kind));
        }
        result
    }

    fn parameter(&mut self, parameter: &Parameter) -> Value {
        let mut result = object! {
            "name": parameter.name.as_ref(),
            "in": parameter.location.name(),
            "type": parameter.ty,
            "uniqueItems": true,
        };
        if !parameter.description.is_empty() {
            result.set("description", &parameter.description);
        }
        if parameter.location == ParameterLocation::Path {
            result.set("required", true);
        }
        // The description of `name` differs between kinds, and old versions of kubectl expect the other two in the
        // operations.
        match parameter.name.as_ref() {
            "name" | "fieldValidation" | "dryRun" => result,
            name => self.share_parameter(name, result),
        }
    }

    fn body(&mut self, model: &Model, required: bool) -> Value {
        let mut result = object! { "name": "body", "in": "body", "schema": self.schemas.model(model) };
        if required {
            result.set("required", true);
        }
        let general = result.str_at(&["schema", "$ref"]).starts_with("#/definitions/io.k8s.apimachinery");
        if general { self.share_parameter("body", result) } else { result }
    }

    /// Publishes a parameter once and returns a reference to it. Its key consists of its name and a hash of its
    /// content.
    fn share_parameter(&mut self, name: &str, parameter: Value) -> Value {
        let text = crate::json(&parameter);
        let known = match self.parameter_names.get(&text) {
            Some(known) => known.clone(),
            None => {
                let mut result = Str::from(format!("{name}-{}", short_hash(&text)));
                while self.parameters.iter().any(|(known, _)| *known == result) {
                    result.push('_');
                }
                self.parameter_names.insert(text, result.clone());
                self.parameters.push((result.clone(), parameter));
                result
            }
        };
        object! { "$ref": format!("#/parameters/{known}") }
    }
}

/// Returns the first six bytes of the FNV-1 hash in URL-safe base64.
fn short_hash(text: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte);
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325, step);
    base64::encode(&hash.to_be_bytes()[..6]).replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes() {
        // The FNV-1 hash of the empty string is the offset basis. The second hash is a published test vector
        // (0xaf63bd4c8601b7be).
        let expect = |bytes: [u8; 6]| base64::encode(&bytes).replace('/', "_");
        assert_eq!(short_hash(b""), expect([0xcb, 0xf2, 0x9c, 0xe4, 0x84, 0x22]));
        assert_eq!(short_hash(b"a"), expect([0xaf, 0x63, 0xbd, 0x4c, 0x86, 0x01]));
    }
}
