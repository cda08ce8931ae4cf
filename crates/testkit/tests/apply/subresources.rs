//! Writes through subresources: what they own and what they leave to the object, and the scale, which maps the replicas of
//! the object to those of another one.

use crate::scene::{CIDR, Conflict, DEPLOYMENT, Error, NODE, Owners, POD, Same, Scene, check};

#[test]
fn a_status_owns_no_spec_and_a_spec_no_status() {
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
                Owners(201, r#"{"spec": {"unschedulable": true}}"#, &["a Apply v1: .spec.unschedulable"]),
            ),
            ("apply a", r#"{"spec": {"unschedulable": true}, "status": {"phase": "Terminated"}}"#, Same),
            (
                "apply s /status",
                r#"{"metadata": {"labels": {"l": "x"}}, "spec": {"unschedulable": false}, "status": {"phase": "Pending"}}"#,
                Owners(
                    200,
                    r#"{"spec": {"unschedulable": true}, "status": {"phase": "Pending"}, "metadata": {"labels": {"l": "x"}}}"#,
                    &["a Apply v1: .spec.unschedulable", "s Apply v1 /status: .metadata.labels.l .status.phase"],
                ),
            ),
            (
                "put c /status",
                r#"{"spec": {"unschedulable": null}, "status": {"phase": "Terminated"}}"#,
                Owners(
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
                Owners(
                    200,
                    r#"{"status": {"phase": "Pending"}, "metadata": {"labels": {"l": null}}}"#,
                    &["a Apply v1: .spec.unschedulable", "s Apply v1 /status: .status.phase"],
                ),
            ),
            // Who applies a status is another manager than who applies the object, even by the same name.
            (
                "apply a /status",
                r#"{"status": {"phase": "Pending"}}"#,
                Owners(
                    200,
                    "{}",
                    // Who comes to share what was there has no time, and therefore comes first.
                    &[
                        "a Apply v1 /status: .status.phase",
                        "a Apply v1: .spec.unschedulable",
                        "s Apply v1 /status: .status.phase",
                    ],
                ),
            ),
            // Entries are handed over through the object alone.
            ("put c /status", r#"{"metadata": {"managedFields": [{}]}, "status": {"phase": "Pending"}}"#, Same),
        ],
    );
}

#[test]
fn some_statuses_own_no_metadata() {
    const STATUS: &str =
        r#"{"metadata": {"labels": {"l": "x"}, "annotations": {"n": "x"}}, "status": {"observedGeneration": 1}}"#;
    check(
        DEPLOYMENT,
        ".metadata",
        &[
            ("apply a", TWO, Owners(201, "{}", &[])),
            (
                "apply s /status",
                STATUS,
                Owners(
                    200,
                    r#"{"metadata": {"labels": null, "annotations": {"n": "x"}}, "status": {"observedGeneration": 1}}"#,
                    &["s Apply apps/v1 /status: .metadata.annotations.n"],
                ),
            ),
        ],
    );
    check(
        CIDR,
        ".metadata",
        &[
            ("apply a", r#"{"spec": {"cidrs": ["10.9.0.0/16"]}}"#, Owners(201, "{}", &[])),
            (
                "apply s /status",
                r#"{"metadata": {"labels": {"l": "x"}, "annotations": {"n": "x"}}, "status": {"conditions": [
                    {"type": "Ready", "status": "True", "reason": "R", "message": "",
                     "lastTransitionTime": "2024-01-01T00:00:00Z"}]}}"#,
                Owners(200, r#"{"metadata": {"labels": null, "annotations": null}}"#, &[]),
            ),
        ],
    );
}

/// A deployment with two replicas, and one that leaves them to others.
const TWO: &str = r#"{"spec": {"replicas": 2, "selector": {"matchLabels": {"l": "x"}}, "template": {
    "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
const ANY: &str = r#"{"spec": {"selector": {"matchLabels": {"l": "x"}}, "template": {
    "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;

#[test]
fn who_scales_owns_the_replicas() {
    check(
        DEPLOYMENT,
        ".spec.replicas",
        &[
            ("apply a", TWO, Owners(201, "{}", &["a Apply apps/v1: .spec.replicas"])),
            (
                "put b /scale",
                r#"{"spec": {"replicas": 5}}"#,
                Owners(
                    200,
                    r#"{"kind": "Scale", "spec": {"replicas": 5}, "metadata": {"managedFields": null}}"#,
                    &["b Update apps/v1 /scale: .spec.replicas"],
                ),
            ),
            (
                "apply a",
                TWO,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "b" with subresource "scale" using apps/v1: .spec.replicas"#,
                    &[(".spec.replicas", r#"conflict with "b" with subresource "scale" using apps/v1"#)],
                ),
            ),
            // Who leaves the replicas to others is in nobody's way.
            ("apply a", ANY, Owners(200, r#"{"spec": {"replicas": 5}}"#, &["b Update apps/v1 /scale: .spec.replicas"])),
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
                Owners(200, r#"{"spec": {"replicas": 6}}"#, &["c Apply apps/v1 /scale: .spec.replicas"]),
            ),
            ("apply c /scale", r#"{"spec": {"replicas": 6}}"#, Same),
            (
                "apply d /scale",
                r#"{"spec": {"replicas": 6}}"#,
                Owners(
                    200,
                    "{}",
                    &["c Apply apps/v1 /scale: .spec.replicas", "d Apply apps/v1 /scale: .spec.replicas"],
                ),
            ),
            (
                "apply c /scale",
                "{}",
                Owners(200, r#"{"spec": {"replicas": 6}}"#, &["d Apply apps/v1 /scale: .spec.replicas"]),
            ),
            (
                "merge e /scale",
                r#"{"spec": {"replicas": 7}}"#,
                Owners(200, r#"{"spec": {"replicas": 7}}"#, &["e Update apps/v1 /scale: .spec.replicas"]),
            ),
            (
                "merge f",
                r#"{"spec": {"replicas": 8}}"#,
                Owners(200, r#"{"spec": {"replicas": 8}}"#, &["f Update apps/v1: .spec.replicas"]),
            ),
            (
                "apply a /scale",
                r#"{"spec": {"replicas": 8}}"#,
                Owners(200, "{}", &["a Apply apps/v1 /scale: .spec.replicas", "f Update apps/v1: .spec.replicas"]),
            ),
            ("force g", r#"{"spec": {"replicas": 9}}"#, Owners(200, "{}", &["g Apply apps/v1: .spec.replicas"])),
        ],
    );
}

#[test]
fn a_scale_that_nobody_applies_any_more_is_none() {
    pintle_testkit::run(async {
        let scene = Scene::of(DEPLOYMENT, ".spec.replicas").await;
        scene
            .play(&[
                ("apply a", ANY, Owners(201, r#"{"spec": {"replicas": 1}}"#, &[])),
                // What nobody owns in the object is, in a scale, somebody's from before.
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
                    Owners(200, "{}", &["c Apply apps/v1 /scale: .spec.replicas"]),
                ),
                // A scale has no default.
                ("apply c /scale", "{}", Owners(200, r#"{"spec": {"replicas": null}}"#, &[])),
            ])
            .await;
        assert_eq!(scene.stored().await.map(|object| object["spec"]["replicas"].clone()), Some(0.into()));
    });
}

#[test]
fn scales_are_configurations_of_their_own() {
    check(
        DEPLOYMENT,
        "",
        &[
            ("apply a /scale", "{}", Error(404, "NotFound", r#"deployments.apps "o" not found"#)),
            ("apply a @apps/v1", r#"{"spec": {}}"#, Error(422, "Invalid", INVALID)),
        ],
    );
    pintle_testkit::run(async {
        let scene = Scene::of(DEPLOYMENT, ".spec.replicas").await;
        let _ = scene.ask("apply a", ANY).await.expect(201);
        let path = format!("{}/o/scale?fieldManager=a&force=true", scene.collection("apps/v1"));
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
            scene.apply(&path, body).await.expect_error(code, reason, message);
        }
        let path = format!("{}/o/scale", scene.collection("apps/v1"));
        let body = r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"}}"#;
        let message =
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#;
        scene.apply(&path, body).await.expect_error(422, "Invalid", message);
    });
}

const INVALID: &str = "Deployment.apps \"o\" is invalid: [spec.selector: Required value, \
    spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, \
    spec.template.spec.containers: Required value]";

/// Upstream says what these two set, but asks nobody for it: they own whatever they send.
#[test]
fn ephemeral_containers_and_new_sizes_have_owners() {
    const LIMITED: &str =
        r#"{"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}"#;
    const MORE: &str = r#"{"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}}"#;
    const LIMIT: &str = r#".spec.containers[name="c"].resources.limits.cpu"#;
    check(
        POD,
        LIMIT,
        &[
            (
                "apply a",
                LIMITED,
                Owners(201, "{}", &[r#"a Apply v1: .spec.containers[name="c"].resources.limits.cpu"#]),
            ),
            (
                "apply r /resize",
                MORE,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.containers[name="c"].resources.limits.cpu"#,
                    &[(LIMIT, r#"conflict with "a""#)],
                ),
            ),
            (
                "force r /resize",
                MORE,
                Owners(200, "{}", &[r#"r Apply v1 /resize: .spec.containers[name="c"].resources.limits.cpu"#]),
            ),
        ],
    );
    check(
        POD,
        ".spec.ephemeralContainers",
        &[
            ("apply a", LIMITED, Owners(201, "{}", &[])),
            (
                "apply d /ephemeralcontainers",
                r#"{"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}"#,
                Owners(
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
