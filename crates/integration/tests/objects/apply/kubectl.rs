//! The upgrade from `kubectl apply` to `kubectl apply --server-side`. The manager `kubectl` may change the fields that
//! the last-applied-configuration annotation lists. The server updates the annotation so that a downgrade is possible.

use serde_json::json;

use super::scenario::{CONFIGMAP, Conflict, Managed, Scenario, Step, Unchanged, check};

/// Returns an object with a last-applied-configuration annotation, as `kubectl apply` creates it.
fn client_side_applied(data: &str, annotation: &str) -> String {
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": annotation});
    json!({"metadata": {"annotations": annotations}, "data": {"k": data, "m": "1"}}).to_string()
}

const APPLIED: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o","namespace":"n"},"data":{"k":"1","m":"1"}}"#;
const ANNOTATION: &str = ".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration";

fn check_after_client_side_apply(annotation: &'static str, steps: &'static [Step<'static>]) {
    pintle_integration::run(async move {
        let scenario = Scenario::new(CONFIGMAP, ".data").await;
        let created = scenario.send("create client", &client_side_applied("1", annotation)).await;
        let _ = created.expect(201);
        scenario.run_steps(steps).await;
    });
}

#[test]
fn client_side_applied_fields_do_not_conflict_for_kubectl() {
    check_after_client_side_apply(
        APPLIED,
        &[
            (
                "apply b",
                r#"{"data": {"k": "2"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "client" using v1: .data.k"#,
                    &[(".data.k", r#"conflict with "client" using v1"#)],
                ),
            ),
            (
                "apply kubectl",
                r#"{"data": {"k": "2"}}"#,
                Managed(
                    200,
                    r#"{"data": {"k": "2", "m": "1"}, "metadata": {"annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"o\"}}\n"}}}"#,
                    &["kubectl Apply v1: .data.k", "client Update v1: .data .data.m"],
                ),
            ),
            ("apply kubectl", r#"{"data": {"k": "2"}}"#, Unchanged),
            // Go encodes the annotation: with sorted keys and HTML escapes.
            (
                "raw kubectl",
                r#"{"kind": "ConfigMap", "metadata": {"name": "o"}, "data": {"n": "<&>", "k": "2"}, "apiVersion": "v1"}"#,
                Managed(
                    200,
                    r#"{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\",\"n\":\"\\u003c\\u0026\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"o\"}}\n"}}}"#,
                    &["kubectl Apply v1: .data.k .data.n", "client Update v1: .data .data.m"],
                ),
            ),
            // The annotation has no effect for other managers.
            (
                "apply b",
                r#"{"data": {"m": "2"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "client" using v1: .data.m"#,
                    &[(".data.m", r#"conflict with "client" using v1"#)],
                ),
            ),
        ],
    );
}

#[test]
fn later_changes_by_other_managers_still_conflict() {
    check_after_client_side_apply(
        APPLIED,
        &[
            (
                "merge b",
                r#"{"data": {"m": "9"}}"#,
                Managed(200, "{}", &["client Update v1: .data .data.k", "b Update v1: .data.m"]),
            ),
            (
                "apply kubectl",
                r#"{"data": {"k": "2", "m": "2"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "b" using v1: .data.m"#,
                    &[(".data.m", r#"conflict with "b" using v1"#)],
                ),
            ),
        ],
    );
}

#[test]
fn an_invalid_annotation_is_ignored() {
    const CONFLICT: &[Step<'static>] = &[(
        "apply kubectl",
        r#"{"data": {"k": "2"}}"#,
        Conflict(
            r#"Apply failed with 1 conflict: conflict with "client" using v1: .data.k"#,
            &[(".data.k", r#"conflict with "client" using v1"#)],
        ),
    )];
    check_after_client_side_apply("{", CONFLICT);
    check_after_client_side_apply("{}", CONFLICT);
    check_after_client_side_apply(r#"{"apiVersion":"v1","data":{"k":"1"}}"#, CONFLICT);
    check_after_client_side_apply(r#"{"apiVersion":"v2","kind":"ConfigMap","data":{"k":"1"}}"#, CONFLICT);
    check_after_client_side_apply(r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"k":1}}"#, CONFLICT);
    check_after_client_side_apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o"}}"#, CONFLICT);
}

#[test]
fn the_annotation_has_no_effect_on_its_own() {
    check(
        CONFIGMAP,
        ANNOTATION,
        &[
            ("apply kubectl", r#"{"data": {"k": "1"}}"#, Managed(201, r#"{"metadata": {"annotations": null}}"#, &[])),
            // The server adds no annotation. If the configuration has one, the server replaces its value with the
            // configuration.
            (
                "apply kubectl",
                r#"{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "mine"}}, "data": {"k": "1"}}"#,
                Managed(
                    200,
                    r#"{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"o\"}}\n"}}}"#,
                    &["kubectl Apply v1: .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration"],
                ),
            ),
        ],
    );
}
