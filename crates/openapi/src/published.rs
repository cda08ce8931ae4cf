//! Builds the published schemas of custom resources (upstream: apiextensions' `controller/openapi/builder` and
//! `controller/openapi/v2`). Removes keywords that the version of OpenAPI cannot express, and adds the object fields.

use pintle_value::{Object, Str, Value, object};

use crate::schemas::Dialect;

/// The keywords that describe the value itself, in the order in which they are published. False, empty and null values
/// are omitted.
const KEYWORDS: &[&str] = &[
    "description",
    "title",
    "externalDocs",
    "format",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    PRESERVE_UNKNOWN_FIELDS,
    EMBEDDED_RESOURCE,
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED_RESOURCE: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The keywords with schemas that the value must satisfy, too.
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The descriptions of `apiVersion` and `kind` in embedded resources.
const EMBEDDED_DESCRIPTIONS: [(&str, &str); 2] = [
    (
        "apiVersion",
        "apiVersion defines the versioned schema of this representation of an object. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    ),
    (
        "kind",
        "kind is a string value representing the type of this object. In CamelCase. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    ),
];

/// Publishes schemas.
pub(crate) struct Publisher {
    pub(crate) dialect: Dialect,
    /// The schema of `metadata`.
    pub(crate) metadata: Value,
}

impl Publisher {
    /// Returns the schema of a kind without the object fields. Returns `None` if unknown fields are allowed. If v2
    /// published any fields of such a kind, kubectl would reject all others.
    pub(crate) fn object(&self, schema: &Value) -> Option<Value> {
        if self.dialect == Dialect::V2 && schema.bool_at(&[PRESERVE_UNKNOWN_FIELDS]) {
            return None;
        }
        Some(self.schema(schema))
    }

    fn schema(&self, schema: &Value) -> Value {
        let is_set = |keyword| schema.bool_at(&[keyword]);
        let (v2, nullable) = (self.dialect == Dialect::V2, is_set("nullable"));
        // v2 cannot express nullable values, or objects with both known and unknown fields.
        let is_open = v2 && (nullable || is_set(PRESERVE_UNKNOWN_FIELDS));
        let mut published = Object::new();
        let ty = schema.str_at(&["type"]);
        let untyped = v2
            && (nullable
                || match ty {
                    "array" => is_open || schema.get("items").is_none(),
                    "object" => is_set(PRESERVE_UNKNOWN_FIELDS),
                    _ => false,
                });
        if !ty.is_empty() && !untyped {
            published.insert("type", ty);
        }
        copy_keywords(schema, &mut published);
        if !v2 {
            let nullable = nullable.then_some(Value::Bool(true));
            let default = schema.get("default").filter(|default| !default.is_null()).cloned();
            for (keyword, value) in [("nullable", nullable), ("default", default)] {
                if let Some(value) = value {
                    published.insert(keyword, value);
                }
            }
            copy_junctors(schema, &mut published);
        }
        if let Some(required_properties) = required_properties(schema, is_open || !v2, v2) {
            published.insert("required", required_properties);
        }
        if !is_open {
            if let Some(items) = schema.get("items") {
                published.insert("items", self.schema(items));
            }
            self.properties(schema, &mut published);
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| !values.is_null()) {
            let values = if values.as_bool().is_some() { values.clone() } else { self.schema(values) };
            published.insert("additionalProperties", values);
        }
        let mut published = Value::Object(published);
        if is_set(EMBEDDED_RESOURCE) && !(v2 && is_set(PRESERVE_UNKNOWN_FIELDS)) {
            self.add_object_fields(&mut published);
        }
        published
    }

    fn properties(&self, schema: &Value, published: &mut Object) {
        let properties: Object = schema
            .entries_at(&["properties"])
            .map(|(name, property)| (Str::from(name), self.schema(property)))
            .collect();
        if !properties.is_empty() {
            published.insert("properties", Value::Object(properties));
        }
    }

    /// Adds the object fields to the schema of an embedded resource.
    fn add_object_fields(&self, published: &mut Value) {
        for (name, text) in EMBEDDED_DESCRIPTIONS {
            published.set_at(&["properties", name], object! { "description": text, "type": "string" });
        }
        published.set_at(&["properties", "metadata"], self.metadata.clone());
        let mut required_properties = published.items_at(&["required"]).to_vec();
        for name in ["kind", "apiVersion"] {
            if !required_properties.iter().any(|known| known.as_str() == Some(name)) {
                required_properties.push(name.into());
            }
        }
        published.set("required", required_properties);
    }
}

/// Copies the keywords that describe the value itself.
fn copy_keywords(schema: &Value, published: &mut Object) {
    for keyword in KEYWORDS {
        if let Some(value) = schema.get(keyword).filter(|value| !is_empty(value)) {
            published.insert(Str::const_new(keyword), value.clone());
        }
    }
    if let Some(example) = schema.get("example").filter(|example| !example.is_null()) {
        published.insert("example", example.clone());
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns the required properties. In v2, nullable properties are not required, because their schemas are omitted.
fn required_properties(schema: &Value, all: bool, v2: bool) -> Option<Value> {
    let values_may_be_null = || schema.bool_at(&["additionalProperties", "nullable"]);
    if v2 && values_may_be_null() {
        return None;
    }
    let needed = |name: &&Value| {
        let name = name.as_str().unwrap_or_default();
        all || !schema.bool_at(&["properties", name, "nullable"])
    };
    let required_properties: Vec<Value> = schema.items_at(&["required"]).iter().filter(needed).cloned().collect();
    (!required_properties.is_empty()).then_some(Value::Array(required_properties))
}

/// Copies the junctors. Expands `x-kubernetes-int-or-string` to `anyOf` unless the schema does so itself.
fn copy_junctors(schema: &Value, published: &mut Object) {
    let number_or_string = || ["integer", "string"].map(|ty| object! { "type": ty }).to_vec();
    let branches = |keyword| schema.items_at(&[keyword]).iter().map(publish_below_junctor).collect::<Vec<Value>>();
    let [mut all, mut any, one] = JUNCTORS.map(branches);
    let spelled_out = |schema: &Value| schema.items_at(&["anyOf"]) == number_or_string();
    let says_so = || spelled_out(schema) || schema.items_at(&["allOf"]).first().is_some_and(spelled_out);
    if schema.bool_at(&[INT_OR_STRING]) && !says_so() {
        if any.is_empty() {
            any = number_or_string();
        } else {
            all.insert(0, object! { "anyOf": number_or_string() });
        }
    }
    for (keyword, branches) in JUNCTORS.into_iter().zip([all, any, one]) {
        if !branches.is_empty() {
            published.insert(Str::const_new(keyword), branches);
        }
    }
    if let Some(not) = schema.get("not").filter(|not| !not.is_null()) {
        published.insert("not", publish_below_junctor(not));
    }
}

/// Returns a published schema below a junctor.
fn publish_below_junctor(schema: &Value) -> Value {
    let mut published = Object::new();
    let ty = schema.str_at(&["type"]);
    if !ty.is_empty() {
        published.insert("type", ty);
    }
    copy_keywords(schema, &mut published);
    copy_junctors(schema, &mut published);
    if let Some(required_properties) = required_properties(schema, true, false) {
        published.insert("required", required_properties);
    }
    if let Some(items) = schema.get("items") {
        published.insert("items", publish_below_junctor(items));
    }
    let properties: Object = schema
        .entries_at(&["properties"])
        .map(|(name, property)| (Str::from(name), publish_below_junctor(property)))
        .collect();
    if !properties.is_empty() {
        published.insert("properties", Value::Object(properties));
    }
    Value::Object(published)
}
