//! Custom resources whose versions have different schemas, converted by a webhook or with the strategy `None`.

mod lists;
mod managed_fields;
mod storage_version;
mod timeouts;
mod verbs;
mod webhook;
mod webhook_responses;

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, Watch};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};
use webhook::{ConversionWebhook, WebhookBehavior};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// The path of the widgets at a version.
fn widgets_path(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

/// The path of a widget at a version.
fn widget_path(version: &str, name: &str) -> String {
    format!("{}/{name}", widgets_path(version))
}

/// The CRD of widgets with this storage version. The field `colour` of v1 is `hue` in v2, and the defaults of `size`
/// differ.
fn crd(stored: &str, conversion: &Value) -> Value {
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

/// The `spec.conversion` of a webhook.
fn webhook_conversion(client: &Value) -> Value {
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
}

/// The webhook's conversion: it renames `colour` to `hue` or back, and sets the label `made` to the desired version.
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
fn widget_v1(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"colour": colour}})
}

/// A widget of version v2.
fn widget_v2(name: &str, hue: &str) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}, "spec": {"hue": hue}})
}

/// Defines widgets, and waits until they are served.
async fn define(cluster: &Cluster, crd: &Value) {
    let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
    let path = format!("{CRDS}?watch=1&resourceVersion=0");
    let mut watch: Watch = cluster.watch(&path).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return;
        }
    }
}

/// Starts a cluster that serves widgets with the storage version v1, and their conversion webhook.
async fn cluster_with_webhook() -> (Cluster, ConversionWebhook) {
    cluster_of_version_with_webhook(Minor::DEFAULT).await
}

/// Like [`cluster_with_webhook`], of a version of Kubernetes.
async fn cluster_of_version_with_webhook(minor: Minor) -> (Cluster, ConversionWebhook) {
    let gates = Gates::of(EffectiveVersion::of(minor));
    let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
    let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
    define(&cluster, &crd("v1", &webhook_conversion(&webhook.client_config()))).await;
    (cluster, webhook)
}
