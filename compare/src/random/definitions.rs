//! Random CRDs, and random changes of a CRD while its objects exist.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::random::{one_in, pick};
use crate::sequence::Request;

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECT: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.{group}";

/// A CRD with the versions `v1`, which is stored, and `v2`.
pub(crate) fn definition(rng: &mut Rng, is_namespaced: bool) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.{group}"},
        "spec": {
            "group": "{group}", "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["fo"], "categories": ["all"]},
            "versions": versions(rng, &["v1", "v2"], "v1")
        }
    })
}

/// A request that creates a CRD.
pub(crate) fn create(definition: &Value) -> Request {
    Request::new("POST", COLLECTION).json(definition.to_string())
}

/// Versions with these names, and random features.
fn versions(rng: &mut Rng, names: &[&str], storage: &str) -> Value {
    let mut versions: Vec<Value> = Vec::new();
    for name in names {
        let mut version = json!({
            "name": name, "served": true, "storage": *name == storage,
            "schema": {"openAPIV3Schema": schema(rng)}
        });
        if rng.bool() || versions.first().is_some_and(|first| first.get("subresources").is_some()) {
            version["subresources"] = json!({"status": {}});
            if rng.bool() {
                version["subresources"]["scale"] = json!({
                    "specReplicasPath": ".spec.number", "statusReplicasPath": ".status.number", "labelSelectorPath": ".status.text"
                });
            }
        }
        if rng.bool() {
            version["additionalPrinterColumns"] = columns(rng);
        }
        if one_in(rng, 3) {
            version["selectableFields"] = json!([{"jsonPath": ".spec.text"}, {"jsonPath": ".spec.number"}]);
        }
        if one_in(rng, 8) {
            version["deprecated"] = true.into();
        }
        versions.push(version);
    }
    versions.into()
}

fn columns(rng: &mut Rng) -> Value {
    json!([
        {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
        {"name": "Number", "type": "integer", "jsonPath": ".spec.number", "priority": rng.u8(..2)},
        {"name": "List", "type": "string", "jsonPath": ".spec.list"},
        {"name": "Any", "type": pick(rng, &["string", "boolean", "number", "date"]), "jsonPath": ".spec.any", "description": "d"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ])
}

/// A request that changes the CRD, deletes it or creates it again. Some of these requests are invalid.
pub(crate) fn change(rng: &mut Rng, is_namespaced: bool) -> Request {
    let merge = |patch: Value| Request::new("PATCH", OBJECT).body("application/merge-patch+json", patch.to_string());
    let replace = |patch: Value| Request::new("PATCH", OBJECT).body("application/json-patch+json", patch.to_string());
    let index = rng.usize(..2);
    match rng.usize(..24) {
        // Whole versions with new schemas, columns, subresources and selectable fields. A version may be added, removed
        // or become the stored one.
        0..=7 => {
            let names: &[&str] = match rng.usize(..6) {
                0 => &["v1"],
                1 => &["v1", "v2", "v3beta1"],
                2 => &["v2", "v1"],
                3 => &["v2"],
                _ => &["v1", "v2"],
            };
            let storage = if one_in(rng, 3) { "v2" } else { "v1" };
            merge(json!({"spec": {"versions": versions(rng, names, storage)}}))
        }
        8 | 9 => {
            replace(json!([{"op": "replace", "path": format!("/spec/versions/{index}/served"), "value": rng.bool()}]))
        }
        10 | 11 => {
            let is_second = rng.bool();
            replace(json!([
                {"op": "replace", "path": "/spec/versions/0/storage", "value": !is_second},
                {"op": "replace", "path": "/spec/versions/1/storage", "value": is_second}
            ]))
        }
        12 | 13 => {
            let path = format!("/spec/versions/{index}/schema/openAPIV3Schema");
            replace(json!([{"op": "replace", "path": path, "value": schema(rng)}]))
        }
        14 => {
            let path = format!("/spec/versions/{index}/additionalPrinterColumns");
            replace(json!([{"op": "add", "path": path, "value": columns(rng)}]))
        }
        15 => {
            let member =
                pick(rng, &["subresources", "additionalPrinterColumns", "selectableFields", "deprecated", "schema"]);
            replace(json!([{"op": "remove", "path": format!("/spec/versions/{index}/{member}")}]))
        }
        // No server listens at this address.
        16 => merge(json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": [pick(rng, &["v1", "v1beta1", "v9"])], "clientConfig": {"url": "https://127.0.0.1:1/convert"}
        }}}})),
        17 => merge(json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}})),
        18 => merge(json!({"spec": {"scope": if is_namespaced == rng.bool() { "Cluster" } else { "Namespaced" }}})),
        19 => merge(json!({"spec": {"names": {
            "shortNames": [pick(rng, &["fo", "ff", "Not valid"])], "singular": pick(rng, &["foo", "foe"]),
            "listKind": pick(rng, &["FooList", "Foos"]), "categories": null
        }}})),
        20 => merge(json!({"spec": {"preserveUnknownFields": rng.bool()}})),
        21 => {
            merge(json!({"metadata": {"labels": {"a": pick(rng, &["x", "y"])}}, "status": {"storedVersions": ["v9"]}}))
        }
        22 => Request::new("PATCH", format!("{OBJECT}/status")).body(
            "application/merge-patch+json",
            json!({"status": {"storedVersions": [pick(rng, &["v1", "v2"])]}}).to_string(),
        ),
        _ if rng.bool() => Request::new("DELETE", OBJECT),
        _ => create(&definition(rng, is_namespaced)),
    }
}

/// A request whose answer depends on the CRD.
pub(crate) fn read_after_change(rng: &mut Rng, collection: &str) -> Request {
    match rng.usize(..6) {
        0 => Request::new("GET", OBJECT),
        1 => Request::new("GET", pick(rng, &["/apis/{group}/v1", "/apis/{group}/v2", "/apis/{group}"])),
        2 => Request::new("GET", collection).header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1"),
        3 => Request::new("GET", collection.replacen("/v1/", "/v2/", 1)),
        4 => Request::new("GET", collection.replacen("/v2/", "/v1/", 1)),
        _ => Request::new("GET", collection),
    }
}

/// A structural schema with random features for the members that objects have.
fn schema(rng: &mut Rng) -> Value {
    let mut spec = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "number": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "items": {"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "port": {"type": "integer"}, "value": {"type": "string"}
            }}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "intOrString": {"x-kubernetes-int-or-string": true},
            "when": {"type": "string", "format": "date-time"}
        }
    });
    let properties = &mut spec["properties"];
    if rng.bool() {
        properties["text"] = match rng.usize(..5) {
            0 => json!({"type": "string", "default": "d"}),
            1 => json!({"type": "string", "enum": ["x", "y", ""]}),
            2 => json!({"type": "string", "maxLength": 1}),
            3 => json!({"type": "string", "nullable": true}),
            _ => json!({"type": "string", "nullable": true, "default": "x"}),
        };
    }
    if rng.bool() {
        properties["number"] = match rng.usize(..4) {
            0 => json!({"type": "integer", "format": "int32", "minimum": 0}),
            1 => json!({"type": "integer", "default": 3}),
            2 => json!({"type": "number"}),
            _ => json!({"type": "integer", "nullable": true}),
        };
    }
    if rng.bool() {
        let items = &mut properties["items"];
        match rng.usize(..3) {
            0 => {
                items["x-kubernetes-list-type"] = "map".into();
                items["x-kubernetes-list-map-keys"] = json!(["name"]);
                items["items"]["required"] = json!(["name"]);
            }
            1 => {
                items["x-kubernetes-list-type"] = "map".into();
                items["x-kubernetes-list-map-keys"] = json!(["name", "port"]);
                items["items"]["required"] = json!(["name"]);
                items["items"]["properties"]["port"]["default"] = 80.into();
            }
            _ => items["x-kubernetes-list-type"] = "atomic".into(),
        }
    }
    if rng.bool() {
        properties["list"]["x-kubernetes-list-type"] = pick(rng, &["set", "atomic"]).into();
    }
    if one_in(rng, 3) {
        properties["map"]["x-kubernetes-map-type"] = "atomic".into();
    }
    if one_in(rng, 4) {
        spec["required"] = json!(["text"]);
    }
    if one_in(rng, 4) {
        spec["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if one_in(rng, 4) {
        spec["x-kubernetes-validations"] = json!([
            {"rule": "!has(self.number) || self.number < 5", "message": "number is too large"},
            {"rule": "!has(self.text) || !has(oldSelf.text) || self.text == oldSelf.text", "messageExpression": "'text was ' + oldSelf.text"}
        ]);
    }
    let status = json!({"type": "object", "properties": {
        "text": {"type": "string"}, "number": {"type": "integer"},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}
    }});
    let mut schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    if one_in(rng, 6) {
        schema["properties"]["metadata"] =
            json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}});
    }
    schema
}
