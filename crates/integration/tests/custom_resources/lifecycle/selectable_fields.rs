//! Field selectors for the `selectableFields` of CRDs.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{CRDS, wait_for_condition};

const MARBLES: &str = "/apis/example.com/v1/namespaces/default/marbles";
const BETA: &str = "/apis/example.com/v1beta1/namespaces/default/marbles";
const MERGE: &str = "merge";

/// The CRD of marbles, with these selectable fields of v1 and one selectable field of v1beta1. Upstream requires
/// different schemas for versions with different selectable fields, so the descriptions differ.
fn marble_crd(v1: &[&str]) -> Value {
    let version = |name: &str, storage: bool, paths: &[&str]| {
        let fields: Vec<Value> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
        let properties = json!({"spec": {"type": "object", "description": name, "properties": {
            "color": {"type": "string"}, "size": {"type": "integer"}, "on": {"type": "boolean"},
        }}});
        json!({
            "name": name, "served": true, "storage": storage, "selectableFields": fields,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "marbles.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "marbles", "kind": "Marble"},
            "versions": [version("v1", true, v1), version("v1beta1", false, &[".spec.size"])],
        },
    })
}

const SELECTABLE_FIELDS: [&str; 3] = [".spec.color", ".spec.size", ".spec.on"];

/// Creates three marbles: a is blue, b is red and has a size, c has an empty spec.
async fn create_marbles(cluster: Cluster) -> Cluster {
    let _ = cluster.post(CRDS, marble_crd(&SELECTABLE_FIELDS).to_string()).await.expect(201);
    wait_for_condition(&cluster, "marbles.example.com", "Established", "True").await;
    for (name, spec) in [
        ("a", json!({"color": "blue", "on": true})),
        ("b", json!({"color": "red", "size": 5, "on": false})),
        ("c", json!({})),
    ] {
        let marble =
            json!({"apiVersion": "example.com/v1", "kind": "Marble", "metadata": {"name": name}, "spec": spec});
        let _ = cluster.post(MARBLES, marble.to_string()).await.expect(201);
    }
    cluster
}

/// Lists with a field selector, and compares the names.
async fn check(cluster: &Cluster, path: &str, selector: &str, expect: &str) {
    let list = cluster.get(&format!("{path}?fieldSelector={selector}")).await.expect(200).json();
    let items = list["items"].as_array().expect("items");
    let names: Vec<&str> = items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name")).collect();
    assert_eq!(names.join(" "), expect, "{path} {selector}");
}

#[test]
fn lists_support_selectable_fields() {
    pintle_integration::run(async {
        let cluster = create_marbles(Cluster::durable().await).await;
        let table = [
            (MARBLES, "spec.color=blue", "a"),
            (MARBLES, "spec.color!=blue", "b c"),
            (MARBLES, "spec.color=", "c"),
            (MARBLES, "spec.size=5", "b"),
            (MARBLES, "spec.size!=", "b"),
            (MARBLES, "spec.on=true", "a"),
            (MARBLES, "spec.on=false", "b"),
            (MARBLES, "spec.color=red,spec.size=5", "b"),
            (MARBLES, "spec.color=red,spec.size!=5", ""),
            (MARBLES, "spec.color!=red,metadata.name!=a", "c"),
            (MARBLES, "metadata.namespace=default", "a b c"),
            ("/apis/example.com/v1/marbles", "spec.color=red", "b"),
            (BETA, "spec.size=5", "b"),
        ];
        for (path, selector, expect) in table {
            check(&cluster, path, selector, expect).await;
        }
        for (path, field) in [(MARBLES, "spec.weight"), (BETA, "spec.color"), (MARBLES, "status.phase")] {
            let refused = cluster.get(&format!("{path}?fieldSelector={field}%3Dx")).await;
            refused.expect_error(400, "BadRequest", &format!("field label not supported: {field}"));
        }
        // The fields of stored objects are indexed after a restart.
        let cluster = cluster.restart().await;
        for (path, selector, expect) in table {
            check(&cluster, path, selector, expect).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn watches_show_objects_that_start_or_stop_matching() {
    pintle_integration::run(async {
        let cluster = create_marbles(Cluster::start().await).await;
        let mut blue = cluster.watch(&format!("{MARBLES}?watch=1&fieldSelector=spec.color%3Dblue")).await;
        blue.expect("ADDED", "a").await;
        let paint = async |name: &str, color: Value| {
            let body = json!({"spec": {"color": color}}).to_string();
            let _ = cluster.patch(&format!("{MARBLES}/{name}"), MERGE, body).await.expect(200);
        };
        paint("b", json!("blue")).await;
        blue.expect("ADDED", "b").await;
        let _ = cluster.patch(&format!("{MARBLES}/b"), MERGE, r#"{"spec": {"size": 6}}"#).await.expect(200);
        blue.expect("MODIFIED", "b").await;
        paint("a", Value::Null).await;
        blue.expect("DELETED", "a").await;
        paint("c", json!("green")).await;
        let _ = cluster.delete(&format!("{MARBLES}/b")).await.expect(200);
        blue.expect("DELETED", "b").await;
        cluster.stop().await;
    });
}

#[test]
fn delete_collection_supports_selectable_fields() {
    pintle_integration::run(async {
        let cluster = create_marbles(Cluster::start().await).await;
        let _ = cluster.delete(&format!("{MARBLES}?fieldSelector=spec.color%21%3Dblue")).await.expect(200);
        check(&cluster, MARBLES, "", "a").await;
        cluster.stop().await;
    });
}

#[test]
fn default_values_of_stored_objects_are_selectable() {
    pintle_integration::run(async {
        let cluster = create_marbles(Cluster::start().await).await;
        let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
        let change = json!([{"op": "add", "path": format!("{size}/default"), "value": 7}]).to_string();
        let _ = cluster.patch(&format!("{CRDS}/marbles.example.com"), "json", change).await.expect(200);
        while cluster.get(&format!("{MARBLES}/a")).await.expect(200).json()["spec"]["size"] != 7 {}
        check(&cluster, MARBLES, "spec.size=7", "a c").await;
        check(&cluster, MARBLES, "spec.size=", "").await;
        check(&cluster, MARBLES, "spec.size!=7", "b").await;
        let mut watch = cluster.watch(&format!("{MARBLES}?watch=1&fieldSelector=spec.size%3D7")).await;
        for name in ["a", "c"] {
            assert_eq!(watch.expect("ADDED", name).await["spec"]["size"], 7);
        }
        let _ = cluster.patch(&format!("{MARBLES}/c"), MERGE, r#"{"spec": {"size": 8}}"#).await.expect(200);
        watch.expect("DELETED", "c").await;
        cluster.stop().await;
    });
}

#[test]
fn selectable_fields_can_change() {
    pintle_integration::run(async {
        let cluster = create_marbles(Cluster::start().await).await;
        let mut watch = cluster.watch(&format!("{MARBLES}?watch=1&fieldSelector=spec.size%3D5")).await;
        watch.expect("ADDED", "b").await;
        let fields = marble_crd(&[".spec.on"])["spec"].clone();
        let path = format!("{CRDS}/marbles.example.com");
        let _ = cluster.patch(&path, MERGE, json!({"spec": fields}).to_string()).await.expect(200);
        // A watch ends when its CRD changes.
        while watch.next().await.is_some() {}
        check(&cluster, MARBLES, "spec.on=true", "a").await;
        check(&cluster, BETA, "spec.size=5", "b").await;
        let refused = cluster.get(&format!("{MARBLES}?fieldSelector=spec.color%3Dblue")).await;
        refused.expect_error(400, "BadRequest", "field label not supported: spec.color");
        cluster.stop().await;
    });
}
