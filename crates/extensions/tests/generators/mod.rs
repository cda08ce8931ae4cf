//! Generators of schemas and values, valid or not.

use pintle_value::{Object, Str, Value, object};
use proptest::prelude::*;

const NAMES: &[&str] = &["a", "b", "metadata", "kind", "apiVersion", "name", ""];

const KEYWORDS: &[&str] = &[
    "type",
    "nullable",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "enum",
    "default",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxProperties",
    "uniqueItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Rules, each of which suits some schemas.
const RULES: &[&str] = &[
    "self.a > 1",
    "self.a == self.b",
    "has(self.a) && !has(self.name)",
    "self.metadata.name.size() < 5",
    "self.all(x, x != null)",
    "self.exists(x, x.a == 1)",
    "self.a.all(k, self.a[k] == k)",
    "self + self == self",
    "self.a[0] == self.a[1]",
    "self == '' || self.matches(self)",
    "self > timestamp('2020-01-01T00:00:00Z')",
    "dyn(self) == dyn(self)",
    "dyn(self).a.b == 1 || true",
    "1 / 0 == 1",
    "self",
    "(",
    "",
];

fn rule_of(rule: &Value) -> Value {
    let message = object! { "rule": rule.clone(), "messageExpression": "string(self.a)", "fieldPath": ".a" };
    if rule.as_str().is_some_and(|text| text.len() % 2 == 0) {
        message
    } else {
        object! { "rule": rule.clone() }
    }
}

fn object(keys: &'static [&'static str], values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    let entry = (prop::sample::select(keys), values);
    prop::collection::vec(entry, 0..6)
        .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>()))
        .boxed()
}

fn scalars() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![any::<i64>(), -3_i64..12].prop_map(Value::Int),
        prop_oneof![any::<f64>().prop_filter("JSON has none", |x| x.is_finite()), Just(0.5), Just(2.0)]
            .prop_map(Value::Float),
        prop_oneof!["[a-c]{0,3}", "\\PC{0,6}", Just("2020-01-01T00:00:00Z".to_owned())].prop_map(Value::from),
    ]
    .boxed()
}

pub(crate) fn values() -> BoxedStrategy<Value> {
    scalars()
        .prop_recursive(4, 40, 5, |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array), object(NAMES, inner)]
        })
        .boxed()
}

/// A keyword with a plausible value.
fn keyword(schema: BoxedStrategy<Value>) -> BoxedStrategy<(Str, Value)> {
    let list = |values: BoxedStrategy<Value>| prop::collection::vec(values, 0..3).prop_map(Value::Array).boxed();
    let text = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(Value::from).boxed();
    prop::sample::select(KEYWORDS)
        .prop_flat_map(move |keyword| {
            let value = match keyword {
                "type" => text(&["object", "array", "string", "integer", "number", "boolean", "null"]),
                "properties" => object(NAMES, schema.clone()),
                "additionalProperties" => prop_oneof![schema.clone(), any::<bool>().prop_map(Value::Bool)].boxed(),
                "items" | "not" => schema.clone(),
                "anyOf" | "oneOf" | "allOf" => list(schema.clone()),
                "required" | "x-kubernetes-list-map-keys" => list(text(NAMES)),
                "enum" => list(values()),
                "format" => text(&["date", "date-time", "int32", "float", "email", "hostname", "duration", "uri"]),
                "pattern" => text(&["^a+$", "(", "\\d", ""]),
                "x-kubernetes-list-type" => text(&["set", "map", "atomic"]),
                "x-kubernetes-validations" => list(text(RULES).prop_map(|rule| rule_of(&rule)).boxed()),
                "x-kubernetes-preserve-unknown-fields" => Just(Value::Bool(true)).boxed(),
                _ => prop_oneof![scalars(), Just(Value::Bool(true))].boxed(),
            };
            value.prop_map(move |value| (Str::from(keyword), value))
        })
        .boxed()
}

pub(crate) fn schemas() -> BoxedStrategy<Value> {
    let leaf = Just(Value::object()).boxed();
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 0..6)
            .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>()))
    })
    .boxed()
}
