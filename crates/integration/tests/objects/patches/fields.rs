//! Effects of patches on fields, and unknown and duplicate fields in patches.

use serde_json::{Value, json};

use super::{CONFIGMAP, DEPLOYMENT, cluster, get, resource_version, warnings};

/// Each case has the patch type, the path, the patch, and a JSON pointer with the expected value.
#[test]
fn patches_change_only_the_fields_that_they_mention() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        for (kind, path, patch, pointer, expect) in [
            ("merge", CONFIGMAP, json!({"data": {"c": "3", "a": null}}), "/data", json!({"b": "2", "c": "3"})),
            (
                "strategic-merge",
                CONFIGMAP,
                json!({"data": {"c": null, "d": "4"}}),
                "/data",
                json!({"b": "2", "d": "4"}),
            ),
            ("json", CONFIGMAP, json!([{"op": "add", "path": "/data/a", "value": "1"}]), "/data/a", json!("1")),
            (
                "merge",
                CONFIGMAP,
                json!({"metadata": {"labels": {"b": "2"}}}),
                "/metadata/labels",
                json!({"a": "1", "b": "2"}),
            ),
            ("merge", CONFIGMAP, json!({"metadata": {"labels": null}}), "/metadata/labels", Value::Null),
            (
                "strategic-merge",
                CONFIGMAP,
                json!({"data": {"$patch": "replace", "z": "1"}}),
                "/data",
                json!({"z": "1"}),
            ),
            ("strategic-merge", CONFIGMAP, json!({"data": {"$patch": "delete"}}), "/data", Value::Null),
            (
                "strategic-merge",
                CONFIGMAP,
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}}),
                "/metadata/finalizers",
                json!(["x.io/b"]),
            ),
            (
                "merge",
                CONFIGMAP,
                json!({"metadata": {"finalizers": ["x.io/c"]}}),
                "/metadata/finalizers",
                json!(["x.io/c"]),
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "i:2"}]}}}}),
                "/spec/template/spec/containers/1/image",
                json!("i:2"),
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                json!({"spec": {"template": {"spec": {"containers": [
                    {"name": "a", "ports": [{"containerPort": 80, "$patch": "delete"}, {"containerPort": 443, "name": "tls"}]},
                ]}}}}),
                "/spec/template/spec/containers/0/ports",
                json!([{"containerPort": 443, "name": "tls", "protocol": "TCP"}]),
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}}}),
                "/spec/template/spec/containers/1/image",
                json!("i:1"),
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
                "/spec/strategy",
                json!({"type": "Recreate"}),
            ),
            // A removed field gets its default.
            ("merge", DEPLOYMENT, json!({"spec": {"replicas": null}}), "/spec/replicas", json!(1)),
            (
                "json",
                DEPLOYMENT,
                json!([{"op": "remove", "path": "/spec/revisionHistoryLimit"}]),
                "/spec/revisionHistoryLimit",
                json!(10),
            ),
            // Upstream's converter truncates a number to the size of its type.
            (
                "strategic-merge",
                DEPLOYMENT,
                json!({"spec": {"replicas": 4_294_967_299_i64}}),
                "/spec/replicas",
                json!(3),
            ),
            // A strategic merge patch cannot change the kind or apiVersion.
            (
                "strategic-merge",
                CONFIGMAP,
                json!({"kind": "Secret", "apiVersion": "v2", "data": {"k": "v"}}),
                "/kind",
                json!("ConfigMap"),
            ),
        ] {
            let patched = cluster.patch(path, kind, patch.to_string()).await.expect(200).json();
            assert_eq!(patched.pointer(pointer).unwrap_or(&Value::Null), &expect, "{kind} {patch}");
            assert_eq!(patched, get(&cluster, path).await, "{kind} {patch}");
        }
    });
}

#[test]
fn a_patch_without_effect_is_not_written() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let before = get(&cluster, CONFIGMAP).await;
        for (kind, patch) in [
            ("merge", "{}"),
            ("strategic-merge", "{}"),
            ("strategic-merge", "null"),
            ("json", "[]"),
            ("json", "null"),
            ("merge", r#"{"data": {"a": "1", "nope": null}}"#),
            (
                "strategic-merge",
                r#"{"metadata": {"finalizers": ["x.io/a"], "$setElementOrder/finalizers": ["x.io/a", "x.io/b"]}}"#,
            ),
            ("json", r#"[{"op": "add", "path": "/data/c", "value": "3"}, {"op": "remove", "path": "/data/c"}]"#),
            // Fields that the server sets cannot be changed.
            ("merge", r#"{"metadata": {"creationTimestamp": null, "generation": 7, "selfLink": "x"}}"#),
        ] {
            let response = cluster.patch(CONFIGMAP, kind, patch).await.expect(200).json();
            assert_eq!(resource_version(&response), resource_version(&before), "{kind} {patch}");
            assert_eq!(response["data"], before["data"], "{kind} {patch}");
        }
        let dry = cluster
            .patch(&format!("{CONFIGMAP}?dryRun=All"), "merge", r#"{"data": {"a": "2"}}"#)
            .await
            .expect(200)
            .json();
        assert_eq!(dry["data"]["a"], "2");
        assert_eq!(get(&cluster, CONFIGMAP).await, before);
    });
}

/// Each case has the patch type, the path, the patch, and the errors of strict validation.
#[test]
fn unknown_and_duplicate_fields_are_reported() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        for (kind, path, patch, problems) in [
            ("merge", CONFIGMAP, r#"{"nope": 1}"#, &[r#"unknown field "nope""#][..]),
            ("merge", CONFIGMAP, r#"{"data": {"a": "1", "a": "2"}}"#, &[r#"duplicate field "data.a""#]),
            (
                "merge",
                CONFIGMAP,
                r#"{"zz": 1, "metadata": {"nope": 1}, "data": {"a": "1", "a": "1"}}"#,
                &[r#"duplicate field "data.a""#, r#"unknown field "metadata.nope""#, r#"unknown field "zz""#],
            ),
            (
                "strategic-merge",
                CONFIGMAP,
                r#"{"nope": 1, "nope": 2}"#,
                &[r#"duplicate field "nope""#, r#"unknown field "nope""#],
            ),
            (
                "strategic-merge",
                DEPLOYMENT,
                r#"{"spec": {"template": {"spec": {"containers": [{"name": "b", "nope": 1}], "also": 1}}, "a": 1}}"#,
                &[
                    r#"unknown field "spec.a""#,
                    r#"unknown field "spec.template.spec.also""#,
                    r#"unknown field "spec.template.spec.containers[1].nope""#,
                ],
            ),
            // Directives of a strategic merge patch are unknown fields in a merge patch.
            ("merge", CONFIGMAP, r#"{"$patch": "delete"}"#, &[r#"unknown field "$patch""#]),
            ("json", CONFIGMAP, r#"[{"op": "add", "path": "/nope", "value": 1}]"#, &[r#"unknown field "nope""#]),
            (
                "json",
                CONFIGMAP,
                r#"[{"op": "test", "path": "/nope", "why": 1}]"#,
                &[r#"json patch unknown field "[0].why""#],
            ),
            (
                "json",
                CONFIGMAP,
                r#"[{"op": "add", "op": "add", "path": "/nope", "value": 1}]"#,
                &[r#"json patch duplicate field "[0].op""#, r#"unknown field "nope""#],
            ),
        ] {
            let before = get(&cluster, path).await;
            let strict = cluster.patch(&format!("{path}?fieldValidation=Strict"), kind, patch).await;
            let message = strict.expect(422).json()["message"].as_str().unwrap_or_default().to_owned();
            let expect = format!(": strict decoding error: {}", problems.join(", "));
            assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \""), "{kind} {patch}: {message}");
            assert!(message.ends_with(&expect), "{kind} {patch}: {message}");
            assert_eq!(get(&cluster, path).await, before, "{kind} {patch}");
            for (query, expect) in
                [("fieldValidation=Warn", problems), ("", problems), ("fieldValidation=Ignore", &[][..])]
            {
                let response = cluster.patch(&format!("{path}?dryRun=All&{query}"), kind, patch).await.expect(200);
                assert_eq!(warnings(&response), expect, "{query} {kind} {patch}");
                assert_eq!(response.json().get("nope"), None, "{kind} {patch}");
            }
        }
    });
}

/// Errors print patched objects with sorted keys, and other objects in the order of their Go structs.
#[test]
fn errors_contain_the_patched_object() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        for (kind, patch, start, within) in [
            (
                "merge",
                r#"{"nope": {"b": 1, "a": null}}"#,
                r#"{"apiVersion":"v1","data":{"a":"1","b":"2"},"kind":"ConfigMap","metadata":{"name":"m","namespace":"default","uid":"#,
                r#""nope":{"b":1}}"#,
            ),
            (
                "merge",
                r#"{"metadata": {"nope": 1}}"#,
                r#"{"apiVersion":"v1","data":{"a":"1","b":"2"},"kind":"ConfigMap","metadata":{"creationTimestamp":"#,
                r#""managedFields":[{"manager":"#,
            ),
            (
                "json",
                r#"[{"op": "add", "path": "/metadata/nope", "value": 1}]"#,
                r#"{"apiVersion":"v1","data":{"a":"1","b":"2"},"kind":"ConfigMap","metadata":{"creationTimestamp":"#,
                r#""name":"m","namespace":"default","nope":1,"resourceVersion":"#,
            ),
            (
                "json",
                r#"[{"op": "remove", "path": "/metadata/managedFields/0/time"}, {"op": "add", "path": "/data/c", "value": 1}]"#,
                r#"{"apiVersion":"v1","data":{"a":"1","b":"2","c":1},"kind":"ConfigMap","metadata":{"creationTimestamp":"#,
                r#""managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":"#,
            ),
        ] {
            let response =
                cluster.patch(&format!("{CONFIGMAP}?fieldValidation=Strict"), kind, patch).await.expect(422).json();
            let message = response["message"].as_str().unwrap_or_default().replace("\\\"", "\"");
            let printed = message.strip_prefix(" \"\" is invalid: patch: Invalid value: \"").unwrap_or_default();
            assert!(printed.starts_with(start), "{patch}: {message}");
            assert!(printed.contains(within), "{patch}: {message}");
        }
    });
}
