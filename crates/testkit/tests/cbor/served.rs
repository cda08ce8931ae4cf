//! What is served in CBOR is what is served in JSON.

use pintle_testkit::{Cluster, run};
use pintle_value::Value;

use crate::{CBOR, CRDS, MAPS, WIDGETS, ask, body, cbor, cluster, read, tree};

/// Sees to it that a path shows the same in CBOR as in JSON.
async fn same(cluster: &Cluster, path: &str, parameters: &str) -> Value {
    let accept = |media_type: &str| format!("{media_type}{parameters}");
    let shown = cluster.request("GET", path).header("accept", &accept(CBOR)).send().await.expect(200);
    let json = cluster.request("GET", path).header("accept", &accept("application/json")).send().await.expect(200);
    let (shown, json) = (body(&shown), tree(&json.text()));
    assert_eq!(shown, json, "{path}{parameters}");
    shown
}

#[test]
fn objects_go_in_and_out() {
    run(async {
        let cluster = cluster().await;
        let text = r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "1"},
            "binaryData": {"b": "AAH/"}}"#;
        let made = ask(&cluster, "POST", MAPS, text).send().await.expect(201);
        let made = body(&made);
        assert_eq!((made.kind(), made.str_at(&["binaryData", "b"])), ("ConfigMap", "AAH/"));
        let path = format!("{MAPS}/m");
        assert_eq!(same(&cluster, &path, "").await, made);
        let _ = same(&cluster, &path, ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").await;
        // Who wrote in CBOR owns what any other client would own.
        let owned = &made["metadata"]["managedFields"][0];
        assert_eq!(owned["fieldsV1"]["f:data"], tree(r#"{".":{},"f:k":{}}"#));
        let changed = r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "2"}}"#;
        let changed = body(&ask(&cluster, "PUT", &path, changed).send().await.expect(200));
        assert_eq!(changed.str_at(&["data", "k"]), "2");
        let options = r#"{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}"#;
        let refused = ask(&cluster, "DELETE", &path, options).send().await.expect(409);
        assert_eq!(body(&refused).str_at(&["reason"]), "Conflict");
        let gone = ask(&cluster, "DELETE", &path, r#"{"kind": "DeleteOptions", "apiVersion": "v1"}"#).send().await;
        assert_eq!(body(&gone.expect(200)).str_at(&["status"]), "Success");
        cluster.stop().await;
    });
}

#[test]
fn byte_strings_need_not_be_base64() {
    run(async {
        let cluster = cluster().await;
        // {"metadata": {"name": "m"}, "binaryData": {"b": 22(h'0001ff')}}
        let hex = "d9d9f7a2486d65746164617461a1446e616d65416d4a62696e61727944617461a14162d6430001ff";
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("digits")).collect();
        let made = cluster.request("POST", MAPS).body(CBOR, bytes).send().await.expect(201);
        assert_eq!(made.json()["binaryData"]["b"], "AAH/");
        cluster.stop().await;
    });
}

#[test]
fn custom_objects_go_in_and_out() {
    run(async {
        let cluster = cluster().await;
        let text = r#"{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"},
            "spec": {"size": 7, "weight": 1.5, "name": "x", "nope": true}}"#;
        let made = ask(&cluster, "POST", WIDGETS, text).send().await.expect(201);
        assert_eq!(made.header("warning"), r#"299 - "unknown field \"spec.nope\"""#);
        let made = body(&made);
        assert_eq!(made["spec"], tree(r#"{"size": 7, "weight": 1.5, "name": "x"}"#));
        let path = format!("{WIDGETS}/w");
        assert_eq!(same(&cluster, &path, "").await, made);
        let mut status = made.clone();
        status.set("status", tree(r#"{"a": [1]}"#));
        let put = cluster.request("PUT", &format!("{path}/status")).header("accept", CBOR);
        let changed = body(&put.body(CBOR, pintle_codec::cbor::encode(&status)).send().await.expect(200));
        assert_eq!(changed["status"], tree(r#"{"a": [1]}"#));
        let _ = same(&cluster, WIDGETS, "").await;
        let _ = same(&cluster, WIDGETS, ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await;
        let _ = same(&cluster, &format!("{CRDS}/widgets.example.com"), "").await;
        cluster.stop().await;
    });
}

#[test]
fn lists_and_documents_are_the_same() {
    run(async {
        let cluster = cluster().await;
        let _ = same(&cluster, MAPS, "").await;
        for i in 0..300 {
            let text = "some text ".repeat(i);
            let map = format!(r#"{{"metadata": {{"name": "m{i:03}"}}, "data": {{"text": "{text}"}}}}"#);
            let _ = cluster.post(MAPS, map).await.expect(201);
        }
        for path in [MAPS, &format!("{MAPS}?limit=7"), "/api/v1/namespaces", "/apis/apps/v1/deployments"] {
            let _ = same(&cluster, path, "").await;
            let _ = same(&cluster, path, ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await;
        }
        let _ = same(&cluster, "/api/v1", "").await;
        let _ = same(&cluster, "/apis/apps/v1", "").await;
        cluster.stop().await;
    });
}

#[test]
fn configurations_are_applied() {
    run(async {
        let cluster = cluster().await;
        let apply = |path: &str, manager: &str, text: &str| {
            let path = format!("{path}?fieldManager={manager}");
            cluster.request("PATCH", &path).header("accept", CBOR).body("application/apply-patch+cbor", cbor(text))
        };
        let path = format!("{MAPS}/m");
        let config = r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "1"}}"#;
        let made = body(&apply(&path, "one", config).send().await.expect(201));
        assert_eq!(made["metadata"]["managedFields"][0]["operation"], Value::from("Apply"));
        let other = config.replace('1', "2").replace("v2", "v1");
        let refused = body(&apply(&path, "two", &other).send().await.expect(409));
        assert_eq!(refused["details"]["causes"][0]["field"], Value::from(".data.k"));
        let config =
            r#"{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"size": 1}}"#;
        let made = apply(&format!("{WIDGETS}/w"), "one", config).send().await.expect(201);
        assert_eq!(body(&made)["spec"]["size"], Value::from(1));
        let scalar = cluster.request("PATCH", &format!("{path}?fieldManager=a"));
        let refused = scalar.body("application/apply-patch+cbor", vec![0x01]).send().await.expect(400);
        assert_eq!(
            refused.json()["message"],
            "error decoding YAML: cbor: cannot unmarshal positive integer into Go value of type map[string]interface {}"
        );
        // Other patches are JSON, whatever their answers are.
        let patch = cluster.request("PATCH", &path).header("accept", CBOR);
        let patched = patch.body("application/merge-patch+json", r#"{"data": {"k": "3"}}"#).send().await.expect(200);
        assert_eq!(read(&patched.body).str_at(&["data", "k"]), "3");
        cluster.stop().await;
    });
}

#[test]
fn subresources_take_it_too() {
    run(async {
        let cluster = cluster().await;
        let text = r#"{"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
        let path = "/apis/apps/v1/namespaces/default/deployments";
        let _ = cluster.post(path, text).await.expect(201);
        let scale = format!("{path}/d/scale");
        let mut wanted = body(&cluster.request("GET", &scale).header("accept", CBOR).send().await.expect(200));
        wanted.set_at(&["spec", "replicas"], 5);
        let put = cluster.request("PUT", &scale).header("accept", CBOR);
        let shown = put.body(CBOR, pintle_codec::cbor::encode(&wanted)).send().await.expect(200);
        assert_eq!(body(&shown)["spec"]["replicas"], Value::from(5));
        let review = r#"{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}"#;
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(
            body(&ask(&cluster, "POST", path, review).send().await.expect(201))["status"]["allowed"],
            Value::from(true)
        );
        cluster.stop().await;
    });
}
