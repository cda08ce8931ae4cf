//! Grace periods of pods, which alone have them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{NONE, Row, Scene, any};

/// The time at which a scene begins, and times after it.
const T0: &str = "2023-11-14T22:13:20Z";
const T1: &str = "2023-11-14T22:13:21Z";
const T5: &str = "2023-11-14T22:13:25Z";
const T9: &str = "2023-11-14T22:13:29Z";
const T10: &str = "2023-11-14T22:13:30Z";
const T30: &str = "2023-11-14T22:13:50Z";
const T40: &str = "2023-11-14T22:14:00Z";

/// When a pod goes, and the seconds that it has; `None` if it goes at once.
type End = Option<(&'static str, i64)>;

/// A pod on a node, whose own period is so many seconds.
fn pod(name: &str, period: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": period, "containers": [{"name": "c", "image": "i"}],
        },
    })
}

fn goes_at(time: &str, seconds: i64, generation: i64) -> Value {
    let metadata = json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": seconds, "generation": generation});
    json!({"kind": "Pod", "metadata": metadata})
}

#[test]
fn a_pod_has_its_time() {
    // The pod's own period, what a delete says, and when the pod goes then, with its seconds.
    let first: [(Value, &str, End); 10] = [
        (Value::Null, "", Some((T30, 30))),
        (json!(10), "", Some((T10, 10))),
        (json!(0), "", None),
        (json!(-5), "", Some((T1, 1))),
        (Value::Null, "?gracePeriodSeconds=5", Some((T5, 5))),
        (json!(10), "?gracePeriodSeconds=40", Some((T40, 40))),
        (json!(10), "?gracePeriodSeconds=1", Some((T1, 1))),
        (json!(10), "?gracePeriodSeconds=-7", Some((T1, 1))),
        (json!(10), "?gracePeriodSeconds=0", None),
        // Time goes around in Go.
        (Value::Null, "?gracePeriodSeconds=9223372036854775807", Some(("2023-11-14T22:13:19Z", i64::MAX))),
    ];
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        for (period, query, expect) in first {
            let delete = format!("DELETE pods/p{query}");
            let (seen, code) = match expect {
                Some((time, seconds)) => (goes_at(time, seconds, 2), 200),
                None => (goes_at(T0, 0, 2), 404),
            };
            scene
                .check(&[
                    ("POST pods", pod("p", period.clone()), 201, json!({"metadata": {"generation": 1}})),
                    (&delete, NONE, 200, seen),
                    ("GET pods/p", NONE, code, any()),
                ])
                .await;
            if code == 200 {
                scene.check(&[("DELETE pods/p?gracePeriodSeconds=0", NONE, 200, goes_at(T0, 0, 2))]).await;
            }
            scene.check(&[("GET pods/p", NONE, 404, any())]).await;
        }
        scene.end().await;
    });
}

#[test]
fn a_period_can_only_become_shorter() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST pods", pod("p", json!(30)), 201, any()),
                ("DELETE pods/p", NONE, 200, goes_at(T30, 30, 2)),
                // No longer one, and nothing new at all.
                ("DELETE pods/p", NONE, 200, json!({"metadata": {"resourceVersion": "$p.rv"}})),
                ("DELETE pods/p?gracePeriodSeconds=30", NONE, 200, json!({"metadata": {"resourceVersion": "$p.rv"}})),
                ("DELETE pods/p?gracePeriodSeconds=99", NONE, 200, json!({"metadata": {"resourceVersion": "$p.rv"}})),
                // Not even what is to become of dependents.
                ("DELETE pods/p?propagationPolicy=Foreground", NONE, 200, json!({"metadata": {"finalizers": null}})),
                ("DELETE pods/p?gracePeriodSeconds=10", NONE, 200, goes_at(T10, 10, 2)),
            ])
            .await;
        scene.clock.advance(Duration::from_secs(9));
        // What would have ended ends now, but whoever gives time gives the least there is.
        scene.check(&[("DELETE pods/p?gracePeriodSeconds=3", NONE, 200, goes_at(T9, 1, 2))]).await;
        scene.check(&[("DELETE pods/p?gracePeriodSeconds=1", NONE, 200, goes_at(T9, 1, 2))]).await;
        scene.check(&[("DELETE pods/p?gracePeriodSeconds=0", NONE, 200, goes_at(T9, 0, 2))]).await;
        scene.check(&[("GET pods/p", NONE, 404, any())]).await;
        scene.end().await;
    });
}

#[test]
fn who_does_not_run_goes_at_once() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let mut unscheduled = pod("p", json!(30));
        unscheduled["spec"]["nodeName"] = json!("");
        for (object, phase) in
            [(unscheduled, "Pending"), (pod("p", json!(30)), "Succeeded"), (pod("p", json!(30)), "Failed")]
        {
            scene
                .check(&[
                    ("POST pods", object, 201, any()),
                    ("MERGE pods/p/status", json!({"status": {"phase": phase}}), 200, any()),
                    ("DELETE pods/p?gracePeriodSeconds=20", NONE, 200, goes_at(T0, 0, 2)),
                    ("GET pods/p", NONE, 404, any()),
                ])
                .await;
        }
        scene.end().await;
    });
}

#[test]
fn finalizers_outlast_the_period() {
    let mut object = pod("p", json!(30));
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    let free = || json!({"metadata": {"finalizers": null}});
    let rows: [Row<'_>; 14] = [
        ("POST pods", object.clone(), 201, any()),
        ("DELETE pods/p", NONE, 200, goes_at(T30, 30, 2)),
        ("DELETE pods/p?gracePeriodSeconds=0", NONE, 200, goes_at(T0, 0, 2)),
        // The time is over, so this is about dependents again.
        ("DELETE pods/p", NONE, 200, json!({"metadata": {"resourceVersion": "$p.rv"}})),
        (
            "DELETE pods/p?propagationPolicy=Orphan",
            NONE,
            200,
            json!({"metadata": {"finalizers": ["example.com/a", "orphan"], "deletionGracePeriodSeconds": 0}}),
        ),
        (
            "DELETE pods/p?propagationPolicy=Background",
            NONE,
            200,
            json!({"metadata": {"finalizers": ["example.com/a"]}}),
        ),
        ("MERGE pods/p", free(), 200, any()),
        ("GET pods/p", NONE, 404, any()),
        // The finalizer goes first: the pod has its time nonetheless.
        ("POST pods", object, 201, any()),
        ("DELETE pods/p", NONE, 200, goes_at(T30, 30, 2)),
        ("MERGE pods/p", free(), 200, goes_at(T30, 30, 2)),
        ("GET pods/p", NONE, 200, goes_at(T30, 30, 2)),
        ("DELETE pods/p?gracePeriodSeconds=0", NONE, 200, any()),
        ("GET pods/p", NONE, 404, any()),
    ];
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene.check(&rows).await;
        scene.end().await;
    });
}

/// Whoever watches sees the mark and then the end, which is of a revision of its own.
#[test]
fn watchers_see_both_steps() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let mut watch = scene.cluster.watch("/api/v1/namespaces/default/pods?watch=1").await;
        scene.check(&[("POST pods", pod("p", json!(30)), 201, any())]).await;
        let made = watch.expect("ADDED", "p").await;
        scene.check(&[("DELETE pods/p?gracePeriodSeconds=0", NONE, 200, any())]).await;
        let revision =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        let marked = watch.expect("MODIFIED", "p").await;
        let last = watch.expect("DELETED", "p").await;
        assert!(revision(&made) < revision(&marked) && revision(&marked) < revision(&last), "{marked} {last}");
        // Beside its revision, the last state is the marked one; who owns what says nothing of deletion.
        let mut expect = marked.clone();
        expect["metadata"]["resourceVersion"] = last["metadata"]["resourceVersion"].clone();
        assert_eq!(last, expect);
        assert_eq!(marked["metadata"]["managedFields"], made["metadata"]["managedFields"]);
        // The answer of the delete is the last state, too.
        assert_eq!(scene.known["p.rv"], last["metadata"]["resourceVersion"].as_str().expect("one"));
        scene.end().await;
    });
}

/// Kinds without grace take no notice of periods.
#[test]
fn others_have_no_time() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", crate::held("a", &["example.com/a"]), 201, any()),
                (
                    "DELETE configmaps/a?gracePeriodSeconds=60",
                    NONE,
                    200,
                    json!({"metadata": {"deletionTimestamp": T0, "deletionGracePeriodSeconds": 0, "generation": null}}),
                ),
                ("POST configmaps", crate::map("b"), 201, any()),
                ("DELETE configmaps/b?gracePeriodSeconds=60", NONE, 200, crate::gone("configmaps", "b")),
            ])
            .await;
        scene.end().await;
    });
}
