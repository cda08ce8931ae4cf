//! Effects of apply on the object: it is created, changed or unchanged, and fields are added, removed or defaulted.

use futures_util::future::join_all;

use super::scenario::{
    CONFIGMAP, DEPLOYMENT, Error, LEASE, NotPersisted, POD, REPLICATION_CONTROLLER, SERVICE, Scenario, Unchanged, check,
};
use super::scenario::{Conflict, Managed};

#[test]
fn apply_creates_changes_and_skips_no_ops() {
    check(
        CONFIGMAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1"}}"#, Managed(201, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.k"])),
            ("apply a", r#"{"data": {"k": "1"}}"#, Unchanged),
            ("apply a", r#"{"data": {"k": "2"}}"#, Managed(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k"])),
            (
                "apply a",
                r#"{"metadata": {"labels": {"l": "x"}}, "data": {"k": "2", "m": "1"}}"#,
                Managed(
                    200,
                    r#"{"metadata": {"labels": {"l": "x"}}, "data": {"k": "2", "m": "1"}}"#,
                    &["a Apply v1: .data.k .data.m .metadata.labels.l"],
                ),
            ),
            // Fields that are no longer applied are removed, and so is a map that becomes empty.
            (
                "apply a",
                r#"{"data": {"m": "1"}}"#,
                Managed(200, r#"{"metadata": {"labels": null}, "data": {"k": null}}"#, &["a Apply v1: .data.m"]),
            ),
            // An applied empty map is owned although the object does not store it.
            ("apply a", r#"{"data": {}}"#, Managed(200, r#"{"data": null}"#, &["a Apply v1: .data"])),
        ],
    );
}

#[test]
fn shared_fields_are_removed_with_their_last_manager() {
    check(
        CONFIGMAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1", "a": "1"}}"#, Managed(201, "{}", &["a Apply v1: .data.a .data.k"])),
            // A manager that applies the same value shares the field.
            (
                "apply b",
                r#"{"data": {"k": "1", "b": "1"}}"#,
                Managed(
                    200,
                    r#"{"data": {"a": "1", "b": "1"}}"#,
                    &["a Apply v1: .data.a .data.k", "b Apply v1: .data.b .data.k"],
                ),
            ),
            ("apply a", r#"{"data": {"k": "1", "a": "1"}}"#, Unchanged),
            (
                "apply a",
                r#"{"data": {"a": "1"}}"#,
                Managed(200, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.a", "b Apply v1: .data.b .data.k"]),
            ),
            (
                "apply b",
                r#"{"data": {"b": "1"}}"#,
                Managed(200, r#"{"data": {"k": null}}"#, &["a Apply v1: .data.a", "b Apply v1: .data.b"]),
            ),
            // A manager that applies no fields has no entry.
            ("apply b", "{}", Managed(200, r#"{"data": {"a": "1", "b": null}}"#, &["a Apply v1: .data.a"])),
        ],
    );
}

#[test]
fn removed_fields_fall_back_to_their_defaults() {
    const WITH_REPLICAS: &str = r#"{"spec": {"replicas": 3, "selector": {"matchLabels": {"l": "x"}}, "template": {
        "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
    const WITHOUT_REPLICAS: &str = r#"{"spec": {"selector": {"matchLabels": {"l": "x"}}, "template": {
        "metadata": {"labels": {"l": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
    check(
        DEPLOYMENT,
        "",
        &[
            (
                "apply a",
                WITH_REPLICAS,
                Managed(
                    201,
                    r#"{"spec": {"replicas": 3, "revisionHistoryLimit": 10}, "metadata": {"generation": 1}}"#,
                    &["a Apply apps/v1: .spec.replicas .spec.selector .spec.template.metadata.labels.l \
                       .spec.template.spec.containers[name=\"c\"] .spec.template.spec.containers[name=\"c\"].image \
                       .spec.template.spec.containers[name=\"c\"].name"],
                ),
            ),
            ("apply a", WITH_REPLICAS, Unchanged),
            (
                "apply a",
                WITHOUT_REPLICAS,
                Managed(
                    200,
                    r#"{"spec": {"replicas": 1}, "metadata": {"generation": 2}}"#,
                    &["a Apply apps/v1: .spec.selector .spec.template.metadata.labels.l \
                       .spec.template.spec.containers[name=\"c\"] .spec.template.spec.containers[name=\"c\"].image \
                       .spec.template.spec.containers[name=\"c\"].name"],
                ),
            ),
            // Defaulted fields have no manager, so applying them does not conflict.
            (
                "apply b",
                r#"{"spec": {"replicas": 1}}"#,
                Managed(
                    200,
                    r#"{"spec": {"replicas": 1}, "metadata": {"generation": 2}}"#,
                    // A manager that has only started to share fields has no time, so its entry sorts first.
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
fn list_items_are_owned_individually() {
    check(
        SERVICE,
        ".spec.ports",
        &[
            (
                "apply a",
                r#"{"spec": {"ports": [{"name": "http", "port": 80}]}}"#,
                Managed(
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
                Managed(
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
                Managed(
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
fn set_values_are_owned_individually() {
    check(
        CONFIGMAP,
        ".metadata.finalizers",
        &[
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a"]}}"#,
                Managed(
                    201,
                    r#"{"metadata": {"finalizers": ["x/a"]}}"#,
                    &[r#"a Apply v1: .metadata.finalizers[="x/a"]"#],
                ),
            ),
            (
                "apply b",
                r#"{"metadata": {"finalizers": ["x/b"]}}"#,
                Managed(
                    200,
                    r#"{"metadata": {"finalizers": ["x/a", "x/b"]}}"#,
                    &[r#"a Apply v1: .metadata.finalizers[="x/a"]"#, r#"b Apply v1: .metadata.finalizers[="x/b"]"#],
                ),
            ),
            (
                "apply a",
                "{}",
                Managed(
                    200,
                    r#"{"metadata": {"finalizers": ["x/b"]}}"#,
                    &[r#"b Apply v1: .metadata.finalizers[="x/b"]"#],
                ),
            ),
        ],
    );
}

/// A value that the server only normalizes is not a change and does not update the entry's time.
#[test]
fn equivalent_values_do_not_change_the_object() {
    const BODY: &str =
        r#"{"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}]}}"#;
    check(
        POD,
        ".spec.containers[name=\"c\"].resources",
        &[
            (
                "apply a",
                BODY,
                Managed(
                    201,
                    r#"{"status": {"phase": "Pending"}}"#,
                    &[r#"a Apply v1: .spec.containers[name="c"].resources.limits.cpu"#],
                ),
            ),
            ("apply a", BODY, Unchanged),
        ],
    );
}

#[test]
fn dry_run_persists_nothing() {
    check(
        CONFIGMAP,
        "",
        &[
            ("apply a ?dryRun=All", r#"{"data": {"k": "1"}}"#, NotPersisted(201, r#"{"data": {"k": "1"}}"#)),
            ("apply a", r#"{"data": {"k": "1"}}"#, Managed(201, "{}", &["a Apply v1: .data.k"])),
            ("apply a ?dryRun=All", r#"{"data": {"k": "2"}}"#, NotPersisted(200, r#"{"data": {"k": "2"}}"#)),
            (
                "apply b ?dryRun=All",
                r#"{"data": {"k": "2"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a": .data.k"#,
                    &[(".data.k", r#"conflict with "a""#)],
                ),
            ),
            ("force b ?dryRun=All", r#"{"data": {"k": "2"}}"#, NotPersisted(200, r#"{"data": {"k": "2"}}"#)),
        ],
    );
}

#[test]
fn terminating_objects_can_be_applied() {
    check(
        CONFIGMAP,
        ".data",
        &[
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a"]}, "data": {"k": "1"}}"#,
                Managed(201, "{}", &["a Apply v1: .data.k"]),
            ),
            ("delete -", "", Managed(200, r#"{"metadata": {"finalizers": ["x/a"]}}"#, &["a Apply v1: .data.k"])),
            (
                "apply a",
                r#"{"metadata": {"finalizers": ["x/a"]}, "data": {"k": "2"}}"#,
                Managed(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k"]),
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
            // Without its last finalizer, the object is deleted and the next apply creates a new one.
            ("apply a", r#"{"data": {"k": "2"}}"#, Managed(200, r#"{"data": {"k": "2"}}"#, &[])),
            ("apply b", r#"{"data": {"k": "3"}}"#, Managed(201, r#"{"data": {"k": "3"}}"#, &["b Apply v1: .data.k"])),
        ],
    );
}

#[test]
fn uid_and_resource_version_are_preconditions() {
    check(
        CONFIGMAP,
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
            // A resourceVersion is not a precondition for a missing object.
            (
                "apply a",
                r#"{"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}}"#,
                Managed(201, "{}", &["a Apply v1: .data.k"]),
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
fn the_merged_object_is_validated() {
    check(
        REPLICATION_CONTROLLER,
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
                Managed(201, r#"{"spec": {"selector": {"l": "x"}}}"#, &["a Apply v1: .spec.replicas"]),
            ),
        ],
    );
}

#[test]
fn the_name_may_be_omitted_for_an_existing_object() {
    check(
        CONFIGMAP,
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
            ("apply a", r#"{"data": {"k": "1"}}"#, Managed(201, "{}", &["a Apply v1: .data.k"])),
            // An existing object provides the name.
            (
                "raw a",
                r#"{"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}"#,
                Managed(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k"]),
            ),
        ],
    );
}

#[test]
fn an_update_that_creates_owns_the_fields() {
    check(
        LEASE,
        "",
        &[
            (
                "replace a",
                r#"{"spec": {"holderIdentity": "me"}}"#,
                Managed(201, "{}", &["a Update coordination.k8s.io/v1: .spec.holderIdentity"]),
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
fn concurrent_applies_all_succeed() {
    const MANAGERS: usize = 12;
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        for round in 0..5 {
            let requests: Vec<(String, String)> = (0..MANAGERS)
                .map(|i| (format!("apply m{i}"), format!(r#"{{"data": {{"k{i}": "{round}"}}}}"#)))
                .collect();
            let responses = join_all(requests.iter().map(|(request, body)| scenario.send(request, body))).await;
            let created = responses.iter().filter(|response| response.status == 201).count();
            assert_eq!(created, usize::from(round == 0), "only one apply must create the object");
            for response in responses {
                assert!(response.status.is_success(), "{}", response.text());
            }
            let object = scenario.stored().await.expect("an object");
            for i in 0..MANAGERS {
                assert_eq!(object["data"][format!("k{i}")], round.to_string(), "{object}");
            }
            assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(MANAGERS), "{object}");
        }
    });
}
