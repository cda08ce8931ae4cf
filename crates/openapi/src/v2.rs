//! Builds the OpenAPI 2.0 (Swagger) document of the whole API like upstream's `builder`. Parameters that many
//! operations share are published once and referenced. kubectl falls back to this document, and older clients only know
//! this one.

use std::collections::HashMap;

use pintle_catalog::{Catalog, descriptions};
use pintle_registry::Registry;
use pintle_schema::base64;
use pintle_value::{Object, Str, Value, object};

use crate::kinds::{About, KindsOfTypes};
use crate::operation::{Model, PathItem, Route, answer_text, by_path};
use crate::parameters::{Parameter, Place};
use crate::routes::Shared;
use crate::schemas::{Definitions, Dialect};
use crate::{TITLE, VERSION, kind_value, protobuf};

/// Returns the document as JSON.
#[must_use]
pub fn v2(registry: &Registry, catalog: &Catalog) -> Vec<u8> {
    crate::json(&document(registry, catalog))
}

/// Returns the document as Protobuf with the messages of gnostic (`openapi.v2.Document`), which client-go requests.
#[must_use]
pub fn v2_protobuf(registry: &Registry, catalog: &Catalog) -> Vec<u8> {
    protobuf::document(&document(registry, catalog))
}

fn document(registry: &Registry, catalog: &Catalog) -> Value {
    let texts = descriptions();
    let routes = Shared::new(catalog, &texts).all(registry);
    let mut writer = Writer {
        schemas: Definitions::new(Dialect::V2, catalog, &texts, KindsOfTypes::new(catalog, About::All)),
        parameters: Vec::new(),
        named: HashMap::new(),
    };
    let paths: Object = by_path(&routes).iter().map(|item| (item.path, writer.path_item(item))).collect();
    object! {
        "swagger": "2.0",
        "info": object! { "title": TITLE, "version": VERSION },
        "paths": paths,
        "definitions": writer.schemas.finish(),
        "parameters": Object::from_entries(writer.parameters),
        "security": Value::Array(vec![object! { "BearerToken": Value::Array(Vec::new()) }]),
        "securityDefinitions": crate::security(),
    }
}

struct Writer<'a> {
    schemas: Definitions<'a>,
    /// The shared parameters.
    parameters: Vec<(Str, Value)>,
    /// The names of the shared parameters by their JSON.
    named: HashMap<Vec<u8>, Str>,
}

impl Writer<'_> {
    fn path_item(&mut self, item: &PathItem<'_>) -> Value {
        let mut made = Value::object();
        if !item.shared.is_empty() {
            made.set("parameters", item.shared.iter().map(|p| self.parameter(p)).collect::<Vec<_>>());
        }
        for route in &item.routes {
            made.set(route.method, self.operation(item, route));
        }
        made
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
        for (code, model) in &route.answers {
            let answer = object! { "description": answer_text(*code), "schema": self.schemas.model(model) };
            responses.push((code.to_string().into(), answer));
        }
        responses.push(("401".into(), object! { "description": answer_text(401) }));
        let mut made = object! {
            "description": &route.description,
            "consumes": route.consumes.to_vec(),
            "produces": route.produces.to_vec(),
            "schemes": vec!["https"],
            "tags": vec![route.tag.as_str()],
            "operationId": &route.id,
            "responses": Object::from_entries(responses),
        };
        if !parameters.is_empty() {
            made.set("parameters", parameters);
        }
        if let Some(action) = route.action {
            made.set("x-kubernetes-action", action);
        }
        if let Some(kind) = &route.kind {
            made.set("x-kubernetes-group-version-kind", kind_value(kind));
        }
        made
    }

    fn parameter(&mut self, parameter: &Parameter) -> Value {
        let mut made = object! {
            "name": parameter.name.as_ref(),
            "in": parameter.place.name(),
            "type": parameter.ty,
            "uniqueItems": true,
        };
        if !parameter.description.is_empty() {
            made.set("description", &parameter.description);
        }
        if parameter.place == Place::Path {
            made.set("required", true);
        }
        // The description of `name` differs between kinds, and old versions of kubectl expect the other two in the
        // operations.
        match parameter.name.as_ref() {
            "name" | "fieldValidation" | "dryRun" => made,
            name => self.once(name, made),
        }
    }

    fn body(&mut self, model: &Model, required: bool) -> Value {
        let mut made = object! { "name": "body", "in": "body", "schema": self.schemas.model(model) };
        if required {
            made.set("required", true);
        }
        let general = made.str_at(&["schema", "$ref"]).starts_with("#/definitions/io.k8s.apimachinery");
        if general { self.once("body", made) } else { made }
    }

    /// Publishes a parameter once and returns a reference to it. Its key consists of its name and a hash of its
    /// content.
    fn once(&mut self, name: &str, parameter: Value) -> Value {
        let text = crate::json(&parameter);
        let known = match self.named.get(&text) {
            Some(known) => known.clone(),
            None => {
                let mut made = Str::from(format!("{name}-{}", short_hash(&text)));
                while self.parameters.iter().any(|(known, _)| *known == made) {
                    made.push('_');
                }
                self.named.insert(text, made.clone());
                self.parameters.push((made.clone(), parameter));
                made
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
        // The FNV-1 hash of the empty string is the offset basis. The second is a published test vector
        // (0xaf63bd4c8601b7be).
        let expect = |bytes: [u8; 6]| base64::encode(&bytes).replace('/', "_");
        assert_eq!(short_hash(b""), expect([0xcb, 0xf2, 0x9c, 0xe4, 0x84, 0x22]));
        assert_eq!(short_hash(b"a"), expect([0xaf, 0x63, 0xbd, 0x4c, 0x86, 0x01]));
    }
}
