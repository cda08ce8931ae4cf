//! From `kubectl apply` to `kubectl apply --server-side`: what the annotation of the last applied configuration says is the
//! manager `kubectl`'s to change, and the annotation is kept up to date for those who go back.

use serde_json::json;

use crate::scene::{Conflict, MAP, Owners, Same, Scene, Step, check};

/// What `kubectl apply` creates: the object, with its own configuration in an annotation.
fn client_side(data: &str, annotation: &str) -> String {
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": annotation});
    json!({"metadata": {"annotations": annotations}, "data": {"k": data, "m": "1"}}).to_string()
}

const APPLIED: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o","namespace":"n"},"data":{"k":"1","m":"1"}}"#;
const ANNOTATION: &str = ".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration";

fn play(annotation: &'static str, steps: &'static [Step<'static>]) {
    pintle_testkit::run(async move {
        let scene = Scene::of(MAP, ".data").await;
        let created = scene.ask("create client", &client_side("1", annotation)).await;
        let _ = created.expect(201);
        scene.play(steps).await;
    });
}

#[test]
fn what_was_applied_by_the_client_is_no_conflict() {
    play(
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
                Owners(
                    200,
                    r#"{"data": {"k": "2", "m": "1"}, "metadata": {"annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"o\"}}\n"}}}"#,
                    &["kubectl Apply v1: .data.k", "client Update v1: .data .data.m"],
                ),
            ),
            ("apply kubectl", r#"{"data": {"k": "2"}}"#, Same),
            // It is written as Go writes it: sorted, and fit for HTML.
            (
                "raw kubectl",
                r#"{"kind": "ConfigMap", "metadata": {"name": "o"}, "data": {"n": "<&>", "k": "2"}, "apiVersion": "v1"}"#,
                Owners(
                    200,
                    r#"{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\",\"n\":\"\\u003c\\u0026\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"o\"}}\n"}}}"#,
                    &["kubectl Apply v1: .data.k .data.n", "client Update v1: .data .data.m"],
                ),
            ),
            // The annotation says nothing for who does not call itself so.
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
fn what_others_changed_since_stays_a_conflict() {
    play(
        APPLIED,
        &[
            (
                "merge b",
                r#"{"data": {"m": "9"}}"#,
                Owners(200, "{}", &["client Update v1: .data .data.k", "b Update v1: .data.m"]),
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
fn an_annotation_that_cannot_be_read_says_nothing() {
    const REFUSED: &[Step<'static>] = &[(
        "apply kubectl",
        r#"{"data": {"k": "2"}}"#,
        Conflict(
            r#"Apply failed with 1 conflict: conflict with "client" using v1: .data.k"#,
            &[(".data.k", r#"conflict with "client" using v1"#)],
        ),
    )];
    play("{", REFUSED);
    play("{}", REFUSED);
    play(r#"{"apiVersion":"v1","data":{"k":"1"}}"#, REFUSED);
    play(r#"{"apiVersion":"v2","kind":"ConfigMap","data":{"k":"1"}}"#, REFUSED);
    play(r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"k":1}}"#, REFUSED);
    play(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o"}}"#, REFUSED);
}

#[test]
fn the_annotation_is_nobodys_to_apply() {
    check(
        MAP,
        ANNOTATION,
        &[
            ("apply kubectl", r#"{"data": {"k": "1"}}"#, Owners(201, r#"{"metadata": {"annotations": null}}"#, &[])),
            // Who has no annotation gets none; who applies one finds it replaced by what it applies.
            (
                "apply kubectl",
                r#"{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "mine"}}, "data": {"k": "1"}}"#,
                Owners(
                    200,
                    r#"{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"o\"}}\n"}}}"#,
                    &["kubectl Apply v1: .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration"],
                ),
            ),
        ],
    );
}
