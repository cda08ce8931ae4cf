//! Managed fields of writes through subresources: which fields they own and which they reset. The scale subresource
//! maps replicas of the object to replicas of a Scale.

use super::scenario::{Conflict, DEPLOYMENT, Error, Managed, NODE, POD, SERVICE_CIDR, Scenario, Unchanged, check};

#[test]
fn status_and_spec_are_owned_through_their_own_endpoints() {
    check(
        NODE,
        "",
        &[
            (
                "apply s /status",
                r#"{"status": {"phase": "Pending"}}"#,
                Error(404, "NotFound", r#"nodes "o" not found"#),
            ),
            (
                "apply a",
                r#"{"spec": {"unschedulable": true}, "status": {"phase": "Running"}}"#,
                Managed(201, r#"{"spec": {"unschedulable": true}}"#, &["a Apply v1: .spec.unschedulable"]),
            ),
            ("apply a", r#"{"spec": {"unschedulable": true}, "status": {"phase": "Terminated"}}"#, Unchanged),
            (
                "apply s /status",
                r#"{"metadata": {"labels": {"l": "x"}}, "spec": {"unschedulable": false}, "status": {"phase": "Pending"}}"#,
                Managed(
                    200,
                    r#"{"spec": {"unschedulable": true}, "status": {"phase": "Pending"}, "metadata": {"labels": {"l": "x"}}}"#,
                    &["a Apply v1: .spec.unschedulable", "s Apply v1 /status: .metadata.labels.l .status.phase"],
                ),
            ),
            (
                "put c /status",
                r#"{"spec": {"unschedulable": null}, "status": {"phase": "Terminated"}}"#,
                Managed(
                    200,
                    r#"{"spec": {"unschedulable": true}, "status": {"phase": "Terminated"}}"#,
                    &[
                        "a Apply v1: .spec.unschedulable",
                        "s Apply v1 /status: .metadata.labels.l",
                        "c Update v1 /status: .status.phase",
                    ],
                ),
            ),
            (
                "apply s /status",
                r#"{"status": {"phase": "Pending"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "c" with subresource "status" using v1: .status.phase"#,
                    &[(".status.phase", r#"conflict with "c" with subresource "status" using v1"#)],
                ),
            ),
            (
                "force s /status",
                r#"{"status": {"phase": "Pending"}}"#,
                Managed(
                    200,
                    r#"{"status": {"phase": "Pending"}, "metadata": {"labels": {"l": null}}}"#,
                    &["a Apply v1: .spec.unschedulable", "s Apply v1 /status: .status.phase"],
                ),
            ),
            // The managers of an apply to the status and of an apply to the object are different, even with the same
            // name.
            (
                "apply a /status",
                r#"{"status": {"phase": "Pending"}}"#,
                Managed(
                    200,
                    "{}",
                    // A manager that has only started to share fields has no time, so its entry sorts first.
                    &[
                        "a Apply v1 /status: .status.phase",
                        "a Apply v1: .spec.unschedulable",
                        "s Apply v1 /status: .status.phase",
                    ],
                ),
            ),
            // Entries can only be reset through the main resource.
            ("put c /status", r#"{"metadata": {"managedFields": [{}]}, "status": {"phase": "Pending"}}"#, Unchanged),
        ],
    );
}

#[test]
fn some_status_endpoints_reset_metadata() {
    const STATUS: &str =
        r#"{"metadata": {"labels": {"l": "x"}, "annotations": {"n": "x"}}, "status": {"observedGeneration": 1}}"#;
    check(
        DEPLOYMENT,
        ".metadata",
        &[
            ("apply a", TWO_REPLICAS, Managed(201, "{}", &[])),
            (
                "apply s /status",
                STATUS,
                Managed(
                    200,
                    r#"{"metadata": {"labels": null, "annotations": {"n": "x"}}, "status": {"observedGeneration": 1}}"#,
                    &["s Apply apps/v1 /status: .metadata.annotations.n"],
                ),
            ),
        ],
    );
    check(
        SERVICE_CIDR,
        ".metadata",
        &[
            ("apply a", r#"{"spec": {"cidrs": ["10.9.0.0/16"]}}"#, Managed(201, "{}", &[])),
            (
                "apply s /status",
                r#"{"metadata": {"labels": {"l": "x"}, "annotations": {"n": "x"}}, "status": {"conditions": [
                    {"type": "Ready", "status": "True", "reason": "R", "message": "",
                     "lastTransitionTime": "2024-01-01T00:00:00Z"}]}}"#,
                Managed(200, r#"{"metadata": {"labels": null, "annotations": null}}"#, &[]),
            ),
        ],
    );
}

/// A deployment with two replicas, and a deployment without replicas.
const TWO_REPLICAS: &str = r#"{"spec": {"replicas": 2, "selector": {"matchLabels": {"l": "x"}}, "template": {
    "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
const UNSET_REPLICAS: &str = r#"{"spec": {"selector": {"matchLabels": {"l": "x"}}, "template": {
    "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;

#[test]
fn writes_to_scale_own_the_replicas() {
    check(
        DEPLOYMENT,
        ".spec.replicas",
        &[
            ("apply a", TWO_REPLICAS, Managed(201, "{}", &["a Apply apps/v1: .spec.replicas"])),
            (
                "put b /scale",
                r#"{"spec": {"replicas": 5}}"#,
                Managed(
                    200,
                    r#"{"kind": "Scale", "spec": {"replicas": 5}, "metadata": {"managedFields": null}}"#,
                    &["b Update apps/v1 /scale: .spec.replicas"],
                ),
            ),
            (
                "apply a",
                TWO_REPLICAS,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "b" with subresource "scale" using apps/v1: .spec.replicas"#,
                    &[(".spec.replicas", r#"conflict with "b" with subresource "scale" using apps/v1"#)],
                ),
            ),
            // A configuration without replicas does not conflict.
            (
                "apply a",
                UNSET_REPLICAS,
                Managed(200, r#"{"spec": {"replicas": 5}}"#, &["b Update apps/v1 /scale: .spec.replicas"]),
            ),
            (
                "apply c /scale",
                r#"{"spec": {"replicas": 6}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "b" with subresource "scale" using autoscaling/v1: .spec.replicas"#,
                    &[(".spec.replicas", r#"conflict with "b" with subresource "scale" using autoscaling/v1"#)],
                ),
            ),
            (
                "force c /scale",
                r#"{"spec": {"replicas": 6}}"#,
                Managed(200, r#"{"spec": {"replicas": 6}}"#, &["c Apply apps/v1 /scale: .spec.replicas"]),
            ),
            ("apply c /scale", r#"{"spec": {"replicas": 6}}"#, Unchanged),
            (
                "apply d /scale",
                r#"{"spec": {"replicas": 6}}"#,
                Managed(
                    200,
                    "{}",
                    &["c Apply apps/v1 /scale: .spec.replicas", "d Apply apps/v1 /scale: .spec.replicas"],
                ),
            ),
            (
                "apply c /scale",
                "{}",
                Managed(200, r#"{"spec": {"replicas": 6}}"#, &["d Apply apps/v1 /scale: .spec.replicas"]),
            ),
            (
                "merge e /scale",
                r#"{"spec": {"replicas": 7}}"#,
                Managed(200, r#"{"spec": {"replicas": 7}}"#, &["e Update apps/v1 /scale: .spec.replicas"]),
            ),
            (
                "merge f",
                r#"{"spec": {"replicas": 8}}"#,
                Managed(200, r#"{"spec": {"replicas": 8}}"#, &["f Update apps/v1: .spec.replicas"]),
            ),
            (
                "apply a /scale",
                r#"{"spec": {"replicas": 8}}"#,
                Managed(200, "{}", &["a Apply apps/v1 /scale: .spec.replicas", "f Update apps/v1: .spec.replicas"]),
            ),
            ("force g", r#"{"spec": {"replicas": 9}}"#, Managed(200, "{}", &["g Apply apps/v1: .spec.replicas"])),
        ],
    );
}

#[test]
fn replicas_are_removed_when_no_scale_manager_applies_them() {
    pintle_integration::run(async {
        let scenario = Scenario::new(DEPLOYMENT, ".spec.replicas").await;
        scenario
            .run_steps(&[
                ("apply a", UNSET_REPLICAS, Managed(201, r#"{"spec": {"replicas": 1}}"#, &[])),
                // Replicas without a manager in the object belong to "before-first-apply" in a scale.
                (
                    "apply c /scale",
                    r#"{"spec": {"replicas": 6}}"#,
                    Conflict(
                        r#"Apply failed with 1 conflict: conflict with "before-first-apply" with subresource "scale" using autoscaling/v1: .spec.replicas"#,
                        &[(
                            ".spec.replicas",
                            r#"conflict with "before-first-apply" with subresource "scale" using autoscaling/v1"#,
                        )],
                    ),
                ),
                (
                    "force c /scale",
                    r#"{"spec": {"replicas": 6}}"#,
                    Managed(200, "{}", &["c Apply apps/v1 /scale: .spec.replicas"]),
                ),
                // A scale has no default.
                ("apply c /scale", "{}", Managed(200, r#"{"spec": {"replicas": null}}"#, &[])),
            ])
            .await;
        assert_eq!(scenario.stored().await.map(|object| object["spec"]["replicas"].clone()), Some(0.into()));
    });
}

#[test]
fn applying_a_scale_validates_it_as_a_scale() {
    check(
        DEPLOYMENT,
        "",
        &[
            ("apply a /scale", "{}", Error(404, "NotFound", r#"deployments.apps "o" not found"#)),
            ("apply a @apps/v1", r#"{"spec": {}}"#, Error(422, "Invalid", INVALID)),
        ],
    );
    pintle_integration::run(async {
        let scenario = Scenario::new(DEPLOYMENT, ".spec.replicas").await;
        let _ = scenario.send("apply a", UNSET_REPLICAS).await.expect(201);
        let path = format!("{}/o/scale?fieldManager=a&force=true", scenario.collection("apps/v1"));
        for (body, code, reason, message) in [
            (
                r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o"}}"#,
                400,
                "BadRequest",
                "invalid object type: apps/v1, Kind=Deployment",
            ),
            (
                r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"}, "spec": {"foo": 1}}"#,
                500,
                "",
                "failed to create typed patch object (/o; autoscaling/v1, Kind=Scale): .spec.foo: field not declared in schema",
            ),
            (
                r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "p"}}"#,
                400,
                "BadRequest",
                "the name of the object (p) does not match the name on the URL (o)",
            ),
            (
                r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"}, "spec": {"replicas": -1}}"#,
                422,
                "Invalid",
                r#"Scale.autoscaling "o" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#,
            ),
        ] {
            scenario.apply(&path, body).await.expect_error(code, reason, message);
        }
        let path = format!("{}/o/scale", scenario.collection("apps/v1"));
        let body = r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"}}"#;
        let message =
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#;
        scenario.apply(&path, body).await.expect_error(422, "Invalid", message);
    });
}

const INVALID: &str = "Deployment.apps \"o\" is invalid: [spec.selector: Required value, \
    spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, \
    spec.template.spec.containers: Required value]";

/// Upstream defines reset fields for these two subresources but does not use them, so writes own every field they send.
#[test]
fn ephemeralcontainers_and_resize_own_the_fields_they_send() {
    const POD_WITH_LIMIT: &str =
        r#"{"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}"#;
    const NEW_LIMIT: &str = r#"{"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}}"#;
    const LIMIT_PATH: &str = r#".spec.containers[name="c"].resources.limits.cpu"#;
    check(
        POD,
        LIMIT_PATH,
        &[
            (
                "apply a",
                POD_WITH_LIMIT,
                Managed(201, "{}", &[r#"a Apply v1: .spec.containers[name="c"].resources.limits.cpu"#]),
            ),
            (
                "apply r /resize",
                NEW_LIMIT,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.containers[name="c"].resources.limits.cpu"#,
                    &[(LIMIT_PATH, r#"conflict with "a""#)],
                ),
            ),
            (
                "force r /resize",
                NEW_LIMIT,
                Managed(200, "{}", &[r#"r Apply v1 /resize: .spec.containers[name="c"].resources.limits.cpu"#]),
            ),
        ],
    );
    check(
        POD,
        ".spec.ephemeralContainers",
        &[
            ("apply a", POD_WITH_LIMIT, Managed(201, "{}", &[])),
            (
                "apply d /ephemeralcontainers",
                r#"{"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}"#,
                Managed(
                    200,
                    "{}",
                    &[
                        r#"d Apply v1 /ephemeralcontainers: .spec.ephemeralContainers[name="e"] .spec.ephemeralContainers[name="e"].image .spec.ephemeralContainers[name="e"].name"#,
                    ],
                ),
            ),
        ],
    );
}
