//! Preconditions of deletes and updates.

use serde_json::{Value, json};

use super::{NO_BODY, Scenario, any, configmap, deleted_status, failure_status, with_finalizers};

fn precondition(what: &str, expected: &str) -> Value {
    json!({"preconditions": {what: expected}})
}

fn uid_conflict(expected: &str) -> Value {
    failure_status(
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition ({expected}) does not match the UID \
             in record ($a.uid). The object might have been deleted and then recreated"
        ),
    )
}

fn version_conflict(expected: &str) -> Value {
    failure_status(
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition ({expected}) does not \
             match the ResourceVersion in record ($a.rv). The object might have been modified"
        ),
    )
}

#[test]
fn delete_fails_if_a_precondition_does_not_hold() {
    let both = |uid: &str, version: &str| json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    let mut with_details = uid_conflict("no");
    with_details["details"] = json!({"name": "a", "kind": "ConfigMap", "group": null});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, any()),
                ("DELETE configmaps/a", precondition("uid", "no"), 409, with_details),
                ("DELETE configmaps/a", precondition("uid", ""), 409, uid_conflict("")),
                ("DELETE configmaps/a?uid=no", NO_BODY, 409, uid_conflict("no")),
                ("DELETE configmaps/a", precondition("resourceVersion", "1"), 409, version_conflict("1")),
                ("DELETE configmaps/a?resourceVersion=0", NO_BODY, 409, version_conflict("0")),
                ("DELETE configmaps/a", both("no", "1"), 409, uid_conflict("no")),
                ("DELETE configmaps/a", both("$a.uid", "1"), 409, version_conflict("1")),
                // A missing object is reported before a failed precondition.
                (
                    "DELETE configmaps/b",
                    precondition("uid", "no"),
                    404,
                    failure_status("NotFound", "configmaps \"b\" not found"),
                ),
                ("DELETE configmaps/a", both("$a.uid", "$a.rv"), 200, deleted_status("configmaps", "a")),
                // Preconditions also apply to a second delete and to a dry run.
                ("POST configmaps", with_finalizers("a", &["example.com/a"]), 201, any()),
                ("DELETE configmaps/a", precondition("resourceVersion", "$a.rv"), 200, any()),
                ("DELETE configmaps/a?dryRun=All&uid=no", NO_BODY, 409, uid_conflict("no")),
                ("DELETE configmaps/a", precondition("uid", "$a.uid"), 200, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

/// A pod that is deleted at once is first marked as terminating. The precondition does not fail because of that
/// revision.
#[test]
fn the_resource_version_precondition_ignores_the_graceful_deletion_update() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST pods", pod, 201, any()),
                ("DELETE pods/p", precondition("resourceVersion", "$p.rv"), 200, json!({"kind": "Pod"})),
                ("GET pods/p", NO_BODY, 404, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

/// Kinds with two-phase deletion have other error messages.
#[test]
fn two_phase_kinds_have_their_own_messages() {
    let conflict = |resource: &str, name: &str, what: &str, expected: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}");
        failure_status("Conflict", &format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"))
    };
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let crds = "customresourcedefinitions.apiextensions.k8s.io";
    let mut uid = conflict("namespaces", "n", "UID", "no", "$n.uid");
    uid["details"] = json!({"name": "n", "kind": "namespaces"});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST /api/v1/namespaces", configmap("n"), 201, any()),
                ("DELETE /api/v1/namespaces/n", precondition("uid", "no"), 409, uid),
                (
                    "DELETE /api/v1/namespaces/n",
                    precondition("resourceVersion", "1"),
                    409,
                    conflict("namespaces", "n", "ResourceVersion", "1", "$n.rv"),
                ),
                ("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd, 201, any()),
                (
                    "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
                    precondition("uid", "no"),
                    409,
                    conflict(crds, "widgets.example.com", "UID", "no", "$widgets.example.com.uid"),
                ),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn an_update_with_another_uid_is_a_conflict() {
    const IMMUTABLE: &str = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"no\": field is immutable";
    let uid = |uid: &str| json!({"metadata": {"name": "a", "uid": uid}});
    let conflict = |key: &str| {
        failure_status(
            "Conflict",
            &format!(
                "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: {key}, \
                 ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: no, UID in object \
                 meta: $a.uid"
            ),
        )
    };
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, any()),
                ("PUT configmaps/a", uid("no"), 409, conflict("/registry/configmaps/default/a")),
                ("PUT configmaps/a?dryRun=All", uid("no"), 409, conflict("/configmaps/default/a")),
                // A patch has no UID precondition: the patched object is invalid.
                ("MERGE configmaps/a", json!({"metadata": {"uid": "no"}}), 422, failure_status("Invalid", IMMUTABLE)),
                ("PUT configmaps/a", uid("$a.uid"), 200, any()),
                // A recreated object has another UID.
                ("DELETE configmaps/a", NO_BODY, 200, any()),
            ])
            .await;
        let before = scenario.variables["a.uid"].clone();
        scenario.run_steps(&[("POST configmaps", configmap("a"), 201, any())]).await;
        assert_ne!(scenario.variables["a.uid"], before);
        scenario.run_steps(&[("DELETE configmaps/a", precondition("uid", &before), 409, uid_conflict(&before))]).await;
        scenario.stop().await;
    });
}
