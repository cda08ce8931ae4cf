//! Builds the published schemas of custom resources: removes keywords that the version of OpenAPI cannot express, and
//! adds the object fields (upstream: apiextensions' `controller/openapi/builder` and `controller/openapi/v2`).

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
    PRESERVE,
    EMBEDDED,
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The keywords with schemas that the value must satisfy too.
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The descriptions of `apiVersion` and `kind` in embedded resources.
const OF_EMBEDDED: [(&str, &str); 2] = [
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
    /// Returns the schema of a kind without the object fields. Returns `None` if unknown fields are allowed: if v2
    /// published any fields, kubectl would reject all others.
    pub(crate) fn object(&self, schema: &Value) -> Option<Value> {
        if self.dialect == Dialect::V2 && schema.bool_at(&[PRESERVE]) {
            return None;
        }
        Some(self.schema(schema))
    }

    fn schema(&self, schema: &Value) -> Value {
        let says = |keyword| schema.bool_at(&[keyword]);
        let (v2, nullable) = (self.dialect == Dialect::V2, says("nullable"));
        // v2 cannot express nullable values, or objects with both known and unknown fields.
        let open = v2 && (nullable || says(PRESERVE));
        let mut made = Object::new();
        let ty = schema.str_at(&["type"]);
        let untyped = v2
            && (nullable
                || match ty {
                    "array" => open || schema.get("items").is_none(),
                    "object" => says(PRESERVE),
                    _ => false,
                });
        if !ty.is_empty() && !untyped {
            made.insert("type", ty);
        }
        said(schema, &mut made);
        if !v2 {
            let nullable = nullable.then_some(Value::Bool(true));
            let default = schema.get("default").filter(|default| !default.is_null()).cloned();
            for (keyword, value) in [("nullable", nullable), ("default", default)] {
                if let Some(value) = value {
                    made.insert(keyword, value);
                }
            }
            junctors(schema, &mut made);
        }
        if let Some(required) = required(schema, open || !v2, v2) {
            made.insert("required", required);
        }
        if !open {
            if let Some(items) = schema.get("items") {
                made.insert("items", self.schema(items));
            }
            self.properties(schema, &mut made);
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| !values.is_null()) {
            let values = if values.as_bool().is_some() { values.clone() } else { self.schema(values) };
            made.insert("additionalProperties", values);
        }
        let mut made = Value::Object(made);
        if says(EMBEDDED) && !(v2 && says(PRESERVE)) {
            self.embed(&mut made);
        }
        made
    }

    fn properties(&self, schema: &Value, made: &mut Object) {
        let properties: Object = schema
            .entries_at(&["properties"])
            .map(|(name, property)| (Str::from(name), self.schema(property)))
            .collect();
        if !properties.is_empty() {
            made.insert("properties", Value::Object(properties));
        }
    }

    /// Adds the object fields to the schema of an embedded resource.
    fn embed(&self, made: &mut Value) {
        for (name, text) in OF_EMBEDDED {
            made.set_at(&["properties", name], object! { "description": text, "type": "string" });
        }
        made.set_at(&["properties", "metadata"], self.metadata.clone());
        let mut required = made.items_at(&["required"]).to_vec();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
        made.set("required", required);
    }
}

/// Copies the keywords that describe the value itself.
fn said(schema: &Value, made: &mut Object) {
    for keyword in KEYWORDS {
        if let Some(value) = schema.get(keyword).filter(|value| !is_empty(value)) {
            made.insert(Str::const_new(keyword), value.clone());
        }
    }
    if let Some(example) = schema.get("example").filter(|example| !example.is_null()) {
        made.insert("example", example.clone());
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
fn required(schema: &Value, all: bool, v2: bool) -> Option<Value> {
    let values_may_be_null = || schema.bool_at(&["additionalProperties", "nullable"]);
    if v2 && values_may_be_null() {
        return None;
    }
    let needed = |name: &&Value| {
        let name = name.as_str().unwrap_or_default();
        all || !schema.bool_at(&["properties", name, "nullable"])
    };
    let required: Vec<Value> = schema.items_at(&["required"]).iter().filter(needed).cloned().collect();
    (!required.is_empty()).then_some(Value::Array(required))
}

/// Copies the junctors. Expands `x-kubernetes-int-or-string` to `anyOf` unless the schema does so itself.
fn junctors(schema: &Value, made: &mut Object) {
    let number_or_string = || ["integer", "string"].map(|ty| object! { "type": ty }).to_vec();
    let branches = |keyword| schema.items_at(&[keyword]).iter().map(branch).collect::<Vec<Value>>();
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
            made.insert(Str::const_new(keyword), branches);
        }
    }
    if let Some(not) = schema.get("not").filter(|not| !not.is_null()) {
        made.insert("not", branch(not));
    }
}

/// Returns a published schema below a junctor.
fn branch(schema: &Value) -> Value {
    let mut made = Object::new();
    let ty = schema.str_at(&["type"]);
    if !ty.is_empty() {
        made.insert("type", ty);
    }
    said(schema, &mut made);
    junctors(schema, &mut made);
    if let Some(required) = required(schema, true, false) {
        made.insert("required", required);
    }
    if let Some(items) = schema.get("items") {
        made.insert("items", branch(items));
    }
    let properties: Object =
        schema.entries_at(&["properties"]).map(|(name, property)| (Str::from(name), branch(property))).collect();
    if !properties.is_empty() {
        made.insert("properties", Value::Object(properties));
    }
    Value::Object(made)
}
