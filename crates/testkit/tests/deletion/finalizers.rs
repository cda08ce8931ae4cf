//! Finalizers: what they hold back, who may add and remove them, and those of the garbage collector.

use serde_json::{Value, json};

use crate::{NONE, Scene, any, gone, held, map, refused};

/// An object that is there with these finalizers.
fn keeps(finalizers: Value) -> Value {
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
fn the_last_one_takes_the_object_along() {
    let terminating = json!({"metadata": {
        "deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 0,
        "finalizers": ["example.com/a", "example.com/b"],
    }});
    let one = || json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        for (last, body) in [
            ("PUT configmaps/a", map("a")),
            ("MERGE configmaps/a", json!({"metadata": {"finalizers": null}})),
            ("JSON configmaps/a", one()),
            ("MERGE configmaps/a?dryRun=All", json!({"metadata": {"finalizers": null}})),
        ] {
            scene
                .check(&[
                    ("POST configmaps", held("a", &["example.com/a", "example.com/b"]), 201, any()),
                    ("DELETE configmaps/a", NONE, 200, terminating.clone()),
                    // Nothing becomes of a second one.
                    ("DELETE configmaps/a", NONE, 200, json!({"metadata": {"resourceVersion": "$a.rv"}})),
                    ("JSON configmaps/a", one(), 200, keeps(json!(["example.com/b"]))),
                    // The answer is what was asked for, of the revision before the end.
                    (last, body, 200, json!({"metadata": {"finalizers": null, "resourceVersion": "$a.rv"}})),
                ])
                .await;
            let code = if last.contains("dryRun") { 200 } else { 404 };
            scene.check(&[("GET configmaps/a", NONE, code, any())]).await;
        }
        scene.end().await;
    });
}

#[test]
fn server_side_apply_lets_go_of_what_it_held() {
    let applied = |finalizers: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": finalizers}});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("APPLY configmaps/a?fieldManager=m", applied(json!(["example.com/a"])), 201, any()),
                ("DELETE configmaps/a", NONE, 200, keeps(json!(["example.com/a"]))),
                (
                    "APPLY configmaps/a?fieldManager=m",
                    applied(json!(["example.com/a", "example.com/b"])),
                    422,
                    json!({"reason": "Invalid"}),
                ),
                ("APPLY configmaps/a?fieldManager=m", applied(json!([])), 200, keeps(Value::Null)),
                ("GET configmaps/a", NONE, 404, any()),
                // What is gone is made anew.
                ("APPLY configmaps/a?fieldManager=m", applied(json!([])), 201, any()),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn none_come_after_the_end_has_begun() {
    const NEW: &str = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
                       new finalizers []string{\"example.com/b\"}";
    let refusal = refused("Invalid", &format!("ConfigMap \"a\" is invalid: {NEW}"));
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", held("a", &["example.com/a"]), 201, any()),
                ("MERGE configmaps/a", keeps(json!(["example.com/a", "example.com/c"])), 200, any()),
                ("DELETE configmaps/a", NONE, 200, any()),
                ("MERGE configmaps/a", keeps(json!(["example.com/a", "example.com/b"])), 422, refusal.clone()),
                ("PUT configmaps/a", held("a", &["example.com/b"]), 422, refusal),
                // Anything else can change.
                ("MERGE configmaps/a", json!({"data": {"k": "v"}}), 200, json!({"data": {"k": "v"}})),
                ("MERGE configmaps/a", keeps(json!(["example.com/c"])), 200, any()),
                ("PUT configmaps/a", map("a"), 200, any()),
                ("GET configmaps/a", NONE, 404, any()),
            ])
            .await;
        scene.end().await;
    });
}

/// Where `status` writes metadata, it can remove the last finalizer, too.
#[test]
fn a_subresource_can_be_the_last_to_let_go() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST apps/v1/deployments", deployment("d"), 201, json!({"metadata": {"generation": 1}})),
                (
                    "DELETE apps/v1/deployments/d",
                    NONE,
                    200,
                    json!({"metadata": {"generation": 2, "deletionGracePeriodSeconds": 0}}),
                ),
                ("DELETE apps/v1/deployments/d", NONE, 200, json!({"metadata": {"generation": 2}})),
                ("MERGE apps/v1/deployments/d/status", json!({"metadata": {"finalizers": null}}), 200, any()),
                ("GET apps/v1/deployments/d", NONE, 404, any()),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn dependents_are_a_matter_of_finalizers() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        // What is there, what a delete says, its code, and what there is then; nothing if the object goes.
        let rows: &[(&[&str], &str, u16, Option<Value>)] = &[
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
        for (before, query, code, after) in rows {
            let delete = format!("DELETE configmaps/a?{query}");
            let seen = after.clone().map_or_else(|| gone("configmaps", "a"), keeps);
            let found = if after.is_some() { 200 } else { 404 };
            scene
                .check(&[
                    ("POST configmaps", held("a", before), 201, any()),
                    (&delete, NONE, *code, seen),
                    ("GET configmaps/a", NONE, found, any()),
                ])
                .await;
            if after.is_some() {
                scene
                    .check(&[
                        // Whatever was said can be said anew.
                        ("MERGE configmaps/a", json!({"metadata": {"finalizers": null}}), 200, any()),
                        ("GET configmaps/a", NONE, 404, any()),
                    ])
                    .await;
            }
        }
        scene.end().await;
    });
}

#[test]
fn a_second_delete_can_say_otherwise() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", map("a"), 201, any()),
                ("DELETE configmaps/a?propagationPolicy=Foreground", NONE, 200, keeps(json!(["foregroundDeletion"]))),
                ("DELETE configmaps/a?propagationPolicy=Orphan", NONE, 200, keeps(json!(["orphan"]))),
                // Where a trial comes to no change, upstream shows an object without anything.
                (
                    "DELETE configmaps/a?propagationPolicy=Background&dryRun=All",
                    NONE,
                    200,
                    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": null, "finalizers": null}}),
                ),
                ("DELETE configmaps/a", NONE, 200, keeps(json!(["orphan"]))),
                ("DELETE configmaps/a?propagationPolicy=Background", NONE, 200, gone("configmaps", "a")),
                ("GET configmaps/a", NONE, 404, any()),
            ])
            .await;
        scene.end().await;
    });
}

/// A few old kinds orphan by default, and events have no dependents whatever is said.
#[test]
fn kinds_differ() {
    let job = || {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})
    };
    let event = || {
        let of = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        json!({"metadata": {"name": "e"}, "involvedObject": of})
    };
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST batch/v1/jobs", job(), 201, any()),
                ("DELETE batch/v1/jobs/j", NONE, 200, keeps(json!(["orphan"]))),
                (
                    "DELETE batch/v1/jobs/j?propagationPolicy=Foreground",
                    NONE,
                    200,
                    keeps(json!(["foregroundDeletion"])),
                ),
                // A finalizer that is there counts for more than the default.
                ("DELETE batch/v1/jobs/j", NONE, 200, keeps(json!(["foregroundDeletion"]))),
                ("DELETE batch/v1/jobs/j?propagationPolicy=Background", NONE, 200, gone("batch/jobs", "j")),
                ("POST events", event(), 201, any()),
                ("DELETE events/e?propagationPolicy=Orphan", NONE, 200, gone("events", "e")),
                ("POST events", event(), 201, any()),
                (
                    "DELETE events.k8s.io/v1/events/e?propagationPolicy=Foreground",
                    NONE,
                    200,
                    gone("events.k8s.io/events", "e"),
                ),
            ])
            .await;
        scene.end().await;
    });
}
