//! Kinds that users define: from the definition to its objects, and to the end of both.

mod definitions;
mod discovery;

mod objects;
mod refusals;
mod rules;
mod selectable;
mod tables;

use pintle_testkit::{Cluster, Watch};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The definition of widgets: a status and a scale, a default, columns, and two versions.
fn widgets() -> Value {
    let schema = json!({"openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "colour": {"type": "string", "enum": ["red", "green"]},
                    "replicas": {"type": "integer", "default": 1, "minimum": 0},
                    "parts": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                        },
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                },
            },
            "status": {
                "type": "object",
                "properties": {"replicas": {"type": "integer"}, "ready": {"type": "boolean"}},
            },
        },
    }});
    let subresources = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    let columns = json!([
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
    ]);
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema, "subresources": subresources,
            "additionalPrinterColumns": columns,
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    })
}

/// A widget.
fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Waits until a definition has a condition, and returns the definition.
async fn until(cluster: &Cluster, name: &str, condition: &str, status: &str) -> Value {
    let path = format!("{DEFINITIONS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}");
    let mut watch: Watch = cluster.watch(&path).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == condition && c["status"] == status) {
            return event["object"].clone();
        }
    }
}

/// A cluster that serves widgets.
async fn serving(cluster: Cluster) -> Cluster {
    let _ = cluster.post(DEFINITIONS, widgets().to_string()).await.expect(201);
    until(&cluster, "widgets.example.com", "Established", "True").await;
    cluster
}
