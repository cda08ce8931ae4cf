//! CBOR behind its feature gate (KEP-4222): request and response bodies, lists, watches, applies and errors, for
//! built-in kinds and custom resources. Without the gate, the server does not support CBOR.

mod errors;
mod requests;
mod watches;

use pintle_codec::cbor::{self, Limits};
use pintle_codec::json;
use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, RequestBuilder, Response};
use pintle_value::Value;

const CBOR: &str = "application/cbor";
const CBOR_SEQUENCE: &str = "application/cbor-seq";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

const WIDGET_CRD: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "weight": {"type": "number"}, "name": {"type": "string"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}"#;

/// Starts a cluster with the feature gate enabled and a CRD of widgets.
async fn cluster() -> Cluster {
    cluster_with(Options::default()).await
}

async fn cluster_with(options: Options) -> Cluster {
    let settings = [("CBORServingAndStorage".to_owned(), true)];
    let (gates, _) = Gates::with_overrides(&settings.into()).expect("settable feature gates");
    let cluster = Cluster::with_options(Options { gates, ..options }).await;
    let _ = cluster.post(CRDS, WIDGET_CRD).await.expect(201);
    // A watch does not work here, because some of these clusters keep no history.
    loop {
        let crd = cluster.get(&format!("{CRDS}/widgets.example.com")).await.expect(200).json();
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return cluster;
        }
    }
}

/// Decodes JSON.
fn decode_json(text: &str) -> Value {
    json::decode(text.as_bytes(), json::DecodeOptions::default()).expect(text).value
}

/// Converts JSON to CBOR.
fn to_cbor(text: &str) -> Vec<u8> {
    cbor::encode(&decode_json(text))
}

/// Decodes CBOR.
fn decode_cbor(bytes: &[u8]) -> Value {
    assert!(bytes.starts_with(&cbor::SELF_DESCRIBED), "{}", cbor::diagnostic(bytes));
    cbor::decode(bytes, Limits::default()).expect("CBOR")
}

/// Decodes the CBOR body of a response.
fn cbor_body(response: &Response) -> Value {
    assert_eq!(response.header("content-type"), CBOR, "{}", response.text());
    decode_cbor(&response.body)
}

/// Builds a request with a CBOR body that accepts CBOR.
fn cbor_request<'a>(cluster: &'a Cluster, method: &str, path: &str, text: &str) -> RequestBuilder<'a> {
    cluster.request(method, path).header("accept", CBOR).body(CBOR, to_cbor(text))
}
