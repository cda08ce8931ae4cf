//! Finalizers: deletions that they block, rules for adding and removing them, and the finalizers of the garbage
//! collector.

use serde_json::{Value, json};

use super::{NO_BODY, Scenario, any, configmap, deleted_status, failure_status, with_finalizers};

/// Returns an object's metadata with these finalizers.
fn finalizers_of(finalizers: Value) -> Value {
    json!({"metadata": {"finalizers": finalizers}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": "a"});
    let pods = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({
        "metadata": {"name": name, "finalizers": ["example.com/a"]},
        "spec": {"selector": {"matchLabels": labels}, "template": pods},
    })
}

#[test]
fn removing_the_last_finalizer_deletes_the_object() {
    let terminating = json!({"metadata": {
        "deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 0,
        "finalizers": ["example.com/a", "example.com/b"],
    }});
    let remove_first = || json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        for (last, body) in [
            ("PUT configmaps/a", configmap("a")),
            ("MERGE configmaps/a", json!({"metadata": {"finalizers": null}})),
            ("JSON configmaps/a", remove_first()),
            ("MERGE configmaps/a?dryRun=All", json!({"metadata": {"finalizers": null}})),
        ] {
            scenario
                .run_steps(&[
                    ("POST configmaps", with_finalizers("a", &["example.com/a", "example.com/b"]), 201, any()),
                    ("DELETE configmaps/a", NO_BODY, 200, terminating.clone()),
                    // A second delete does not change the object.
                    ("DELETE configmaps/a", NO_BODY, 200, json!({"metadata": {"resourceVersion": "$a.rv"}})),
                    ("JSON configmaps/a", remove_first(), 200, finalizers_of(json!(["example.com/b"]))),
                    // The response is the updated object with the revision before the deletion.
                    (last, body, 200, json!({"metadata": {"finalizers": null, "resourceVersion": "$a.rv"}})),
                ])
                .await;
            let code = if last.contains("dryRun") { 200 } else { 404 };
            scenario.run_steps(&[("GET configmaps/a", NO_BODY, code, any())]).await;
        }
        scenario.stop().await;
    });
}

#[test]
fn server_side_apply_can_remove_the_last_finalizer() {
    let applied = |finalizers: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": finalizers}});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("APPLY configmaps/a?fieldManager=m", applied(json!(["example.com/a"])), 201, any()),
                ("DELETE configmaps/a", NO_BODY, 200, finalizers_of(json!(["example.com/a"]))),
                (
                    "APPLY configmaps/a?fieldManager=m",
                    applied(json!(["example.com/a", "example.com/b"])),
                    422,
                    json!({"reason": "Invalid"}),
                ),
                ("APPLY configmaps/a?fieldManager=m", applied(json!([])), 200, finalizers_of(Value::Null)),
                ("GET configmaps/a", NO_BODY, 404, any()),
                // The object was deleted, so the next apply creates it.
                ("APPLY configmaps/a?fieldManager=m", applied(json!([])), 201, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn finalizers_cannot_be_added_to_a_terminating_object() {
    const NEW: &str = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
                       new finalizers []string{\"example.com/b\"}";
    let forbidden = failure_status("Invalid", &format!("ConfigMap \"a\" is invalid: {NEW}"));
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", with_finalizers("a", &["example.com/a"]), 201, any()),
                ("MERGE configmaps/a", finalizers_of(json!(["example.com/a", "example.com/c"])), 200, any()),
                ("DELETE configmaps/a", NO_BODY, 200, any()),
                (
                    "MERGE configmaps/a",
                    finalizers_of(json!(["example.com/a", "example.com/b"])),
                    422,
                    forbidden.clone(),
                ),
                ("PUT configmaps/a", with_finalizers("a", &["example.com/b"]), 422, forbidden),
                // All other fields can change.
                ("MERGE configmaps/a", json!({"data": {"k": "v"}}), 200, json!({"data": {"k": "v"}})),
                ("MERGE configmaps/a", finalizers_of(json!(["example.com/c"])), 200, any()),
                ("PUT configmaps/a", configmap("a"), 200, any()),
                ("GET configmaps/a", NO_BODY, 404, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

/// A `status` subresource that accepts metadata can remove the last finalizer.
#[test]
fn an_update_of_the_status_can_remove_the_last_finalizer() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST apps/v1/deployments", deployment("d"), 201, json!({"metadata": {"generation": 1}})),
                (
                    "DELETE apps/v1/deployments/d",
                    NO_BODY,
                    200,
                    json!({"metadata": {"generation": 2, "deletionGracePeriodSeconds": 0}}),
                ),
                ("DELETE apps/v1/deployments/d", NO_BODY, 200, json!({"metadata": {"generation": 2}})),
                ("MERGE apps/v1/deployments/d/status", json!({"metadata": {"finalizers": null}}), 200, any()),
                ("GET apps/v1/deployments/d", NO_BODY, 404, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn the_propagation_policy_sets_finalizers() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        // The finalizers before the delete, its query and status code, and the finalizers after it; `None` if the
        // object is deleted.
        let cases: &[(&[&str], &str, u16, Option<Value>)] = &[
            (&[], "", 200, None),
            (&[], "propagationPolicy=Background", 200, None),
            (&[], "propagationPolicy=Orphan", 200, Some(json!(["orphan"]))),
            (&[], "propagationPolicy=Foreground", 200, Some(json!(["foregroundDeletion"]))),
            (&[], "orphanDependents=true", 200, Some(json!(["orphan"]))),
            (&[], "orphanDependents=false", 200, None),
            (&["orphan"], "", 200, Some(json!(["orphan"]))),
            (&["foregroundDeletion"], "", 200, Some(json!(["foregroundDeletion"]))),
            (&["orphan"], "propagationPolicy=Background", 200, None),
            (&["orphan"], "orphanDependents=false", 200, None),
            (&["orphan"], "propagationPolicy=Foreground", 200, Some(json!(["foregroundDeletion"]))),
            (&["foregroundDeletion"], "orphanDependents=true", 200, Some(json!(["orphan"]))),
            (&["example.com/a"], "orphanDependents=false", 202, Some(json!(["example.com/a"]))),
            (&["example.com/a"], "orphanDependents=true", 200, Some(json!(["example.com/a", "orphan"]))),
            (
                &["orphan", "example.com/a"],
                "propagationPolicy=Foreground",
                200,
                Some(json!(["example.com/a", "foregroundDeletion"])),
            ),
        ];
        for (before, query, code, after) in cases {
            let delete = format!("DELETE configmaps/a?{query}");
            let response = after.clone().map_or_else(|| deleted_status("configmaps", "a"), finalizers_of);
            let found = if after.is_some() { 200 } else { 404 };
            scenario
                .run_steps(&[
                    ("POST configmaps", with_finalizers("a", before), 201, any()),
                    (&delete, NO_BODY, *code, response),
                    ("GET configmaps/a", NO_BODY, found, any()),
                ])
                .await;
            if after.is_some() {
                scenario
                    .run_steps(&[
                        // Clients can still remove the finalizers.
                        ("MERGE configmaps/a", json!({"metadata": {"finalizers": null}}), 200, any()),
                        ("GET configmaps/a", NO_BODY, 404, any()),
                    ])
                    .await;
            }
        }
        scenario.stop().await;
    });
}

#[test]
fn a_second_delete_can_change_the_propagation_policy() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, any()),
                (
                    "DELETE configmaps/a?propagationPolicy=Foreground",
                    NO_BODY,
                    200,
                    finalizers_of(json!(["foregroundDeletion"])),
                ),
                ("DELETE configmaps/a?propagationPolicy=Orphan", NO_BODY, 200, finalizers_of(json!(["orphan"]))),
                // Upstream returns an empty object for this dry run.
                (
                    "DELETE configmaps/a?propagationPolicy=Background&dryRun=All",
                    NO_BODY,
                    200,
                    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": null, "finalizers": null}}),
                ),
                ("DELETE configmaps/a", NO_BODY, 200, finalizers_of(json!(["orphan"]))),
                ("DELETE configmaps/a?propagationPolicy=Background", NO_BODY, 200, deleted_status("configmaps", "a")),
                ("GET configmaps/a", NO_BODY, 404, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

/// Some older kinds orphan by default. Events ignore the propagation policy.
#[test]
fn default_propagation_policies_depend_on_the_kind() {
    let job = || {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})
    };
    let event = || {
        let of = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        json!({"metadata": {"name": "e"}, "involvedObject": of})
    };
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST batch/v1/jobs", job(), 201, any()),
                ("DELETE batch/v1/jobs/j", NO_BODY, 200, finalizers_of(json!(["orphan"]))),
                (
                    "DELETE batch/v1/jobs/j?propagationPolicy=Foreground",
                    NO_BODY,
                    200,
                    finalizers_of(json!(["foregroundDeletion"])),
                ),
                // An existing finalizer takes precedence over the default.
                ("DELETE batch/v1/jobs/j", NO_BODY, 200, finalizers_of(json!(["foregroundDeletion"]))),
                (
                    "DELETE batch/v1/jobs/j?propagationPolicy=Background",
                    NO_BODY,
                    200,
                    deleted_status("batch/jobs", "j"),
                ),
                ("POST events", event(), 201, any()),
                ("DELETE events/e?propagationPolicy=Orphan", NO_BODY, 200, deleted_status("events", "e")),
                ("POST events", event(), 201, any()),
                (
                    "DELETE events.k8s.io/v1/events/e?propagationPolicy=Foreground",
                    NO_BODY,
                    200,
                    deleted_status("events.k8s.io/events", "e"),
                ),
            ])
            .await;
        scenario.stop().await;
    });
}
