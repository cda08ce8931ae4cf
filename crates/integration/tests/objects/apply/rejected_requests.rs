//! Error messages of rejected requests: invalid options, media types, and bodies that do not match the object.

use pintle_integration::Cluster;
use serde_json::json;

use super::scenario::{CONFIGMAP, DEPLOYMENT, Error, Managed, POD, Scenario, check};

#[test]
fn apply_requires_a_valid_field_manager() {
    let long = "m".repeat(129);
    pintle_integration::run(async move {
        let scenario = Scenario::new(CONFIGMAP, "").await;
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
            scenario.run_steps(&[(request, "{}", Error(422, "Invalid", &message))]).await;
        }
        let longest = "m".repeat(128);
        let owner = format!("{longest} Apply v1: .data.k");
        let request = format!("apply {longest}");
        scenario.run_steps(&[(&request, r#"{"data": {"k": "1"}}"#, Managed(201, "{}", &[&owner]))]).await;
    });
}

#[test]
fn the_body_must_match_the_object_of_the_path() {
    check(
        CONFIGMAP,
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
                Managed(201, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.k"]),
            ),
        ],
    );
}

#[test]
fn a_configuration_must_not_have_managed_fields() {
    check(
        CONFIGMAP,
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
                Managed(201, "{}", &["a Apply v1: .data.k"]),
            ),
        ],
    );
}

#[test]
fn fields_outside_the_schema_are_rejected() {
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
            // The validation level makes no difference: fields outside the schema cannot be owned.
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
fn list_keys_must_be_unique() {
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
            // A key field without `omitempty` defaults to the empty string.
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

/// YAML with duplicate keys.
const DUPLICATE_KEYS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: o\ndata:\n  k: \"1\"\n  k: \"2\"\n  k: \"3\"\n";

#[test]
fn duplicate_keys_are_rejected_in_strict_mode() {
    check(
        CONFIGMAP,
        "",
        &[
            (
                "raw a ?fieldValidation=Strict",
                DUPLICATE_KEYS,
                Error(
                    400,
                    "BadRequest",
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"k\" \
                     already set in map\n  line 8: key \"k\" already set in map",
                ),
            ),
            // The last value wins.
            ("raw a", DUPLICATE_KEYS, Managed(201, r#"{"data": {"k": "3"}}"#, &["a Apply v1: .data.k"])),
        ],
    );
}

#[test]
fn duplicate_keys_produce_warnings() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
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
            let response = scenario.send(&format!("raw a ?fieldValidation={validation}"), DUPLICATE_KEYS).await;
            let found: Vec<_> = response.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect();
            assert_eq!(found, warnings, "{validation}: {}", response.text());
        }
    });
}

#[test]
fn apply_requires_its_own_media_type() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}}).to_string();
        let path = "/api/v1/namespaces/default/configmaps/o?fieldManager=a";
        let request = |media_type: &str| cluster.request("PATCH", path).body(media_type, body.clone()).send();
        for unknown in ["application/apply-patch+json", "application/apply-patch+cbor", "application/yaml"] {
            request(unknown).await.expect_error(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        }
        let _ = request("application/apply-patch+yaml; charset=utf-8").await.expect(201);
        // Other patch types do not create objects.
        let path = "/api/v1/namespaces/default/configmaps/p?fieldManager=a";
        let message = "configmaps \"p\" not found";
        cluster.patch(path, "merge", "{}").await.expect_error(404, "NotFound", message);
    });
}
