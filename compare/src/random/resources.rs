//! The resources of random sequences: some built-in kinds, and custom resources of random definitions.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::random::bodies::{config_map, custom_object, deployment, lease};
use crate::random::{one_in, pick, random_metadata};
use crate::sequence::Request;

/// What a sequence is about.
pub(crate) struct Resource {
    /// For the name of the sequence.
    pub(crate) name: &'static str,
    pub(crate) api_version: String,
    pub(crate) kind: &'static str,
    /// The path of the collection.
    pub(crate) collection: String,
    pub(crate) is_namespaced: bool,
    pub(crate) is_custom: bool,
    /// The subresources with the object's own kind.
    pub(crate) subresources: &'static [&'static str],
    pub(crate) field_selectors: &'static [&'static str],
    /// Requests that come first.
    pub(crate) prepare: Vec<Request>,
    /// Makes the members beside the metadata.
    content: fn(&mut Rng) -> Value,
}

impl Resource {
    /// The path of an object or of a subresource.
    pub(crate) fn path(&self, rng: &mut Rng, name: &str) -> String {
        let subresource = if one_in(rng, 6) && !self.subresources.is_empty() {
            format!("/{}", pick(rng, self.subresources))
        } else {
            String::new()
        };
        format!("{}/{name}{subresource}", self.collection)
    }

    /// An object for a create or an update.
    pub(crate) fn object(&self, rng: &mut Rng, name: Option<&str>) -> Value {
        let mut object = self.content(rng);
        object["metadata"] = random_metadata(rng, self, name);
        self.set_type(rng, &mut object);
        object
    }

    /// An object for server-side apply.
    pub(crate) fn applied(&self, rng: &mut Rng, name: &str) -> Value {
        let mut object = self.object(rng, Some(name));
        if let Some(members) = object.as_object_mut() {
            members.insert("apiVersion".to_owned(), self.api_version.clone().into());
            members.insert("kind".to_owned(), self.kind.into());
        }
        object
    }

    /// The members beside metadata and type.
    pub(crate) fn content(&self, rng: &mut Rng) -> Value {
        (self.content)(rng)
    }

    /// Sets apiVersion and kind: rarely wrong, and sometimes left out where that is allowed.
    fn set_type(&self, rng: &mut Rng, object: &mut Value) {
        let (api_version, kind) = match rng.usize(..40) {
            0 => (Some("v9"), Some(self.kind)),
            1 => (Some(self.api_version.as_str()), Some("Other")),
            2 => (None, Some(self.kind)),
            3 => (Some(self.api_version.as_str()), None),
            4 => (None, None),
            5 => (Some(""), Some("")),
            _ => (Some(self.api_version.as_str()), Some(self.kind)),
        };
        if let Some(api_version) = api_version {
            object["apiVersion"] = api_version.into();
        }
        if let Some(kind) = kind {
            object["kind"] = kind.into();
        }
    }
}

/// Chooses what a sequence is about.
pub(crate) fn choose_resource(rng: &mut Rng) -> Resource {
    match rng.usize(..10) {
        0 | 1 => built_in("configmaps", "v1", "ConfigMap", "/api/v1", config_map),
        2 => built_in("leases", "coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1", lease),
        3 => Resource {
            subresources: &["status"],
            ..built_in("deployments", "apps/v1", "Deployment", "/apis/apps/v1", deployment)
        },
        _ => custom(rng),
    }
}

fn built_in(
    name: &'static str,
    api_version: &str,
    kind: &'static str,
    root: &str,
    content: fn(&mut Rng) -> Value,
) -> Resource {
    Resource {
        name,
        api_version: api_version.to_owned(),
        kind,
        collection: format!("{root}/namespaces/{{ns}}/{name}"),
        is_namespaced: true,
        is_custom: false,
        subresources: &[],
        field_selectors: &[],
        prepare: Vec::new(),
        content,
    }
}

/// A custom resource of a definition with random features.
fn custom(rng: &mut Rng) -> Resource {
    let is_namespaced = !one_in(rng, 4);
    let definition = definition(rng, is_namespaced);
    let has_status = definition["spec"]["versions"][0]["subresources"].get("status").is_some();
    let has_scale = definition["spec"]["versions"][0]["subresources"].get("scale").is_some();
    let is_selectable = definition["spec"]["versions"][0].get("selectableFields").is_some();
    let create = Request::new("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let version = if one_in(rng, 4) { "v2" } else { "v1" };
    let root = format!("/apis/{{group}}/{version}");
    Resource {
        name: "custom",
        api_version: format!("{{group}}/{version}"),
        kind: "Foo",
        collection: if is_namespaced { format!("{root}/namespaces/{{ns}}/foos") } else { format!("{root}/foos") },
        is_namespaced,
        is_custom: true,
        subresources: match (has_status, has_scale) {
            (true, true) => &["status", "status", "scale"],
            (true, false) => &["status"],
            (false, true) => &["scale"],
            (false, false) => &[],
        },
        field_selectors: if is_selectable { &["spec.text=x", "spec.text!=x", "spec.number=1"] } else { &[] },
        prepare: vec![create.json(definition.to_string())],
        content: custom_object,
    }
}

fn definition(rng: &mut Rng, is_namespaced: bool) -> Value {
    let mut versions = Vec::new();
    for name in ["v1", "v2"] {
        let mut version = json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema(rng)}
        });
        if rng.bool() || (name == "v2" && versions.first().is_some_and(|v: &Value| v.get("subresources").is_some())) {
            version["subresources"] = json!({"status": {}});
            if rng.bool() {
                version["subresources"]["scale"] = json!({
                    "specReplicasPath": ".spec.number", "statusReplicasPath": ".status.number", "labelSelectorPath": ".status.text"
                });
            }
        }
        if rng.bool() {
            version["additionalPrinterColumns"] = json!([
                {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
                {"name": "Number", "type": "integer", "jsonPath": ".spec.number", "priority": rng.u8(..2)},
                {"name": "List", "type": "string", "jsonPath": ".spec.list"},
                {"name": "Any", "type": pick(rng, &["string", "boolean", "number", "date"]), "jsonPath": ".spec.any", "description": "d"},
                {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
            ]);
        }
        if one_in(rng, 3) {
            version["selectableFields"] = json!([{"jsonPath": ".spec.text"}, {"jsonPath": ".spec.number"}]);
        }
        if one_in(rng, 8) {
            version["deprecated"] = true.into();
        }
        versions.push(version);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.{group}"},
        "spec": {
            "group": "{group}", "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["fo"], "categories": ["all"]},
            "versions": versions
        }
    })
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
