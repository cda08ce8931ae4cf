//! Requests and responses in CBOR have the same content as in JSON.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, run};
use pintle_value::Value;
use pintle_versions::{EffectiveVersion, Minor};

use super::{CBOR, CONFIGMAPS, CRDS, WIDGETS, cbor_body, cbor_request, cluster, decode_cbor, decode_json, to_cbor};

/// Checks that a path returns the same object in CBOR as in JSON, and returns it.
async fn check_equals_json(cluster: &Cluster, path: &str, parameters: &str) -> Value {
    let accept = |media_type: &str| format!("{media_type}{parameters}");
    let found = cluster.request("GET", path).header("accept", &accept(CBOR)).send().await.expect(200);
    let json = cluster.request("GET", path).header("accept", &accept("application/json")).send().await.expect(200);
    let (found, json) = (cbor_body(&found), decode_json(&json.text()));
    assert_eq!(found, json, "{path}{parameters}");
    found
}

#[test]
fn objects_can_be_written_and_read_in_cbor() {
    run(async {
        let cluster = cluster().await;
        let text = r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "1"},
            "binaryData": {"b": "AAH/"}}"#;
        let created = cbor_request(&cluster, "POST", CONFIGMAPS, text).send().await.expect(201);
        let created = cbor_body(&created);
        assert_eq!((created.kind(), created.str_at(&["binaryData", "b"])), ("ConfigMap", "AAH/"));
        let path = format!("{CONFIGMAPS}/m");
        assert_eq!(check_equals_json(&cluster, &path, "").await, created);
        let _ = check_equals_json(&cluster, &path, ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").await;
        // Managed fields do not depend on the encoding of the request.
        let owned = &created["metadata"]["managedFields"][0];
        assert_eq!(owned["fieldsV1"]["f:data"], decode_json(r#"{".":{},"f:k":{}}"#));
        let changed = r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "2"}}"#;
        let changed = cbor_body(&cbor_request(&cluster, "PUT", &path, changed).send().await.expect(200));
        assert_eq!(changed.str_at(&["data", "k"]), "2");
        let options = r#"{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}"#;
        let error = cbor_request(&cluster, "DELETE", &path, options).send().await.expect(409);
        assert_eq!(cbor_body(&error).str_at(&["reason"]), "Conflict");
        let deleted =
            cbor_request(&cluster, "DELETE", &path, r#"{"kind": "DeleteOptions", "apiVersion": "v1"}"#).send().await;
        assert_eq!(cbor_body(&deleted.expect(200)).str_at(&["status"]), "Success");
        cluster.stop().await;
    });
}

#[test]
fn byte_fields_accept_byte_strings_without_base64() {
    run(async {
        let cluster = cluster().await;
        // {"metadata": {"name": "m"}, "binaryData": {"b": 22(h'0001ff')}}
        let hex = "d9d9f7a2486d65746164617461a1446e616d65416d4a62696e61727944617461a14162d6430001ff";
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("digits")).collect();
        let created = cluster.request("POST", CONFIGMAPS).body(CBOR, bytes).send().await.expect(201);
        assert_eq!(created.json()["binaryData"]["b"], "AAH/");
        cluster.stop().await;
    });
}

#[test]
fn custom_resources_can_be_written_and_read_in_cbor() {
    run(async {
        let cluster = cluster().await;
        let text = r#"{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"},
            "spec": {"size": 7, "weight": 1.5, "name": "x", "nope": true}}"#;
        let created = cbor_request(&cluster, "POST", WIDGETS, text).send().await.expect(201);
        // Upstream's decoder of custom resources looks for unknown fields only in JSON and YAML.
        assert_eq!(created.header("warning"), "");
        let created = cbor_body(&created);
        assert_eq!(created["spec"], decode_json(r#"{"size": 7, "weight": 1.5, "name": "x"}"#));
        let path = format!("{WIDGETS}/w");
        assert_eq!(check_equals_json(&cluster, &path, "").await, created);
        let mut status = created.clone();
        status.set("status", decode_json(r#"{"a": [1]}"#));
        let put = cluster.request("PUT", &format!("{path}/status")).header("accept", CBOR);
        let changed = cbor_body(&put.body(CBOR, pintle_codec::cbor::encode(&status)).send().await.expect(200));
        assert_eq!(changed["status"], decode_json(r#"{"a": [1]}"#));
        let _ = check_equals_json(&cluster, WIDGETS, "").await;
        let _ = check_equals_json(&cluster, WIDGETS, ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await;
        let _ = check_equals_json(&cluster, &format!("{CRDS}/widgets.example.com"), "").await;
        cluster.stop().await;
    });
}

#[test]
fn lists_and_discovery_equal_json() {
    run(async {
        let cluster = cluster().await;
        let _ = check_equals_json(&cluster, CONFIGMAPS, "").await;
        for i in 0..300 {
            let text = "some text ".repeat(i);
            let map = format!(r#"{{"metadata": {{"name": "m{i:03}"}}, "data": {{"text": "{text}"}}}}"#);
            let _ = cluster.post(CONFIGMAPS, map).await.expect(201);
        }
        for path in [CONFIGMAPS, &format!("{CONFIGMAPS}?limit=7"), "/api/v1/namespaces", "/apis/apps/v1/deployments"] {
            let _ = check_equals_json(&cluster, path, "").await;
            let _ = check_equals_json(&cluster, path, ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await;
        }
        let _ = check_equals_json(&cluster, "/api/v1", "").await;
        let _ = check_equals_json(&cluster, "/apis/apps/v1", "").await;
        cluster.stop().await;
    });
}

/// Since 1.37.
#[test]
fn all_documents_of_discovery_are_served_in_cbor() {
    run(async {
        let (gates, _) = Gates::of(EffectiveVersion::of(Minor::new(37)))
            .overridden(&[("CBORServingAndStorage".to_owned(), true)].into())
            .expect("settable feature gates");
        for api_services in [false, true] {
            let cluster =
                Cluster::with_options(Options { gates: gates.clone(), api_services, ..Options::default() }).await;
            for path in ["/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1"] {
                let _ = check_equals_json(&cluster, path, "").await;
            }
            const AGGREGATED: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            for path in ["/api", "/apis"] {
                let get = async |encoding: &str| {
                    let media_type = format!("{encoding}{AGGREGATED}");
                    let found = cluster.request("GET", path).header("accept", &media_type).send().await.expect(200);
                    assert_eq!(found.header("content-type"), media_type);
                    found
                };
                let (found, json) = (get(CBOR).await, get("application/json").await);
                assert_eq!(decode_cbor(&found.body), decode_json(&json.text()), "{path}");
                assert_eq!(found.header("etag"), json.header("etag"));
                let other = cluster.request("GET", path).header("accept", &format!("application/yaml{AGGREGATED}"));
                let _ = other.send().await.expect(406);
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn configurations_can_be_applied_in_cbor() {
    run(async {
        let cluster = cluster().await;
        let apply = |path: &str, manager: &str, text: &str| {
            let path = format!("{path}?fieldManager={manager}");
            cluster.request("PATCH", &path).header("accept", CBOR).body("application/apply-patch+cbor", to_cbor(text))
        };
        let path = format!("{CONFIGMAPS}/m");
        let config = r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "1"}}"#;
        let created = cbor_body(&apply(&path, "one", config).send().await.expect(201));
        assert_eq!(created["metadata"]["managedFields"][0]["operation"], Value::from("Apply"));
        let other = config.replace('1', "2").replace("v2", "v1");
        let error = cbor_body(&apply(&path, "two", &other).send().await.expect(409));
        assert_eq!(error["details"]["causes"][0]["field"], Value::from(".data.k"));
        let config =
            r#"{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"size": 1}}"#;
        let created = apply(&format!("{WIDGETS}/w"), "one", config).send().await.expect(201);
        assert_eq!(cbor_body(&created)["spec"]["size"], Value::from(1));
        let scalar = cluster.request("PATCH", &format!("{path}?fieldManager=a"));
        let error = scalar.body("application/apply-patch+cbor", vec![0x01]).send().await.expect(400);
        assert_eq!(
            error.json()["message"],
            "error decoding YAML: cbor: cannot unmarshal positive integer into Go value of type map[string]interface {}"
        );
        // Other patch types are always JSON, even when the response is CBOR.
        let patch = cluster.request("PATCH", &path).header("accept", CBOR);
        let patched = patch.body("application/merge-patch+json", r#"{"data": {"k": "3"}}"#).send().await.expect(200);
        assert_eq!(decode_cbor(&patched.body).str_at(&["data", "k"]), "3");
        cluster.stop().await;
    });
}

#[test]
fn subresources_accept_cbor() {
    run(async {
        let cluster = cluster().await;
        let text = r#"{"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
        let path = "/apis/apps/v1/namespaces/default/deployments";
        let _ = cluster.post(path, text).await.expect(201);
        let scale = format!("{path}/d/scale");
        let mut scale_update =
            cbor_body(&cluster.request("GET", &scale).header("accept", CBOR).send().await.expect(200));
        scale_update.set_at(&["spec", "replicas"], 5);
        let put = cluster.request("PUT", &scale).header("accept", CBOR);
        let found = put.body(CBOR, pintle_codec::cbor::encode(&scale_update)).send().await.expect(200);
        assert_eq!(cbor_body(&found)["spec"]["replicas"], Value::from(5));
        let review = r#"{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}"#;
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(
            cbor_body(&cbor_request(&cluster, "POST", path, review).send().await.expect(201))["status"]["allowed"],
            Value::from(true)
        );
        cluster.stop().await;
    });
}
