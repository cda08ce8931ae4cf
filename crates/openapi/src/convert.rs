//! Converts an OpenAPI 2.0 document to OpenAPI 3.0 as kube-openapi's package `openapiconv` does, for aggregated API
//! servers that serve only the former. Upstream loses the shared parameters, among others, and so does this.

use pintle_value::{Object, Str, Value, object};

use crate::references::{DEFINITION, PARAMETER, changed_members, changed_schemas};
use crate::spec::{Spec, is_extension};

/// The start of a reference to a schema.
const SCHEMA: &str = "#/components/schemas/";

/// The methods of a path item.
const METHODS: [&str; 7] = ["delete", "get", "head", "options", "patch", "post", "put"];

/// Converts a whole document. kube-aggregator does not split it: the result is the document of `apis/GROUP/VERSION` for
/// each `APIService` of the server, whatever its paths.
#[must_use]
pub fn v3_of_v2(spec: &Spec) -> Value {
    let document = &spec.document;
    let mut components = Value::object();
    let schemas = mapped(&document["definitions"], |schema| converted_schema(schema, true));
    set_filled(&mut components, "schemas", schemas);
    set_filled(&mut components, "securitySchemes", mapped(&document["securityDefinitions"], security_scheme));
    let produces = document.items_at(&["produces"]);
    set_filled(&mut components, "responses", mapped(&document["responses"], |value| response(value, produces)));
    let mut result = object! { "openapi": "3.0.0", "info": document["info"].clone(), "components": components };
    if let Some(paths) = document.get("paths") {
        let paths = paths
            .entries_at(&[])
            .map(|(path, item)| (Str::from(path), if is_extension(path) { item.clone() } else { path_item(item) }));
        result.set("paths", Object::from_entries(paths.collect()));
    }
    copy_external_docs(&mut result, document);
    result
}

/// Copies the fields that exist.
fn copy(result: &mut Value, source: &Value, fields: &[&str]) {
    for field in fields {
        if let Some(value) = source.get(field) {
            result.set(field, value.clone());
        }
    }
}

/// The vendor extensions and these fields of a value.
fn copied(source: &Value, fields: &[&str]) -> Value {
    let extensions = source.entries_at(&[]).filter(|(key, _)| is_extension(key));
    let mut result = Value::Object(extensions.map(|(key, value)| (key, value.clone())).collect());
    copy(&mut result, source, fields);
    result
}

/// In OpenAPI 3.0, the URL is written even if it is empty.
fn copy_external_docs(result: &mut Value, source: &Value) {
    if let Some(docs) = source.get("externalDocs") {
        let mut docs = docs.clone();
        docs.set_default("url", "");
        result.set("externalDocs", docs);
    }
}

fn set_filled(result: &mut Value, field: &str, value: Value) {
    if !value.is_empty() {
        result.set(field, value);
    }
}

/// An object with the same keys and other values.
fn mapped(object: &Value, convert: impl Fn(&Value) -> Value) -> Value {
    Value::Object(object.entries_at(&[]).map(|(key, value)| (key, convert(value))).collect())
}

fn path_item(item: &Value) -> Value {
    let mut result = copied(item, &["$ref"]);
    for method in METHODS {
        if let Some(value) = item.get(method) {
            result.set(method, operation(value));
        }
    }
    let parameters: Vec<Value> = item.items_at(&["parameters"]).iter().map(parameter).collect();
    set_filled(&mut result, "parameters", Value::Array(parameters));
    result
}

fn operation(operation: &Value) -> Value {
    let mut result = copied(operation, &["description", "tags", "summary", "deprecated", "operationId"]);
    copy_external_docs(&mut result, operation);
    let (bodies, parameters): (Vec<&Value>, Vec<&Value>) = operation
        .items_at(&["parameters"])
        .iter()
        .partition(|parameter| parameter.str_at(&["name"]) == "body" && parameter.get("schema").is_some());
    if let Some(body) = bodies.last() {
        let content = content(&body["schema"], operation.items_at(&["consumes"]));
        let mut request = Value::object();
        set_filled(&mut request, "content", content);
        result.set("requestBody", request);
    }
    let parameters: Vec<Value> = parameters.into_iter().map(parameter).collect();
    set_filled(&mut result, "parameters", Value::Array(parameters));
    let produces = operation.items_at(&["produces"]);
    let responses = operation.entries_at(&["responses"]).map(|(key, value)| {
        (Str::from(key), if is_extension(key) { value.clone() } else { response(value, produces) })
    });
    result.set("responses", Object::from_entries(responses.collect()));
    result
}

/// The schema for each media type.
fn content(schema: &Value, media_types: &[Value]) -> Value {
    let converted = converted_schema(schema, true);
    let media = |name: &Value| name.as_str().map(|name| (Str::from(name), object! { "schema": converted.clone() }));
    Value::Object(Object::from_entries(media_types.iter().filter_map(media).collect()))
}

fn response(response: &Value, produces: &[Value]) -> Value {
    let mut result = copied(response, &["description"]);
    set_reference(&mut result, response, "#/responses/", "#/components/responses/");
    if let Some(schema) = response.get("schema") {
        set_filled(&mut result, "content", content(schema, produces));
    }
    result
}

fn parameter(parameter: &Value) -> Value {
    let mut result = copied(parameter, &["name", "description", "in", "required", "allowEmptyValue"]);
    set_reference(&mut result, parameter, PARAMETER, "#/components/parameters/");
    let schema = match parameter.get("schema") {
        Some(schema) => converted_schema(schema, true),
        None => {
            let mut schema = object! { "type": parameter.str_at(&["type"]) };
            copy(&mut schema, parameter, &["format", "uniqueItems"]);
            schema
        }
    };
    result.set("schema", schema);
    result
}

fn set_reference(result: &mut Value, source: &Value, start: &str, new_start: &str) {
    if let Some(reference) = source.get("$ref").and_then(Value::as_str) {
        result.set("$ref", reference.replacen(start, new_start, 1));
    }
}

fn security_scheme(scheme: &Value) -> Value {
    if scheme.is_null() {
        return Value::Null;
    }
    let mut result = copied(scheme, &["description", "type", "name", "in"]);
    let kind = scheme.str_at(&["flow"]);
    if !kind.is_empty() {
        let mut flow = Value::object();
        copy(&mut flow, scheme, &["authorizationUrl", "tokenUrl", "scopes"]);
        result.set_at(&["flows", kind], flow);
    }
    result
}

fn converted_schema(schema: &Value, converts: bool) -> Value {
    changed_schema(schema, converts).unwrap_or_else(|| schema.clone())
}

/// Converts a schema. Returns `None` if it needs no change. Upstream does not convert the references of schemas in fields
/// that the Kubernetes API does not have, e.g. `allOf`. In these schemas `converts` is false.
fn changed_schema(schema: &Value, converts: bool) -> Option<Value> {
    let changed = changed_members(schema, |key, value| match key {
        "$ref" if converts => converted_reference(value.as_str()?).map(Value::String),
        "properties" | "items" | "additionalProperties" | "additionalItems" => {
            changed_schemas(key, value, |schema| changed_schema(schema, converts))
        }
        key => changed_schemas(key, value, |schema| changed_schema(schema, false)),
    });
    let current = changed.as_ref().unwrap_or(schema);
    // In OpenAPI 3.0, a reference has no siblings.
    let has_siblings = current.as_object().is_some_and(|object| object.len() > 1);
    let Some(reference) = current.get("$ref").filter(|_| has_siblings).cloned() else { return changed };
    let mut wrapped = current.clone();
    wrapped.remove("$ref");
    wrapped.set("allOf", vec![object! { "$ref": reference }]);
    Some(wrapped)
}

fn converted_reference(reference: &str) -> Option<Str> {
    let (_, name) = reference.split_once(DEFINITION)?;
    Some(Str::from(format!("{SCHEMA}{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(document: Value) -> Value {
        v3_of_v2(&Spec::decode(document).expect("a valid document"))
    }

    #[test]
    fn references_have_no_siblings() {
        let reference = |name: &str| object! { "$ref": format!("#/definitions/{name}") };
        let with_siblings = |name: &str| object! { "$ref": format!("#/definitions/{name}"), "description": "text" };
        let document = object! {
            "definitions": object! {
                "A": object! {
                    "properties": object! { "a": reference("A"), "b": with_siblings("A") },
                    "not": with_siblings("A"),
                },
            },
        };
        let wrapped = |reference: &str| object! { "allOf": vec![object! { "$ref": reference }], "description": "text" };
        let schema = object! {
            "properties": object! {
                "a": object! { "$ref": "#/components/schemas/A" },
                "b": wrapped("#/components/schemas/A"),
            },
            "not": wrapped("#/definitions/A"),
        };
        let expect = object! {
            "openapi": "3.0.0",
            "info": Value::Null,
            "components": object! { "schemas": object! { "A": schema } },
        };
        assert_eq!(converted(document), expect);
    }

    #[test]
    fn bodies_become_request_bodies() {
        let parameters = vec![
            object! { "name": "body", "in": "body", "schema": object! { "$ref": "#/definitions/A" } },
            object! { "name": "dryRun", "in": "query", "type": "string", "uniqueItems": true },
        ];
        // Upstream panics without responses.
        let operation = object! { "consumes": vec!["a/b"], "produces": vec!["c/d"], "parameters": parameters };
        let document = object! { "paths": object! { "/": object! { "post": operation } } };
        let query = object! {
            "name": "dryRun",
            "in": "query",
            "schema": object! { "type": "string", "uniqueItems": true },
        };
        let media = object! { "schema": object! { "$ref": "#/components/schemas/A" } };
        let expect = object! {
            "parameters": vec![query],
            "requestBody": object! { "content": object! { "a/b": media } },
            "responses": object! {},
        };
        assert_eq!(converted(document)["paths"]["/"]["post"], expect);
    }
}
