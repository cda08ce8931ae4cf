//! Prints schemas in error messages as Go prints upstream's internal structs, which have no JSON names (upstream:
//! `pkg/apis/apiextensions/types_jsonschema.go`).

use pintle_value::Value;

use crate::go_json::{GoType, internal, ordered};

/// A keyword of a schema: upstream's field name, the JSON name, and how its value prints.
type Keyword = (&'static str, &'static str, GoType);

const FALSE: GoType = GoType::Plain("false");
const ANY: GoType = GoType::Custom(any);
const SCHEMAS: GoType = GoType::List(&SCHEMA);
const SCHEMA_MAP: GoType = GoType::Custom(schema_map);
const SCHEMA_OR_BOOL: GoType = GoType::Custom(schema_or_bool);

/// The keywords, in the order of upstream's fields.
static KEYWORDS: [Keyword; 43] = [
    ("ID", "id", GoType::STRING),
    ("Schema", "$schema", GoType::STRING),
    ("Ref", "$ref", GoType::NULLABLE),
    ("Description", "description", GoType::STRING),
    ("Type", "type", GoType::STRING),
    ("Nullable", "nullable", FALSE),
    ("Format", "format", GoType::STRING),
    ("Title", "title", GoType::STRING),
    ("Default", "default", ANY),
    ("Maximum", "maximum", GoType::NULLABLE),
    ("ExclusiveMaximum", "exclusiveMaximum", FALSE),
    ("Minimum", "minimum", GoType::NULLABLE),
    ("ExclusiveMinimum", "exclusiveMinimum", FALSE),
    ("MaxLength", "maxLength", GoType::NULLABLE),
    ("MinLength", "minLength", GoType::NULLABLE),
    ("Pattern", "pattern", GoType::STRING),
    ("MaxItems", "maxItems", GoType::NULLABLE),
    ("MinItems", "minItems", GoType::NULLABLE),
    ("UniqueItems", "uniqueItems", FALSE),
    ("MultipleOf", "multipleOf", GoType::NULLABLE),
    ("Enum", "enum", ANY),
    ("MaxProperties", "maxProperties", GoType::NULLABLE),
    ("MinProperties", "minProperties", GoType::NULLABLE),
    ("Required", "required", GoType::NULLABLE),
    ("Items", "items", ITEMS),
    ("AllOf", "allOf", SCHEMAS),
    ("OneOf", "oneOf", SCHEMAS),
    ("AnyOf", "anyOf", SCHEMAS),
    ("Not", "not", GoType::Pointer(&SCHEMA)),
    ("Properties", "properties", SCHEMA_MAP),
    ("AdditionalProperties", "additionalProperties", SCHEMA_OR_BOOL),
    ("PatternProperties", "patternProperties", SCHEMA_MAP),
    ("Dependencies", "dependencies", GoType::Custom(dependencies)),
    ("AdditionalItems", "additionalItems", SCHEMA_OR_BOOL),
    ("Definitions", "definitions", SCHEMA_MAP),
    ("ExternalDocs", "externalDocs", GoType::Pointer(&DOCS)),
    ("Example", "example", ANY),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", GoType::NULLABLE),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", FALSE),
    ("XIntOrString", "x-kubernetes-int-or-string", FALSE),
    ("XListMapKeys", "x-kubernetes-list-map-keys", GoType::NULLABLE),
    ("XListType", "x-kubernetes-list-type", GoType::NULLABLE),
    ("XMapType", "x-kubernetes-map-type", GoType::NULLABLE),
];

/// A schema.
pub(crate) const SCHEMA: GoType = GoType::Custom(schema);

/// The value of `items`: a schema or a list of schemas.
pub(super) const ITEMS: GoType = GoType::Custom(items);

const DOCS: GoType = GoType::Of("apiextensions/v1.ExternalDocumentation");

const RULES: GoType = GoType::List(&RULE);

/// A validation rule.
pub(super) const RULE: GoType = GoType::Of("apiextensions/v1.ValidationRule");

fn schema(value: Option<&Value>) -> String {
    let mut text = String::from("{");
    for (go, name, shape) in &KEYWORDS {
        text.push_str(&format!("\"{go}\":{},", internal(value.and_then(|v| v.get(name)), shape)));
    }
    let rules = value.and_then(|v| v.get("x-kubernetes-validations"));
    text.push_str(&format!("\"XValidations\":{}}}", internal(rules, &RULES)));
    text
}

/// Prints an arbitrary JSON value.
fn any(value: Option<&Value>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| ordered(value, &[]))
}

/// Prints the entries of a map, each with `print`.
fn map(value: Option<&Value>, print: impl Fn(&Value) -> String) -> String {
    let Some(value) = value else { return "null".to_owned() };
    let entries = value.entries_at(&[]).map(|(key, value)| format!("{}:{}", any(Some(&key.into())), print(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

fn schema_map(value: Option<&Value>) -> String {
    map(value, |value| schema(Some(value)))
}

/// Prints a pointer to a schema.
fn single(value: &Value) -> String {
    value.as_object().map_or_else(|| "null".to_owned(), |_| schema(Some(value)))
}

fn items(value: Option<&Value>) -> String {
    let Some(value) = value else { return "null".to_owned() };
    let list = value.as_array().map(|_| value);
    format!("{{\"Schema\":{},\"JSONSchemas\":{}}}", single(value), internal(list, &SCHEMAS))
}

fn schema_or_bool(value: Option<&Value>) -> String {
    let Some(value) = value else { return "null".to_owned() };
    let allows = value.as_bool() != Some(false);
    format!("{{\"Allows\":{allows},\"Schema\":{}}}", single(value))
}

fn dependencies(value: Option<&Value>) -> String {
    map(value, |value| {
        let texts = value.as_array().map(|_| value);
        format!("{{\"Schema\":{},\"Property\":{}}}", single(value), any(texts))
    })
}

/// Returns the upstream name and the JSON name of all keywords, in the order of upstream's fields.
pub(super) fn keywords() -> impl Iterator<Item = (&'static str, &'static str)> {
    let last = ("XValidations", "x-kubernetes-validations");
    KEYWORDS.iter().map(|(go, name, _)| (*go, *name)).chain([last])
}
