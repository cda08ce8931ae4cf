//! Terminating objects: which writes are still allowed, and fields that only a delete can set.

use serde_json::{Value, json};

use super::{NO_BODY, Scenario, any, configmap, failure_status, with_finalizers};

const T0: &str = "2023-11-14T22:13:20Z";

#[test]
fn writes_cannot_change_the_deletion_timestamp() {
    let with_deletion_timestamp = |more: Value| json!({"metadata": {"name": "a", "deletionTimestamp": more}});
    let with_grace_period = json!({"metadata": {"name": "a", "deletionGracePeriodSeconds": 5}});
    let immutable = |field: &str, value: &str| {
        let error = format!("metadata.{field}: Invalid value: {value}: field is immutable");
        failure_status("Invalid", &format!("ConfigMap \"a\" is invalid: {error}"))
    };
    let other = "2030-01-01T00:00:00Z";
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let not_terminating = json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}});
        let unchanged = json!({"metadata": {"deletionTimestamp": T0, "deletionGracePeriodSeconds": 0}});
        scenario
            .run_steps(&[
                // Create resets the deletion fields.
                ("POST configmaps", with_deletion_timestamp(json!(other)), 201, not_terminating.clone()),
                ("DELETE configmaps/a", NO_BODY, 200, any()),
                ("POST configmaps", with_grace_period.clone(), 201, not_terminating),
                (
                    "PUT configmaps/a",
                    with_deletion_timestamp(json!(other)),
                    422,
                    immutable("deletionTimestamp", "\"2030-01-01T00:00:00Z\""),
                ),
                ("PUT configmaps/a", with_grace_period, 422, immutable("deletionGracePeriodSeconds", "5")),
                ("MERGE configmaps/a", json!({"metadata": {"finalizers": ["example.com/a"]}}), 200, any()),
                ("DELETE configmaps/a", NO_BODY, 200, unchanged.clone()),
                // The deletion fields can be neither removed nor changed.
                ("PUT configmaps/a", with_finalizers("a", &["example.com/a"]), 200, unchanged.clone()),
                (
                    "MERGE configmaps/a",
                    json!({"metadata": {"deletionTimestamp": other}, "data": {"k": "v"}}),
                    200,
                    unchanged.clone(),
                ),
                ("MERGE configmaps/a", json!({"metadata": {"deletionTimestamp": null}}), 200, unchanged),
                (
                    "MERGE configmaps/a",
                    json!({"metadata": {"deletionGracePeriodSeconds": 5}}),
                    422,
                    immutable("deletionGracePeriodSeconds", "5"),
                ),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn the_name_is_in_use_until_the_object_is_deleted() {
    let already_exists = failure_status("AlreadyExists", "object is being deleted: configmaps \"a\" already exists");
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", with_finalizers("a", &["example.com/a"]), 201, any()),
                (
                    "POST configmaps",
                    configmap("a"),
                    409,
                    failure_status("AlreadyExists", "configmaps \"a\" already exists"),
                ),
                ("DELETE configmaps/a", NO_BODY, 200, any()),
                ("POST configmaps", configmap("a"), 409, already_exists.clone()),
                ("POST configmaps?dryRun=All", configmap("a"), 409, already_exists),
                ("MERGE configmaps/a", json!({"metadata": {"finalizers": null}}), 200, any()),
                ("POST configmaps", configmap("a"), 201, json!({"metadata": {"deletionTimestamp": null}})),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn namespaces_terminate_in_two_phases() {
    let terminating = || json!({"metadata": {"deletionTimestamp": T0, "deletionGracePeriodSeconds": null}, "status": {"phase": "Terminating"}});
    let terminating_with = move |finalizers: Value| {
        let mut namespace = terminating();
        namespace["metadata"]["finalizers"] = finalizers;
        namespace
    };
    let path = "/api/v1/namespaces/n";
    let (delete, finalize) = (format!("DELETE {path}"), format!("PUT {path}/finalize"));
    let without_spec_finalizers =
        |finalizers: &Value| json!({"metadata": {"name": "n", "finalizers": finalizers}, "spec": {}});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        for (query, code, finalizers) in [
            ("", 200, Value::Null),
            ("?gracePeriodSeconds=5", 200, Value::Null),
            ("?propagationPolicy=Background", 200, Value::Null),
            ("?propagationPolicy=Orphan", 200, json!(["orphan"])),
            ("?propagationPolicy=Foreground", 200, json!(["foregroundDeletion"])),
            ("?orphanDependents=true", 200, json!(["orphan"])),
            // Upstream treats this as foreground deletion and responds with 202.
            ("?orphanDependents=false", 202, json!(["foregroundDeletion"])),
        ] {
            let first = format!("{delete}{query}");
            let unchanged = json!({"kind": "Namespace", "metadata": {"resourceVersion": "$n.rv"}});
            scenario
                .run_steps(&[
                    ("POST /api/v1/namespaces", configmap("n"), 201, json!({"status": {"phase": "Active"}})),
                    (&first, NO_BODY, code, terminating_with(finalizers.clone())),
                    // While the namespace is being emptied, another delete does not change it.
                    (&format!("{delete}?propagationPolicy=Orphan"), NO_BODY, 200, unchanged),
                    (&finalize, without_spec_finalizers(&finalizers), 200, terminating_with(finalizers.clone())),
                ])
                .await;
            if !finalizers.is_null() {
                // Without spec.finalizers, it is deleted like any other object.
                let steps = [
                    (delete.as_str(), NO_BODY, 200, json!({"metadata": {"deletionGracePeriodSeconds": 0}})),
                    (&format!("{delete}?propagationPolicy=Background"), NO_BODY, 200, json!({"kind": "Namespace"})),
                ];
                scenario.run_steps(&steps).await;
            }
            scenario.run_steps(&[(&format!("GET {path}"), NO_BODY, 404, any())]).await;
        }
        scenario.stop().await;
    });
}

#[test]
fn crds_terminate_in_two_phases() {
    const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
    let crd = json!({
        "metadata": {"name": "widgets.example.com", "finalizers": ["example.com/a"]},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let delete = format!("DELETE {path}/widgets.example.com");
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                (&format!("POST {path}"), crd, 201, json!({"metadata": {"generation": 1}})),
                // The first phase ignores the propagation policy.
                (
                    &format!("{delete}?propagationPolicy=Orphan"),
                    NO_BODY,
                    200,
                    json!({"metadata": {
                        "generation": 1, "deletionTimestamp": T0, "deletionGracePeriodSeconds": null,
                        "finalizers": ["example.com/a", CLEANUP],
                    }}),
                ),
            ])
            .await;
        // The server removes its own finalizer when no custom resources are left. The other finalizer stays.
        let mut found = Value::Null;
        while found["metadata"]["finalizers"] != json!(["example.com/a"]) {
            found = scenario.cluster.get(&format!("{path}/widgets.example.com")).await.expect(200).json();
        }
        scenario
            .run_steps(&[(
                &format!("{delete}?propagationPolicy=Orphan"),
                NO_BODY,
                200,
                json!({"metadata": {"deletionGracePeriodSeconds": 0, "finalizers": ["example.com/a", "orphan"]}}),
            )])
            .await;
        scenario.stop().await;
    });
}
