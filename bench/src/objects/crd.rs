//! CRDs of typical size, and custom objects of their kinds.

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The collection path of CRDs.
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The number of CRDs in one API group.
const PER_GROUP: u64 = 10;

/// The description of every field. Most of a CRD's size is descriptions.
const TEXT: &str =
    "A sentence of ordinary length that says what this field is for, and what happens when it is not set.";

/// The API group of the n-th CRD.
pub(crate) fn group(number: u64) -> String {
    format!("g{}.bench.example.com", number / PER_GROUP)
}

/// The path of the n-th CRD.
pub(crate) fn crd_path(number: u64) -> String {
    format!("{CRDS}/things{number}.{}", group(number))
}

/// The collection path of custom objects of the n-th CRD.
pub(crate) fn custom_objects_path(number: u64, namespace: &str) -> String {
    format!("/apis/{}/v1/namespaces/{namespace}/things{number}", group(number))
}

/// The n-th CRD, of about 30 KB. It has a status, printer columns, lists with map keys, and `rules` CEL validation
/// rules.
pub(crate) fn crd(number: u64, rules: usize) -> Value {
    let rule = |at: usize| {
        json!({
            "rule": format!("!has(self.count1) || self.count1 <= {} || self.name4.size() > 0", 1_000 + at),
            "message": format!("count1 may be more than {} with a name only", 1_000 + at),
        })
    };
    let mut spec = json!({"type": "object", "description": TEXT, "properties": fields(20, 2)});
    if rules > 0 {
        spec["x-kubernetes-validations"] = (0..rules).map(rule).collect();
    }
    let status = json!({"type": "object", "properties": fields(12, 1)});
    let schema = json!({"type": "object", "description": TEXT, "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{number}.{}", group(number))},
        "spec": {
            "group": group(number),
            "scope": "Namespaced",
            "names": {"plural": format!("things{number}"), "kind": format!("Thing{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [{"name": "Name", "type": "string", "jsonPath": ".spec.name4"}],
            }],
        },
    })
}

/// Generates `count` fields of different types, with nested objects up to `depth`.
fn fields(count: usize, depth: usize) -> Value {
    let field = |at: usize| match at % 5 {
        0 if depth > 0 => {
            let group = json!({"type": "object", "description": TEXT, "properties": fields(6, depth - 1)});
            (format!("group{at}"), group)
        }
        1 => (format!("count{at}"), json!({"type": "integer", "format": "int32", "minimum": 0, "description": TEXT})),
        2 => {
            let item = json!({
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string", "description": TEXT}, "value": {"type": "string"}},
            });
            let items = json!({
                "type": "array", "description": TEXT, "items": item, "maxItems": 50,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            });
            (format!("items{at}"), items)
        }
        3 => (format!("flag{at}"), json!({"type": "boolean", "default": false, "description": TEXT})),
        _ => (format!("name{at}"), json!({"type": "string", "maxLength": 63, "description": TEXT})),
    };
    Value::Object((0..count).map(field).collect::<Map<_, _>>())
}

/// A custom object of the n-th CRD's kind, of about 1 KiB.
pub(crate) fn custom_object(number: u64, name: &str, count: u64) -> Bytes {
    let items: Value = (0..8).map(|at| json!({"name": format!("item-{at}"), "value": "0123456789abcdef"})).collect();
    let spec = json!({
        "count1": count % 1_000, "name4": "a-name-of-ordinary-length", "flag3": true, "items2": items, "items7": items,
        "group0": {"count1": 7, "name4": "inner", "items2": items},
    });
    let kind = format!("Thing{number}");
    let api_version = format!("{}/v1", group(number));
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    object.to_string().into()
}
