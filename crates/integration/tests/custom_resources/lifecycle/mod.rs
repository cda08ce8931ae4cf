//! CRDs and custom resources, from the creation of a CRD to its deletion.

mod crds;
mod discovery;
mod errors;
mod object_types;
mod objects;
mod selectable_fields;
mod tables;
mod validation_rules;
mod versions;

use pintle_integration::{Cluster, Watch};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The CRD of widgets, with two versions, the subresources status and scale, a default and printer columns.
fn widget_crd() -> Value {
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

/// Waits until a CRD has a condition, and returns the CRD.
async fn wait_for_condition(cluster: &Cluster, name: &str, condition: &str, status: &str) -> Value {
    let path = format!("{CRDS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}");
    let mut watch: Watch = cluster.watch(&path).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == condition && c["status"] == status) {
            return event["object"].clone();
        }
    }
}

/// Creates the CRD of widgets, and waits until they are served.
async fn start_with_widgets(cluster: Cluster) -> Cluster {
    let _ = cluster.post(CRDS, widget_crd().to_string()).await.expect(201);
    wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
    cluster
}
