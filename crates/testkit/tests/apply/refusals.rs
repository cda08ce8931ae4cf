//! Requests that are refused, and in which words: options, media types, bodies that are no configuration of the object.

use pintle_testkit::Cluster;
use serde_json::json;

use crate::scene::{DEPLOYMENT, Error, MAP, Owners, POD, Scene, check};

#[test]
fn who_applies_says_who_he_is() {
    let long = "m".repeat(129);
    pintle_testkit::run(async move {
        let scene = Scene::of(MAP, "").await;
        let invalid = |what: &str| format!("PatchOptions.meta.k8s.io \"\" is invalid: {what}");
        for (request, message) in [
            ("apply -", invalid("fieldManager: Required value: is required for apply patch")),
            ("apply ", invalid("fieldManager: Required value: is required for apply patch")),
            ("merge a ?force=true", invalid("force: Forbidden: may not be specified for non-apply patch")),
            ("merge a ?force=false", invalid("force: Forbidden: may not be specified for non-apply patch")),
            (&format!("apply {long}"), invalid("fieldManager: Too long: may not be more than 128 bytes")),
            (
                "apply a%01b",
                invalid(r#"fieldManager: Invalid value: "a\x01b": invalid character U+0001 (at position 1)"#),
            ),
            (
                "apply a ?fieldValidation=Always",
                invalid(
                    r#"fieldValidation: Unsupported value: "Always": supported values: "", "Ignore", "Strict", "Warn""#,
                ),
            ),
        ] {
            scene.play(&[(request, "{}", Error(422, "Invalid", &message))]).await;
        }
        let longest = "m".repeat(128);
        let owner = format!("{longest} Apply v1: .data.k");
        let request = format!("apply {longest}");
        scene.play(&[(&request, r#"{"data": {"k": "1"}}"#, Owners(201, "{}", &[&owner]))]).await;
    });
}

#[test]
fn bodies_are_configurations_of_the_object() {
    check(
        MAP,
        "",
        &[
            (
                "raw a",
                r#"{"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "o"}}"#,
                Error(400, "BadRequest", "invalid object type: /v2, Kind=ConfigMap"),
            ),
            (
                "raw a",
                r#"{"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "o"}}"#,
                Error(400, "BadRequest", "invalid object type: apps/v1, Kind=ConfigMap"),
            ),
            (
                "raw a",
                r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}}"#,
                Error(400, "BadRequest", "invalid object type: /v1, Kind=Secret"),
            ),
            (
                "raw a",
                r#"{"apiVersion": "v1", "metadata": {"name": "o"}}"#,
                Error(400, "BadRequest", "invalid object type: /v1, Kind="),
            ),
            (
                "raw a",
                r#"{"kind": "ConfigMap", "metadata": {"name": "o"}}"#,
                Error(400, "BadRequest", "invalid object type: /, Kind=ConfigMap"),
            ),
            ("raw a", "{}", Error(400, "BadRequest", "invalid object type: /, Kind=")),
            ("raw a", "", Error(400, "BadRequest", "invalid object type: /, Kind=")),
            (
                "apply a",
                r#"{"metadata": {"name": "p"}}"#,
                Error(400, "BadRequest", "the name of the object (p) does not match the name on the URL (o)"),
            ),
            (
                "apply a",
                r#"{"metadata": {"namespace": "m"}}"#,
                Error(
                    400,
                    "BadRequest",
                    "the namespace of the provided object does not match the namespace sent on the request",
                ),
            ),
            (
                "raw a",
                "a: b: c:\n - x\n",
                Error(
                    400,
                    "BadRequest",
                    "error decoding YAML: error converting YAML to JSON: yaml: mapping values are not allowed in this context",
                ),
            ),
            (
                "raw a",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: o\ndata:\n  k: \"1\"\n",
                Owners(201, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.k"]),
            ),
        ],
    );
}

#[test]
fn managed_fields_are_not_applied() {
    check(
        MAP,
        "",
        &[
            (
                "apply a",
                r#"{"metadata": {"managedFields": [{"manager": "b", "operation": "Apply", "apiVersion": "v1"}]}}"#,
                Error(400, "BadRequest", "metadata.managedFields must be nil"),
            ),
            (
                "apply a",
                r#"{"metadata": {"managedFields": []}}"#,
                Error(400, "BadRequest", "metadata.managedFields must be nil"),
            ),
            (
                "raw a",
                r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "managedFields": null}, "data": {"k": "1"}}"#,
                Owners(201, "{}", &["a Apply v1: .data.k"]),
            ),
        ],
    );
}

#[test]
fn fields_are_of_the_schema() {
    check(
        DEPLOYMENT,
        "",
        &[
            (
                "apply a",
                r#"{"spec": {"foo": 1}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; apps/v1, Kind=Deployment): .spec.foo: field not declared in \
                     schema",
                ),
            ),
            // Strictness makes no difference: what cannot be owned cannot be applied.
            (
                "apply a ?fieldValidation=Ignore",
                r#"{"metadata": {"namespace": "n"}, "spec": {"foo": 1}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (n/o; apps/v1, Kind=Deployment): .spec.foo: field not declared in \
                     schema",
                ),
            ),
            (
                "apply a ?fieldValidation=Strict",
                r#"{"spec": {"template": {"spec": {"containers": [{"name": "c", "foo": 1}]}}}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; apps/v1, Kind=Deployment): \
                     .spec.template.spec.containers[name=\"c\"].foo: field not declared in schema",
                ),
            ),
            (
                "apply a",
                r#"{"spec": {"replicas": "1"}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; apps/v1, Kind=Deployment): .spec.replicas: expected numeric \
                     (int or float), got string",
                ),
            ),
            (
                "apply a",
                r#"{"spec": {"template": []}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; apps/v1, Kind=Deployment): .spec.template: expected map, got \
                     &{[]}",
                ),
            ),
        ],
    );
}

#[test]
fn items_are_told_apart_by_their_keys() {
    check(
        POD,
        "",
        &[
            (
                "apply a",
                r#"{"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; /v1, Kind=Pod): .spec.containers: duplicate entries for key \
                     [name=\"c\"]",
                ),
            ),
            (
                "apply a",
                r#"{"spec": {"containers": [null]}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; /v1, Kind=Pod): .spec.containers: element 0: associative list \
                     with keys may not have a null element",
                ),
            ),
            // A key that Go would write though it is empty is one.
            (
                "apply a",
                r#"{"spec": {"containers": [{"image": "i"}]}}"#,
                Error(422, "Invalid", r#"Pod "o" is invalid: spec.containers[0].name: Required value"#),
            ),
            (
                "apply a",
                r#"{"spec": {"containers": [{"image": "i"}, {"image": "j"}]}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; /v1, Kind=Pod): .spec.containers: duplicate entries for key \
                     [name=\"\"]",
                ),
            ),
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a", "x/a"]}}"#,
                Error(
                    500,
                    "",
                    "failed to create typed patch object (/o; /v1, Kind=Pod): .metadata.finalizers: duplicate entries for \
                     key [=\"x/a\"]",
                ),
            ),
        ],
    );
}

/// YAML in which keys are said twice.
const TWICE: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: o\ndata:\n  k: \"1\"\n  k: \"2\"\n  k: \"3\"\n";

#[test]
fn keys_that_are_said_twice_are_refused_if_asked() {
    check(
        MAP,
        "",
        &[
            (
                "raw a ?fieldValidation=Strict",
                TWICE,
                Error(
                    400,
                    "BadRequest",
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"k\" \
                     already set in map\n  line 8: key \"k\" already set in map",
                ),
            ),
            // The last one counts.
            ("raw a", TWICE, Owners(201, r#"{"data": {"k": "3"}}"#, &["a Apply v1: .data.k"])),
        ],
    );
}

#[test]
fn keys_that_are_said_twice_are_warned_of() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        for (validation, warnings) in [
            (
                "Warn",
                vec![
                    "299 - \"line 7: key \\\"k\\\" already set in map\"",
                    "299 - \"line 8: key \\\"k\\\" already set in map\"",
                ],
            ),
            ("Ignore", vec![]),
        ] {
            let answer = scene.ask(&format!("raw a ?fieldValidation={validation}"), TWICE).await;
            let found: Vec<_> = answer.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect();
            assert_eq!(found, warnings, "{validation}: {}", answer.text());
        }
    });
}

#[test]
fn configurations_have_a_media_type_of_their_own() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}}).to_string();
        let path = "/api/v1/namespaces/default/configmaps/o?fieldManager=a";
        let ask = |media_type: &str| cluster.request("PATCH", path).body(media_type, body.clone()).send();
        for unknown in ["application/apply-patch+json", "application/apply-patch+cbor", "application/yaml"] {
            ask(unknown).await.expect_error(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
                 application/apply-patch+yaml",
            );
        }
        let _ = ask("application/apply-patch+yaml; charset=utf-8").await.expect(201);
        // A patch of another kind creates nothing.
        let path = "/api/v1/namespaces/default/configmaps/p?fieldManager=a";
        let message = "configmaps \"p\" not found";
        cluster.patch(path, "merge", "{}").await.expect_error(404, "NotFound", message);
    });
}
