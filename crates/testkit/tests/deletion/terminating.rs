//! Objects that are on their way out: what still can be done with them, and what nobody can do but by deleting.

use serde_json::{Value, json};

use crate::{NONE, Scene, any, held, map, refused};

const T0: &str = "2023-11-14T22:13:20Z";

#[test]
fn nobody_ends_anything_by_writing() {
    let marked = |more: Value| json!({"metadata": {"name": "a", "deletionTimestamp": more}});
    let pods = json!({"metadata": {"name": "a", "deletionGracePeriodSeconds": 5}});
    let immutable = |field: &str, value: &str| {
        let error = format!("metadata.{field}: Invalid value: {value}: field is immutable");
        refused("Invalid", &format!("ConfigMap \"a\" is invalid: {error}"))
    };
    let other = "2030-01-01T00:00:00Z";
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let unmarked = json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}});
        let still = json!({"metadata": {"deletionTimestamp": T0, "deletionGracePeriodSeconds": 0}});
        scene
            .check(&[
                // A new object lives.
                ("POST configmaps", marked(json!(other)), 201, unmarked.clone()),
                ("DELETE configmaps/a", NONE, 200, any()),
                ("POST configmaps", pods.clone(), 201, unmarked),
                (
                    "PUT configmaps/a",
                    marked(json!(other)),
                    422,
                    immutable("deletionTimestamp", "\"2030-01-01T00:00:00Z\""),
                ),
                ("PUT configmaps/a", pods, 422, immutable("deletionGracePeriodSeconds", "5")),
                ("MERGE configmaps/a", json!({"metadata": {"finalizers": ["example.com/a"]}}), 200, any()),
                ("DELETE configmaps/a", NONE, 200, still.clone()),
                // What was said is neither taken back nor put off.
                ("PUT configmaps/a", held("a", &["example.com/a"]), 200, still.clone()),
                (
                    "MERGE configmaps/a",
                    json!({"metadata": {"deletionTimestamp": other}, "data": {"k": "v"}}),
                    200,
                    still.clone(),
                ),
                ("MERGE configmaps/a", json!({"metadata": {"deletionTimestamp": null}}), 200, still),
                (
                    "MERGE configmaps/a",
                    json!({"metadata": {"deletionGracePeriodSeconds": 5}}),
                    422,
                    immutable("deletionGracePeriodSeconds", "5"),
                ),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn its_name_is_taken_until_it_is_gone() {
    let taken = refused("AlreadyExists", "object is being deleted: configmaps \"a\" already exists");
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", held("a", &["example.com/a"]), 201, any()),
                ("POST configmaps", map("a"), 409, refused("AlreadyExists", "configmaps \"a\" already exists")),
                ("DELETE configmaps/a", NONE, 200, any()),
                ("POST configmaps", map("a"), 409, taken.clone()),
                ("POST configmaps?dryRun=All", map("a"), 409, taken),
                ("MERGE configmaps/a", json!({"metadata": {"finalizers": null}}), 200, any()),
                ("POST configmaps", map("a"), 201, json!({"metadata": {"deletionTimestamp": null}})),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn namespaces_are_marked_first() {
    let terminating = || json!({"metadata": {"deletionTimestamp": T0, "deletionGracePeriodSeconds": null}, "status": {"phase": "Terminating"}});
    let with = move |finalizers: Value| {
        let mut namespace = terminating();
        namespace["metadata"]["finalizers"] = finalizers;
        namespace
    };
    let path = "/api/v1/namespaces/n";
    let (delete, finalize) = (format!("DELETE {path}"), format!("PUT {path}/finalize"));
    let free = |finalizers: &Value| json!({"metadata": {"name": "n", "finalizers": finalizers}, "spec": {}});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        for (query, code, finalizers) in [
            ("", 200, Value::Null),
            ("?gracePeriodSeconds=5", 200, Value::Null),
            ("?propagationPolicy=Background", 200, Value::Null),
            ("?propagationPolicy=Orphan", 200, json!(["orphan"])),
            ("?propagationPolicy=Foreground", 200, json!(["foregroundDeletion"])),
            ("?orphanDependents=true", 200, json!(["orphan"])),
            // Upstream takes this for a wish to wait.
            ("?orphanDependents=false", 202, json!(["foregroundDeletion"])),
        ] {
            let first = format!("{delete}{query}");
            let rests = json!({"kind": "Namespace", "metadata": {"resourceVersion": "$n.rv"}});
            scene
                .check(&[
                    ("POST /api/v1/namespaces", map("n"), 201, json!({"status": {"phase": "Active"}})),
                    (&first, NONE, code, with(finalizers.clone())),
                    // As long as it is emptied it stays as it is.
                    (&format!("{delete}?propagationPolicy=Orphan"), NONE, 200, rests),
                    (&finalize, free(&finalizers), 200, with(finalizers.clone())),
                ])
                .await;
            if !finalizers.is_null() {
                // Now it is deleted as anything else.
                let rows = [
                    (delete.as_str(), NONE, 200, json!({"metadata": {"deletionGracePeriodSeconds": 0}})),
                    (&format!("{delete}?propagationPolicy=Background"), NONE, 200, json!({"kind": "Namespace"})),
                ];
                scene.check(&rows).await;
            }
            scene.check(&[(&format!("GET {path}"), NONE, 404, any())]).await;
        }
        scene.end().await;
    });
}

#[test]
fn definitions_are_marked_first() {
    const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
    let definition = json!({
        "metadata": {"name": "widgets.example.com", "finalizers": ["example.com/a"]},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let delete = format!("DELETE {path}/widgets.example.com");
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                (&format!("POST {path}"), definition, 201, json!({"metadata": {"generation": 1}})),
                // What is to become of dependents is nothing that the mark knows.
                (
                    &format!("{delete}?propagationPolicy=Orphan"),
                    NONE,
                    200,
                    json!({"metadata": {
                        "generation": 1, "deletionTimestamp": T0, "deletionGracePeriodSeconds": null,
                        "finalizers": ["example.com/a", CLEANUP],
                    }}),
                ),
            ])
            .await;
        // Its own finalizer goes as soon as it has no objects; the other one stays.
        let mut found = Value::Null;
        while found["metadata"]["finalizers"] != json!(["example.com/a"]) {
            found = scene.cluster.get(&format!("{path}/widgets.example.com")).await.expect(200).json();
        }
        scene
            .check(&[(
                &format!("{delete}?propagationPolicy=Orphan"),
                NONE,
                200,
                json!({"metadata": {"deletionGracePeriodSeconds": 0, "finalizers": ["example.com/a", "orphan"]}}),
            )])
            .await;
        scene.end().await;
    });
}
