//! What applying does to the object: it is created, changed, left alone; fields come, go and fall back to their defaults.

use futures_util::future::join_all;

use crate::scene::{CONTROLLER, DEPLOYMENT, Error, LEASE, MAP, POD, SERVICE, Same, Scene, Unstored, check};
use crate::scene::{Conflict, Owners};

#[test]
fn applying_creates_and_changes_and_leaves_alone() {
    check(
        MAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1"}}"#, Owners(201, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.k"])),
            ("apply a", r#"{"data": {"k": "1"}}"#, Same),
            ("apply a", r#"{"data": {"k": "2"}}"#, Owners(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k"])),
            (
                "apply a",
                r#"{"metadata": {"labels": {"l": "x"}}, "data": {"k": "2", "m": "1"}}"#,
                Owners(
                    200,
                    r#"{"metadata": {"labels": {"l": "x"}}, "data": {"k": "2", "m": "1"}}"#,
                    &["a Apply v1: .data.k .data.m .metadata.labels.l"],
                ),
            ),
            // What is not applied any more goes, and an empty map with it.
            (
                "apply a",
                r#"{"data": {"m": "1"}}"#,
                Owners(200, r#"{"metadata": {"labels": null}, "data": {"k": null}}"#, &["a Apply v1: .data.m"]),
            ),
            // An empty map is owned, though the object does not keep it.
            ("apply a", r#"{"data": {}}"#, Owners(200, r#"{"data": null}"#, &["a Apply v1: .data"])),
        ],
    );
}

#[test]
fn fields_that_several_apply_stay_until_nobody_does() {
    check(
        MAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1", "a": "1"}}"#, Owners(201, "{}", &["a Apply v1: .data.a .data.k"])),
            // Who agrees shares.
            (
                "apply b",
                r#"{"data": {"k": "1", "b": "1"}}"#,
                Owners(
                    200,
                    r#"{"data": {"a": "1", "b": "1"}}"#,
                    &["a Apply v1: .data.a .data.k", "b Apply v1: .data.b .data.k"],
                ),
            ),
            ("apply a", r#"{"data": {"k": "1", "a": "1"}}"#, Same),
            (
                "apply a",
                r#"{"data": {"a": "1"}}"#,
                Owners(200, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.a", "b Apply v1: .data.b .data.k"]),
            ),
            (
                "apply b",
                r#"{"data": {"b": "1"}}"#,
                Owners(200, r#"{"data": {"k": null}}"#, &["a Apply v1: .data.a", "b Apply v1: .data.b"]),
            ),
            // Who applies nothing owns nothing, and is not named.
            ("apply b", "{}", Owners(200, r#"{"data": {"a": "1", "b": null}}"#, &["a Apply v1: .data.a"])),
        ],
    );
}

#[test]
fn fields_that_nobody_applies_any_more_fall_back_to_their_defaults() {
    const WITH: &str = r#"{"spec": {"replicas": 3, "selector": {"matchLabels": {"l": "x"}}, "template": {
        "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
    const WITHOUT: &str = r#"{"spec": {"selector": {"matchLabels": {"l": "x"}}, "template": {
        "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
    check(
        DEPLOYMENT,
        "",
        &[
            (
                "apply a",
                WITH,
                Owners(
                    201,
                    r#"{"spec": {"replicas": 3, "revisionHistoryLimit": 10}, "metadata": {"generation": 1}}"#,
                    &["a Apply apps/v1: .spec.replicas .spec.selector .spec.template.metadata.labels.l \
                       .spec.template.spec.containers[name=\"c\"] .spec.template.spec.containers[name=\"c\"].image \
                       .spec.template.spec.containers[name=\"c\"].name"],
                ),
            ),
            ("apply a", WITH, Same),
            (
                "apply a",
                WITHOUT,
                Owners(
                    200,
                    r#"{"spec": {"replicas": 1}, "metadata": {"generation": 2}}"#,
                    &["a Apply apps/v1: .spec.selector .spec.template.metadata.labels.l \
                       .spec.template.spec.containers[name=\"c\"] .spec.template.spec.containers[name=\"c\"].image \
                       .spec.template.spec.containers[name=\"c\"].name"],
                ),
            ),
            // Defaults are nobody's, so everybody may set them.
            (
                "apply b",
                r#"{"spec": {"replicas": 1}}"#,
                Owners(
                    200,
                    r#"{"spec": {"replicas": 1}, "metadata": {"generation": 2}}"#,
                    // Who comes to share what was there has no time, and therefore comes first.
                    &[
                        "b Apply apps/v1: .spec.replicas",
                        "a Apply apps/v1: .spec.selector .spec.template.metadata.labels.l \
                       .spec.template.spec.containers[name=\"c\"] .spec.template.spec.containers[name=\"c\"].image \
                       .spec.template.spec.containers[name=\"c\"].name",
                    ],
                ),
            ),
        ],
    );
}

#[test]
fn items_of_lists_are_owned_one_by_one() {
    check(
        SERVICE,
        ".spec.ports",
        &[
            (
                "apply a",
                r#"{"spec": {"ports": [{"name": "http", "port": 80}]}}"#,
                Owners(
                    201,
                    r#"{"spec": {"ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}]}}"#,
                    &[
                        r#"a Apply v1: .spec.ports[port=80,protocol="TCP"] .spec.ports[port=80,protocol="TCP"].name .spec.ports[port=80,protocol="TCP"].port"#,
                    ],
                ),
            ),
            (
                "apply b",
                r#"{"spec": {"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}}"#,
                Owners(
                    200,
                    r#"{"spec": {"ports": [
                        {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80},
                        {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53}]}}"#,
                    &[
                        r#"a Apply v1: .spec.ports[port=80,protocol="TCP"] .spec.ports[port=80,protocol="TCP"].name .spec.ports[port=80,protocol="TCP"].port"#,
                        r#"b Apply v1: .spec.ports[port=53,protocol="UDP"] .spec.ports[port=53,protocol="UDP"].name .spec.ports[port=53,protocol="UDP"].port .spec.ports[port=53,protocol="UDP"].protocol"#,
                    ],
                ),
            ),
            (
                "apply b",
                r#"{"spec": {"ports": [{"name": "web", "port": 80}]}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.ports[port=80,protocol="TCP"].name"#,
                    &[(r#".spec.ports[port=80,protocol="TCP"].name"#, r#"conflict with "a""#)],
                ),
            ),
            (
                "apply a",
                "{}",
                Owners(
                    200,
                    r#"{"spec": {"ports": [{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53}]}}"#,
                    &[
                        r#"b Apply v1: .spec.ports[port=53,protocol="UDP"] .spec.ports[port=53,protocol="UDP"].name .spec.ports[port=53,protocol="UDP"].port .spec.ports[port=53,protocol="UDP"].protocol"#,
                    ],
                ),
            ),
        ],
    );
}

#[test]
fn sets_are_owned_value_by_value() {
    check(
        MAP,
        ".metadata.finalizers",
        &[
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a"]}}"#,
                Owners(
                    201,
                    r#"{"metadata": {"finalizers": ["x/a"]}}"#,
                    &[r#"a Apply v1: .metadata.finalizers[="x/a"]"#],
                ),
            ),
            (
                "apply b",
                r#"{"metadata": {"finalizers": ["x/b"]}}"#,
                Owners(
                    200,
                    r#"{"metadata": {"finalizers": ["x/a", "x/b"]}}"#,
                    &[r#"a Apply v1: .metadata.finalizers[="x/a"]"#, r#"b Apply v1: .metadata.finalizers[="x/b"]"#],
                ),
            ),
            (
                "apply a",
                "{}",
                Owners(
                    200,
                    r#"{"metadata": {"finalizers": ["x/b"]}}"#,
                    &[r#"b Apply v1: .metadata.finalizers[="x/b"]"#],
                ),
            ),
        ],
    );
}

/// What the server writes in another way than it was applied is no change, and no reason for a new time.
#[test]
fn what_is_only_written_differently_does_not_change() {
    const BODY: &str =
        r#"{"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}]}}"#;
    check(
        POD,
        ".spec.containers[name=\"c\"].resources",
        &[
            (
                "apply a",
                BODY,
                Owners(
                    201,
                    r#"{"status": {"phase": "Pending"}}"#,
                    &[r#"a Apply v1: .spec.containers[name="c"].resources.limits.cpu"#],
                ),
            ),
            ("apply a", BODY, Same),
        ],
    );
}

#[test]
fn dry_runs_store_nothing() {
    check(
        MAP,
        "",
        &[
            ("apply a ?dryRun=All", r#"{"data": {"k": "1"}}"#, Unstored(201, r#"{"data": {"k": "1"}}"#)),
            ("apply a", r#"{"data": {"k": "1"}}"#, Owners(201, "{}", &["a Apply v1: .data.k"])),
            ("apply a ?dryRun=All", r#"{"data": {"k": "2"}}"#, Unstored(200, r#"{"data": {"k": "2"}}"#)),
            (
                "apply b ?dryRun=All",
                r#"{"data": {"k": "2"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a": .data.k"#,
                    &[(".data.k", r#"conflict with "a""#)],
                ),
            ),
            ("force b ?dryRun=All", r#"{"data": {"k": "2"}}"#, Unstored(200, r#"{"data": {"k": "2"}}"#)),
        ],
    );
}

#[test]
fn objects_that_go_away_are_still_applied_to() {
    check(
        MAP,
        ".data",
        &[
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a"]}, "data": {"k": "1"}}"#,
                Owners(201, "{}", &["a Apply v1: .data.k"]),
            ),
            ("delete -", "", Owners(200, r#"{"metadata": {"finalizers": ["x/a"]}}"#, &["a Apply v1: .data.k"])),
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a"]}, "data": {"k": "2"}}"#,
                Owners(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k"]),
            ),
            (
                "apply b",
                r#"{"metadata": {"finalizers": ["x/b"]}}"#,
                Error(
                    422,
                    "Invalid",
                    r#"ConfigMap "o" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x/b"}"#,
                ),
            ),
            // Without its last finalizer it is gone, and the next apply makes a new one.
            ("apply a", r#"{"data": {"k": "2"}}"#, Owners(200, r#"{"data": {"k": "2"}}"#, &[])),
            ("apply b", r#"{"data": {"k": "3"}}"#, Owners(201, r#"{"data": {"k": "3"}}"#, &["b Apply v1: .data.k"])),
        ],
    );
}

#[test]
fn the_object_may_be_said_to_be_a_certain_one() {
    check(
        MAP,
        "",
        &[
            (
                "apply a",
                r#"{"metadata": {"uid": "u"}, "data": {"k": "1"}}"#,
                Error(
                    409,
                    "Conflict",
                    "Operation cannot be fulfilled on configmaps \"o\": uid mismatch: the provided object specified uid u, \
                     and no existing object was found",
                ),
            ),
            // A version that an object which is not there had is nothing to hold against a new one.
            (
                "apply a",
                r#"{"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}}"#,
                Owners(201, "{}", &["a Apply v1: .data.k"]),
            ),
            (
                "apply a",
                r#"{"metadata": {"resourceVersion": "1"}, "data": {"k": "2"}}"#,
                Error(
                    409,
                    "Conflict",
                    "Operation cannot be fulfilled on configmaps \"o\": the object has been modified; please apply your \
                     changes to the latest version and try again",
                ),
            ),
            (
                "apply a",
                r#"{"metadata": {"uid": "u"}, "data": {"k": "2"}}"#,
                Error(
                    422,
                    "Invalid",
                    r#"ConfigMap "o" is invalid: metadata.uid: Invalid value: "u": field is immutable"#,
                ),
            ),
        ],
    );
}

#[test]
fn rules_hold_for_what_comes_of_applying() {
    check(
        CONTROLLER,
        ".spec.replicas",
        &[
            (
                "apply a",
                r#"{"spec": {"replicas": -1, "template": {"metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
                Error(
                    422,
                    "Invalid",
                    r#"ReplicationController "o" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#,
                ),
            ),
            (
                "apply a",
                r#"{"spec": {"replicas": 2, "template": {"metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
                Owners(201, r#"{"spec": {"selector": {"l": "x"}}}"#, &["a Apply v1: .spec.replicas"]),
            ),
        ],
    );
}

#[test]
fn the_path_names_the_object() {
    check(
        MAP,
        "",
        &[
            (
                "raw a",
                r#"{"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}}"#,
                Error(
                    400,
                    "BadRequest",
                    "the name of the object (o based on URL) was undeterminable: name must be provided",
                ),
            ),
            ("apply a", r#"{"data": {"k": "1"}}"#, Owners(201, "{}", &["a Apply v1: .data.k"])),
            // What is there has a name.
            (
                "raw a",
                r#"{"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}"#,
                Owners(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k"]),
            ),
        ],
    );
}

#[test]
fn updates_that_create_own_what_they_create() {
    check(
        LEASE,
        "",
        &[
            (
                "replace a",
                r#"{"spec": {"holderIdentity": "me"}}"#,
                Owners(201, "{}", &["a Update coordination.k8s.io/v1: .spec.holderIdentity"]),
            ),
            (
                "apply b",
                r#"{"spec": {"holderIdentity": "you"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a" using coordination.k8s.io/v1: .spec.holderIdentity"#,
                    &[(".spec.holderIdentity", r#"conflict with "a" using coordination.k8s.io/v1"#)],
                ),
            ),
        ],
    );
}

#[test]
fn all_who_apply_at_the_same_time_succeed() {
    const MANY: usize = 12;
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        for round in 0..5 {
            let requests: Vec<(String, String)> =
                (0..MANY).map(|i| (format!("apply m{i}"), format!(r#"{{"data": {{"k{i}": "{round}"}}}}"#))).collect();
            let answers = join_all(requests.iter().map(|(request, body)| scene.ask(request, body))).await;
            let created = answers.iter().filter(|answer| answer.status == 201).count();
            assert_eq!(created, usize::from(round == 0), "one creates");
            for answer in answers {
                assert!(answer.status.is_success(), "{}", answer.text());
            }
            let object = scene.stored().await.expect("an object");
            for i in 0..MANY {
                assert_eq!(object["data"][format!("k{i}")], round.to_string(), "{object}");
            }
            assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(MANY), "{object}");
        }
    });
}
