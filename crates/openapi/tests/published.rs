//! Tests that schemas of custom resources are published as upstream publishes them.

#[allow(dead_code)]
mod common;

use pintle_catalog::shared;
use pintle_registry::Registry;
use serde_json::{Value, json};

/// Returns a registry with a custom resource that has this schema.
fn registry(schema: Value) -> Registry {
    Registry::new(vec![common::widgets(serde_json::from_value(schema).expect("a schema"))])
}

/// Returns the published schemas of both documents for a field with this schema.
fn published(schema: &Value) -> [Value; 2] {
    let kind = json!({"type": "object", "properties": {"field": schema}});
    let registry = registry(kind);
    let v2: Value = serde_json::from_slice(&pintle_openapi::v2(&registry, shared())).expect("JSON");
    let v3 = pintle_openapi::v3_document(&registry, shared(), "apis/bench.example.com/v1").expect("a document");
    let v3: Value = serde_json::from_slice(&v3).expect("JSON");
    let field = |definitions: &Value| definitions["com.example.bench.v1.Widget"]["properties"]["field"].clone();
    [field(&v2["definitions"]), field(&v3["components"]["schemas"])]
}

/// Normalizes numbers with and without a fraction.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn published_schemas_match_upstream() {
    let mut schema = Value::Null;
    let mut found = Default::default();
    let mut rows = 0;
    for line in include_str!("published.txt").lines() {
        let Some((mark, text)) = line.split_once(' ').filter(|(mark, _)| matches!(*mark, "=" | "2" | "3")) else {
            continue;
        };
        let row: Value = serde_json::from_str(text).expect(line);
        match mark {
            "=" => (schema, rows, found) = (row.clone(), rows + 1, published(&row)),
            "2" => assert_eq!(plain(&found[0]), plain(&row), "v2 of {schema}"),
            _ => assert_eq!(plain(&found[1]), plain(&row), "v3 of {schema}"),
        }
    }
    assert!(rows > 40, "{rows}");
}

#[test]
fn v2_omits_schemas_that_preserve_unknown_fields() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}});
    let registry = registry(schema);
    let v2: Value = serde_json::from_slice(&pintle_openapi::v2(&registry, shared())).expect("JSON");
    let expect = json!({
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "bench.example.com", "kind": "Widget", "version": "v1"}],
        "x-kubernetes-selectable-fields": [{"fieldPath": "spec.sizes"}],
    });
    assert_eq!(v2["definitions"]["com.example.bench.v1.Widget"], expect);
}
