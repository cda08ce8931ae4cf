//! What patches change, what they leave, and what they say of fields that are unknown or stand there twice.

use serde_json::{Value, json};

use crate::{MAP, WEB, cluster, get, version, warnings};

/// Every row: the kind of the patch, the path that is patched, the patch, a place in the object, and what is there then.
#[test]
fn what_is_not_mentioned_stays() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        for (kind, path, patch, place, expect) in [
            ("merge", MAP, json!({"data": {"c": "3", "a": null}}), "/data", json!({"b": "2", "c": "3"})),
            ("strategic-merge", MAP, json!({"data": {"c": null, "d": "4"}}), "/data", json!({"b": "2", "d": "4"})),
            ("json", MAP, json!([{"op": "add", "path": "/data/a", "value": "1"}]), "/data/a", json!("1")),
            (
                "merge",
                MAP,
                json!({"metadata": {"labels": {"b": "2"}}}),
                "/metadata/labels",
                json!({"a": "1", "b": "2"}),
            ),
            ("merge", MAP, json!({"metadata": {"labels": null}}), "/metadata/labels", Value::Null),
            ("strategic-merge", MAP, json!({"data": {"$patch": "replace", "z": "1"}}), "/data", json!({"z": "1"})),
            ("strategic-merge", MAP, json!({"data": {"$patch": "delete"}}), "/data", Value::Null),
            (
                "strategic-merge",
                MAP,
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}}),
                "/metadata/finalizers",
                json!(["x.io/b"]),
            ),
            ("merge", MAP, json!({"metadata": {"finalizers": ["x.io/c"]}}), "/metadata/finalizers", json!(["x.io/c"])),
            (
                "strategic-merge",
                WEB,
                json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "i:2"}]}}}}),
                "/spec/template/spec/containers/1/image",
                json!("i:2"),
            ),
            (
                "strategic-merge",
                WEB,
                json!({"spec": {"template": {"spec": {"containers": [
                    {"name": "a", "ports": [{"containerPort": 80, "$patch": "delete"}, {"containerPort": 443, "name": "tls"}]},
                ]}}}}),
                "/spec/template/spec/containers/0/ports",
                json!([{"containerPort": 443, "name": "tls", "protocol": "TCP"}]),
            ),
            (
                "strategic-merge",
                WEB,
                json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}}}),
                "/spec/template/spec/containers/1/image",
                json!("i:1"),
            ),
            (
                "strategic-merge",
                WEB,
                json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
                "/spec/strategy",
                json!({"type": "Recreate"}),
            ),
            // What is taken away and has a default gets it.
            ("merge", WEB, json!({"spec": {"replicas": null}}), "/spec/replicas", json!(1)),
            (
                "json",
                WEB,
                json!([{"op": "remove", "path": "/spec/revisionHistoryLimit"}]),
                "/spec/revisionHistoryLimit",
                json!(10),
            ),
            // A number is cut to the size of its type, by upstream's converter.
            ("strategic-merge", WEB, json!({"spec": {"replicas": 4_294_967_299_i64}}), "/spec/replicas", json!(3)),
            // A strategic merge patch does not change what the object is.
            (
                "strategic-merge",
                MAP,
                json!({"kind": "Secret", "apiVersion": "v2", "data": {"k": "v"}}),
                "/kind",
                json!("ConfigMap"),
            ),
        ] {
            let patched = cluster.patch(path, kind, patch.to_string()).await.expect(200).json();
            assert_eq!(patched.pointer(place).unwrap_or(&Value::Null), &expect, "{kind} {patch}");
            assert_eq!(patched, get(&cluster, path).await, "{kind} {patch}");
        }
    });
}

#[test]
fn what_changes_nothing_is_not_written() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        let before = get(&cluster, MAP).await;
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
            // What the system sets cannot be changed.
            ("merge", r#"{"metadata": {"creationTimestamp": null, "generation": 7, "selfLink": "x"}}"#),
        ] {
            let answer = cluster.patch(MAP, kind, patch).await.expect(200).json();
            assert_eq!(version(&answer), version(&before), "{kind} {patch}");
            assert_eq!(answer["data"], before["data"], "{kind} {patch}");
        }
        let dry =
            cluster.patch(&format!("{MAP}?dryRun=All"), "merge", r#"{"data": {"a": "2"}}"#).await.expect(200).json();
        assert_eq!(dry["data"]["a"], "2");
        assert_eq!(get(&cluster, MAP).await, before);
    });
}

/// Every row: the kind, the patch, and what strict validation says of it.
#[test]
fn unknown_and_duplicate_fields() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        for (kind, path, patch, problems) in [
            ("merge", MAP, r#"{"nope": 1}"#, &[r#"unknown field "nope""#][..]),
            ("merge", MAP, r#"{"data": {"a": "1", "a": "2"}}"#, &[r#"duplicate field "data.a""#]),
            (
                "merge",
                MAP,
                r#"{"zz": 1, "metadata": {"nope": 1}, "data": {"a": "1", "a": "1"}}"#,
                &[r#"duplicate field "data.a""#, r#"unknown field "metadata.nope""#, r#"unknown field "zz""#],
            ),
            (
                "strategic-merge",
                MAP,
                r#"{"nope": 1, "nope": 2}"#,
                &[r#"duplicate field "nope""#, r#"unknown field "nope""#],
            ),
            (
                "strategic-merge",
                WEB,
                r#"{"spec": {"template": {"spec": {"containers": [{"name": "b", "nope": 1}], "also": 1}}, "a": 1}}"#,
                &[
                    r#"unknown field "spec.a""#,
                    r#"unknown field "spec.template.spec.also""#,
                    r#"unknown field "spec.template.spec.containers[1].nope""#,
                ],
            ),
            // Directives of strategic merge patch are fields that a merge patch does not know.
            ("merge", MAP, r#"{"$patch": "delete"}"#, &[r#"unknown field "$patch""#]),
            ("json", MAP, r#"[{"op": "add", "path": "/nope", "value": 1}]"#, &[r#"unknown field "nope""#]),
            ("json", MAP, r#"[{"op": "test", "path": "/nope", "why": 1}]"#, &[r#"json patch unknown field "[0].why""#]),
            (
                "json",
                MAP,
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
                let answer = cluster.patch(&format!("{path}?dryRun=All&{query}"), kind, patch).await.expect(200);
                assert_eq!(warnings(&answer), expect, "{query} {kind} {patch}");
                assert_eq!(answer.json().get("nope"), None, "{kind} {patch}");
            }
        }
    });
}

/// Objects that a patch goes into are shown sorted, others in the order of their Go structs.
#[test]
fn errors_show_what_came_out() {
    pintle_testkit::run(async {
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
            let answer = cluster.patch(&format!("{MAP}?fieldValidation=Strict"), kind, patch).await.expect(422).json();
            let message = answer["message"].as_str().unwrap_or_default().replace("\\\"", "\"");
            let shown = message.strip_prefix(" \"\" is invalid: patch: Invalid value: \"").unwrap_or_default();
            assert!(shown.starts_with(start), "{patch}: {message}");
            assert!(shown.contains(within), "{patch}: {message}");
        }
    });
}
