//! CBOR as it is served behind its feature gate (KEP-4222): bodies, answers, lists, watches, applies and errors, of built-in
//! and of custom kinds; and that without the gate nobody knows of it.

mod refused;
mod served;
mod watches;

use pintle_codec::cbor::{self, Limits};
use pintle_codec::json;
use pintle_gates::Gates;
use pintle_testkit::{Cluster, Options, RequestBuilder, Response};
use pintle_value::Value;

const CBOR: &str = "application/cbor";
const SEQUENCE: &str = "application/cbor-seq";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

const WIDGET: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "weight": {"type": "number"}, "name": {"type": "string"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}"#;

/// A cluster with the gate open, and widgets.
async fn cluster() -> Cluster {
    cluster_with(Options::default()).await
}

async fn cluster_with(options: Options) -> Cluster {
    let settings = [("CBORServingAndStorage".to_owned(), true)];
    let (gates, _) = Gates::with(&settings.into()).expect("a gate that can be set");
    let cluster = Cluster::with_options(Options { gates, ..options }).await;
    let _ = cluster.post(CRDS, WIDGET).await.expect(201);
    let mut watch = cluster.watch(&format!("{CRDS}?watch=true&fieldSelector=metadata.name=widgets.example.com")).await;
    loop {
        let event = watch.next().await.expect("the definition is established");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return cluster;
        }
    }
}

/// JSON as a tree.
fn tree(text: &str) -> Value {
    json::decode(text.as_bytes(), json::Options::default()).expect(text).value
}

/// JSON as CBOR.
fn cbor(text: &str) -> Vec<u8> {
    cbor::encode(&tree(text))
}

/// CBOR as a tree.
fn read(bytes: &[u8]) -> Value {
    assert!(bytes.starts_with(&cbor::SELF_DESCRIBED), "{}", cbor::diagnostic(bytes));
    cbor::decode(bytes, Limits::default()).expect("CBOR")
}

/// An answer in CBOR.
fn body(answer: &Response) -> Value {
    assert_eq!(answer.header("content-type"), CBOR, "{}", answer.text());
    read(&answer.body)
}

/// Asks in CBOR, for CBOR.
fn ask<'a>(cluster: &'a Cluster, method: &str, path: &str, text: &str) -> RequestBuilder<'a> {
    cluster.request(method, path).header("accept", CBOR).body(CBOR, cbor(text))
}
