//! Patches that are refused: codes, reasons and messages, and that nothing is changed.

use crate::{MAP, WEB, cluster, get};

const REJECTED: &str = "the server rejected our request due to an error in our request";

/// Every row: the kind, the patch, the code and reason, and the message.
#[test]
fn what_is_refused() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        let many = |count: usize| format!("[{}]", vec![r#"{"op":"test","path":"/x"}"#; count].join(","));
        let _ = cluster.patch(MAP, "json", many(10_000)).await.expect(200);
        let too_many = many(10_001);
        let large = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(3 * 1024 * 1024));
        let before = (get(&cluster, MAP).await, get(&cluster, WEB).await);
        for (kind, path, patch, code, reason, message) in [
            ("json", MAP, r#"[{"op":"test","path":"/data/a","value":"2"}]"#, 422, "Invalid", REJECTED),
            ("json", MAP, r#"[{"op":"remove","path":"/data/nope"}]"#, 422, "Invalid", REJECTED),
            ("json", MAP, r#"[{"op":"frob","path":"/data/a"}]"#, 422, "Invalid", REJECTED),
            // What came before the operation that fails is not kept.
            (
                "json",
                MAP,
                r#"[{"op":"remove","path":"/data/a"},{"op":"test","path":"/data/a","value":"1"}]"#,
                422,
                "Invalid",
                REJECTED,
            ),
            (
                "json",
                MAP,
                too_many.as_str(),
                413,
                "RequestEntityTooLarge",
                "The allowed maximum operations in a JSON patch is 10000, got 10001",
            ),
            ("merge", MAP, large.as_str(), 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
            (
                "json",
                MAP,
                "{}",
                400,
                "BadRequest",
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            ("merge", MAP, "null", 400, "BadRequest", "Invalid JSON Patch"),
            ("merge", MAP, "{", 400, "BadRequest", "error decoding patch: unexpected end of JSON input"),
            ("strategic-merge", MAP, "{", 400, "BadRequest", "unexpected end of JSON input"),
            (
                "strategic-merge",
                MAP,
                r#"{"data":{"$retainKeys":["a"],"b":"1"}}"#,
                400,
                "BadRequest",
                "invalid patch format of retainKeys",
            ),
            (
                "strategic-merge",
                MAP,
                r#"{"metadata":{"$deleteFromPrimitiveList":["a"]}}"#,
                400,
                "BadRequest",
                "invalid patch format of primitive list",
            ),
            (
                "strategic-merge",
                MAP,
                r#"{"metadata":{"$setElementOrder":["a"]}}"#,
                400,
                "BadRequest",
                "invalid patch format of setElementOrder list",
            ),
            (
                "strategic-merge",
                MAP,
                r#"{"metadata":{"finalizers":[["a"]]}}"#,
                500,
                "",
                "list element types are not identical: [[x.io/a x.io/b] [[a]]]",
            ),
            (
                "strategic-merge",
                WEB,
                r#"{"spec":{"template":{"spec":{"containers":[{"image":"i:2"}]}}}}"#,
                500,
                "",
                "map: map[image:i:2] does not contain declared merge key: name",
            ),
            (
                "strategic-merge",
                WEB,
                r#"{"spec":{"$patch":"merge"}}"#,
                500,
                "",
                "unknown patch type: merge in map: map[$patch:merge]",
            ),
            // Types: the words are those of the decoder, or of the converter.
            (
                "strategic-merge",
                WEB,
                r#"{"spec":{"replicas":"three","template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a"}]}}}}"#,
                422,
                "Invalid",
                " \"\" is invalid: patch: Invalid value: \"map[spec:map[replicas:three template:map[spec:map[]]]]\": \
                 unrecognized type: int32",
            ),
            (
                "strategic-merge",
                WEB,
                r#"{"spec":{"template":{"spec":{"restartPolicy":1}}}}"#,
                422,
                "Invalid",
                " \"\" is invalid: patch: Invalid value: \"map[spec:map[template:map[spec:map[restartPolicy:1]]]]\": \
                 cannot convert int64 to v1.RestartPolicy",
            ),
            // What the object is and where.
            (
                "merge",
                MAP,
                r#"{"metadata":{"name":"other"}}"#,
                400,
                "BadRequest",
                "the name of the object (other) does not match the name on the URL (m)",
            ),
            (
                "merge",
                MAP,
                r#"{"metadata":{"namespace":"other"}}"#,
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
            (
                "strategic-merge",
                MAP,
                r#"{"metadata":{"uid":"other"}}"#,
                422,
                "Invalid",
                "ConfigMap \"m\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable",
            ),
            // What comes out is validated.
            (
                "merge",
                MAP,
                r#"{"data":{"not a key":"1"}}"#,
                422,
                "Invalid",
                "ConfigMap \"m\" is invalid: data[not a key]: Invalid value: \"not a key\": a valid config key must \
                 consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', \
                 regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
            (
                "json",
                WEB,
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
            // Whether the object is there is looked at before the patch is.
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
            assert_eq!((get(&cluster, MAP).await, get(&cluster, WEB).await), before, "{kind} {patch:.80}");
        }
    });
}

#[test]
fn media_types() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        for media_type in ["application/json", "text/plain", "application/json-patch+yaml", "application/merge-patch"] {
            let answer = cluster.request("PATCH", MAP).body(media_type, "{}").send().await;
            answer.expect_error(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
                 application/apply-patch+yaml",
            );
        }
        // Parameters do not count.
        let charset = "application/merge-patch+json; charset=utf-8";
        let _ = cluster.request("PATCH", MAP).body(charset, r#"{"data":{"c":"3"}}"#).send().await.expect(200);
    });
}
