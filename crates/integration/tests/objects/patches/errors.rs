//! Rejected patches: their status codes, reasons and messages. They do not change the object.

use super::{CONFIGMAP, DEPLOYMENT, cluster, get};

const REJECTED: &str = "the server rejected our request due to an error in our request";

/// Each case has the patch type, the path, the patch, and the expected status code, reason and message.
#[test]
fn invalid_patches_are_rejected() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let test_operations = |count: usize| format!("[{}]", vec![r#"{"op":"test","path":"/x"}"#; count].join(","));
        let _ = cluster.patch(CONFIGMAP, "json", test_operations(10_000)).await.expect(200);
        let too_many = test_operations(10_001);
        let large = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(3 * 1024 * 1024));
        let before = (get(&cluster, CONFIGMAP).await, get(&cluster, DEPLOYMENT).await);
        for (kind, path, patch, code, reason, message) in [
            ("json", CONFIGMAP, r#"[{"op":"test","path":"/data/a","value":"2"}]"#, 422, "Invalid", REJECTED),
            ("json", CONFIGMAP, r#"[{"op":"remove","path":"/data/nope"}]"#, 422, "Invalid", REJECTED),
            ("json", CONFIGMAP, r#"[{"op":"frob","path":"/data/a"}]"#, 422, "Invalid", REJECTED),
            // Operations before the failed operation are not applied.
            (
                "json",
                CONFIGMAP,
                r#"[{"op":"remove","path":"/data/a"},{"op":"test","path":"/data/a","value":"1"}]"#,
                422,
                "Invalid",
                REJECTED,
            ),
            (
                "json",
                CONFIGMAP,
                too_many.as_str(),
                413,
                "RequestEntityTooLarge",
                "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
            ),
            (
                "merge",
                CONFIGMAP,
                large.as_str(),
                413,
                "RequestEntityTooLarge",
                "Request entity too large: limit is 3145728",
            ),
            (
                "json",
                CONFIGMAP,
                "{}",
                400,
                "BadRequest",
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            ("merge", CONFIGMAP, "null", 400, "BadRequest", "Invalid JSON Patch"),
            ("merge", CONFIGMAP, "{", 400, "BadRequest", "error decoding patch: unexpected end of JSON input"),
            ("strategic-merge", CONFIGMAP, "{", 400, "BadRequest", "unexpected end of JSON input"),
            (
                "strategic-merge",
                CONFIGMAP,
                r#"{"data":{"$retainKeys":["a"],"b":"1"}}"#,
                400,
                "BadRequest",
                "invalid patch format of retainKeys",
            ),
            (
                "strategic-merge",
                CONFIGMAP,
                r#"{"metadata":{"$deleteFromPrimitiveList":["a"]}}"#,
                400,
                "BadRequest",
                "invalid patch format of primitive list",
            ),
            (
                "strategic-merge",
                CONFIGMAP,
                r#"{"metadata":{"$setElementOrder":["a"]}}"#,
                400,
                "BadRequest",
                "invalid patch format of setElementOrder list",
            ),
            (
                "strategic-merge",
                CONFIGMAP,
                r#"{"metadata":{"finalizers":[["a"]]}}"#,
                500,
                "",
                "list element types are not identical: [[x.io/a x.io/b] [[a]]]",
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                r#"{"spec":{"template":{"spec":{"containers":[{"image":"i:2"}]}}}}"#,
                500,
                "",
                "map: map[image:i:2] does not contain declared merge key: name",
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                r#"{"spec":{"$patch":"merge"}}"#,
                500,
                "",
                "unknown patch type: merge in map: map[$patch:merge]",
            ),
            // Wrong types: the messages come from the decoder or from the converter.
            (
                "strategic-merge",
                DEPLOYMENT,
                r#"{"spec":{"replicas":"three","template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a"}]}}}}"#,
                422,
                "Invalid",
                " \"\" is invalid: patch: Invalid value: \"map[spec:map[replicas:three template:map[spec:map[]]]]\": \
                 unrecognized type: int32",
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                r#"{"spec":{"template":{"spec":{"restartPolicy":1}}}}"#,
                422,
                "Invalid",
                " \"\" is invalid: patch: Invalid value: \"map[spec:map[template:map[spec:map[restartPolicy:1]]]]\": \
                 cannot convert int64 to v1.RestartPolicy",
            ),
            // A patch cannot change the identity of the object.
            (
                "merge",
                CONFIGMAP,
                r#"{"metadata":{"name":"other"}}"#,
                400,
                "BadRequest",
                "the name of the object (other) does not match the name on the URL (m)",
            ),
            (
                "merge",
                CONFIGMAP,
                r#"{"metadata":{"namespace":"other"}}"#,
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
            (
                "strategic-merge",
                CONFIGMAP,
                r#"{"metadata":{"uid":"other"}}"#,
                422,
                "Invalid",
                "ConfigMap \"m\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable",
            ),
            // The patched object is validated.
            (
                "merge",
                CONFIGMAP,
                r#"{"data":{"not a key":"1"}}"#,
                422,
                "Invalid",
                "ConfigMap \"m\" is invalid: data[not a key]: Invalid value: \"not a key\": a valid config key must \
                 consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', \
                 regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
            (
                "json",
                DEPLOYMENT,
                r#"[{"op":"replace","path":"/spec/replicas","value":-1}]"#,
                422,
                "Invalid",
                "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "merge",
                "/api/v1/namespaces/default/configmaps/nobody",
                "{}",
                404,
                "NotFound",
                "configmaps \"nobody\" not found",
            ),
            // A missing object is reported before an invalid patch.
            (
                "json",
                "/api/v1/namespaces/default/configmaps/nobody",
                "{",
                404,
                "NotFound",
                "configmaps \"nobody\" not found",
            ),
        ] {
            cluster.patch(path, kind, patch).await.expect_error(code, reason, message);
            assert_eq!((get(&cluster, CONFIGMAP).await, get(&cluster, DEPLOYMENT).await), before, "{kind} {patch:.80}");
        }
    });
}

#[test]
fn unknown_media_types_are_rejected() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        for media_type in ["application/json", "text/plain", "application/json-patch+yaml", "application/merge-patch"] {
            let response = cluster.request("PATCH", CONFIGMAP).body(media_type, "{}").send().await;
            response.expect_error(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        }
        // Parameters of the media type are ignored.
        let charset = "application/merge-patch+json; charset=utf-8";
        let _ = cluster.request("PATCH", CONFIGMAP).body(charset, r#"{"data":{"c":"3"}}"#).send().await.expect(200);
    });
}
