//! Custom kinds of which each version is another shape: converted by a webhook, or by name alone.

mod answers;
mod hook;
mod lists;
mod owners;
mod stored;
mod verbs;

use hook::{Hook, Manner};
use pintle_testkit::{Cluster, Watch};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// The path of the widgets at a version.
fn widgets(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

/// The path of a widget at a version.
fn path(version: &str, name: &str) -> String {
    format!("{}/{name}", widgets(version))
}

/// The definition of widgets: what is a colour in v1 is a hue in v2, and defaults differ. Objects are stored at one of them.
fn definition(stored: &str, conversion: &Value) -> Value {
    let version = |name: &str, property: &str, size: i64| {
        let spec = json!({
            "type": "object",
            "properties": {
                property: {"type": "string", "enum": ["red", "green", "blue"]},
                "size": {"type": "integer", "default": size},
                "replicas": {"type": "integer", "default": 1},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        });
        let status = json!({"type": "object", "properties": {
            "replicas": {"type": "integer"}, (format!("{property}Seen")): {"type": "string"},
        }});
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
            "selectableFields": [{"jsonPath": format!(".spec.{property}")}],
            "additionalPrinterColumns": [{"name": property, "type": "string", "jsonPath": format!(".spec.{property}")}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", "colour", 1), version("v2", "hue", 2)],
            "conversion": conversion,
        },
    })
}

/// Conversion by a webhook.
fn webhook(client: &Value) -> Value {
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
}

/// What the webhook of widgets knows: colours are hues. It says in a label which version it made.
fn convert(mut object: Value, desired: &str) -> Value {
    let to_v2 = desired == "example.com/v2";
    for (part, old, new) in [("spec", "colour", "hue"), ("status", "colourSeen", "hueSeen")] {
        let (from, to) = if to_v2 { (old, new) } else { (new, old) };
        if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut)
            && let Some(value) = part.remove(from)
        {
            part.insert(to.to_owned(), value);
        }
    }
    object["apiVersion"] = json!(desired);
    object["metadata"]["labels"]["made"] = json!(desired.rsplit('/').next());
    object
}

/// A widget of version v1.
fn v1(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"colour": colour}})
}

/// A widget of version v2.
fn v2(name: &str, hue: &str) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}, "spec": {"hue": hue}})
}

/// Defines widgets, and waits until they are served.
async fn define(cluster: &Cluster, definition: &Value) {
    let _ = cluster.post(DEFINITIONS, definition.to_string()).await.expect(201);
    let path = format!("{DEFINITIONS}?watch=1&resourceVersion=0");
    let mut watch: Watch = cluster.watch(&path).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return;
        }
    }
}

/// A cluster of widgets that are stored at v1, and their webhook.
async fn serving() -> (Cluster, Hook) {
    let cluster = Cluster::start().await;
    let hook = Hook::start(Manner::Converts(convert)).await;
    define(&cluster, &definition("v1", &webhook(&hook.by_url()))).await;
    (cluster, hook)
}
