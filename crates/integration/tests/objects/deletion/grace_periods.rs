//! Grace periods, which only pods have.

use std::time::Duration;

use serde_json::{Value, json};

use super::{NO_BODY, Scenario, Step, any};

/// The time at which a scenario starts, and times after it.
const T0: &str = "2023-11-14T22:13:20Z";
const T1: &str = "2023-11-14T22:13:21Z";
const T5: &str = "2023-11-14T22:13:25Z";
const T9: &str = "2023-11-14T22:13:29Z";
const T10: &str = "2023-11-14T22:13:30Z";
const T30: &str = "2023-11-14T22:13:50Z";
const T40: &str = "2023-11-14T22:14:00Z";

/// The deletion timestamp of a pod and its grace period in seconds; `None` if the pod is deleted at once.
type Deadline = Option<(&'static str, i64)>;

/// Returns a pod on a node with a grace period in its spec.
fn pod(name: &str, period: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": period, "containers": [{"name": "c", "image": "i"}],
        },
    })
}

fn terminating_at(time: &str, seconds: i64, generation: i64) -> Value {
    let metadata = json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": seconds, "generation": generation});
    json!({"kind": "Pod", "metadata": metadata})
}

#[test]
fn the_grace_period_comes_from_the_options_or_the_pod() {
    // The pod's own grace period, the query of the delete, and the expected deadline.
    let cases: [(Value, &str, Deadline); 10] = [
        (Value::Null, "", Some((T30, 30))),
        (json!(10), "", Some((T10, 10))),
        (json!(0), "", None),
        (json!(-5), "", Some((T1, 1))),
        (Value::Null, "?gracePeriodSeconds=5", Some((T5, 5))),
        (json!(10), "?gracePeriodSeconds=40", Some((T40, 40))),
        (json!(10), "?gracePeriodSeconds=1", Some((T1, 1))),
        (json!(10), "?gracePeriodSeconds=-7", Some((T1, 1))),
        (json!(10), "?gracePeriodSeconds=0", None),
        // The time overflows in Go.
        (Value::Null, "?gracePeriodSeconds=9223372036854775807", Some(("2023-11-14T22:13:19Z", i64::MAX))),
    ];
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        for (period, query, expect) in cases {
            let delete = format!("DELETE pods/p{query}");
            let (response, code) = match expect {
                Some((time, seconds)) => (terminating_at(time, seconds, 2), 200),
                None => (terminating_at(T0, 0, 2), 404),
            };
            scenario
                .run_steps(&[
                    ("POST pods", pod("p", period.clone()), 201, json!({"metadata": {"generation": 1}})),
                    (&delete, NO_BODY, 200, response),
                    ("GET pods/p", NO_BODY, code, any()),
                ])
                .await;
            if code == 200 {
                scenario
                    .run_steps(&[("DELETE pods/p?gracePeriodSeconds=0", NO_BODY, 200, terminating_at(T0, 0, 2))])
                    .await;
            }
            scenario.run_steps(&[("GET pods/p", NO_BODY, 404, any())]).await;
        }
        scenario.stop().await;
    });
}

#[test]
fn a_grace_period_can_only_be_shortened() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST pods", pod("p", json!(30)), 201, any()),
                ("DELETE pods/p", NO_BODY, 200, terminating_at(T30, 30, 2)),
                // A longer or equal grace period changes nothing.
                ("DELETE pods/p", NO_BODY, 200, json!({"metadata": {"resourceVersion": "$p.rv"}})),
                (
                    "DELETE pods/p?gracePeriodSeconds=30",
                    NO_BODY,
                    200,
                    json!({"metadata": {"resourceVersion": "$p.rv"}}),
                ),
                (
                    "DELETE pods/p?gracePeriodSeconds=99",
                    NO_BODY,
                    200,
                    json!({"metadata": {"resourceVersion": "$p.rv"}}),
                ),
                // The propagation policy is not changed either.
                ("DELETE pods/p?propagationPolicy=Foreground", NO_BODY, 200, json!({"metadata": {"finalizers": null}})),
                ("DELETE pods/p?gracePeriodSeconds=10", NO_BODY, 200, terminating_at(T10, 10, 2)),
            ])
            .await;
        scenario.clock.advance(Duration::from_secs(9));
        // The shortened deadline has already passed, so the pod terminates now, with the minimum grace period of one
        // second.
        scenario.run_steps(&[("DELETE pods/p?gracePeriodSeconds=3", NO_BODY, 200, terminating_at(T9, 1, 2))]).await;
        scenario.run_steps(&[("DELETE pods/p?gracePeriodSeconds=1", NO_BODY, 200, terminating_at(T9, 1, 2))]).await;
        scenario.run_steps(&[("DELETE pods/p?gracePeriodSeconds=0", NO_BODY, 200, terminating_at(T9, 0, 2))]).await;
        scenario.run_steps(&[("GET pods/p", NO_BODY, 404, any())]).await;
        scenario.stop().await;
    });
}

#[test]
fn pods_that_do_not_run_are_deleted_at_once() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let mut unscheduled = pod("p", json!(30));
        unscheduled["spec"]["nodeName"] = json!("");
        for (object, phase) in
            [(unscheduled, "Pending"), (pod("p", json!(30)), "Succeeded"), (pod("p", json!(30)), "Failed")]
        {
            scenario
                .run_steps(&[
                    ("POST pods", object, 201, any()),
                    ("MERGE pods/p/status", json!({"status": {"phase": phase}}), 200, any()),
                    ("DELETE pods/p?gracePeriodSeconds=20", NO_BODY, 200, terminating_at(T0, 0, 2)),
                    ("GET pods/p", NO_BODY, 404, any()),
                ])
                .await;
        }
        scenario.stop().await;
    });
}

#[test]
fn finalizers_keep_a_pod_after_its_grace_period() {
    let mut object = pod("p", json!(30));
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    let no_finalizers = || json!({"metadata": {"finalizers": null}});
    let steps: [Step<'_>; 14] = [
        ("POST pods", object.clone(), 201, any()),
        ("DELETE pods/p", NO_BODY, 200, terminating_at(T30, 30, 2)),
        ("DELETE pods/p?gracePeriodSeconds=0", NO_BODY, 200, terminating_at(T0, 0, 2)),
        // The grace period has ended, so deletes update the propagation policy again.
        ("DELETE pods/p", NO_BODY, 200, json!({"metadata": {"resourceVersion": "$p.rv"}})),
        (
            "DELETE pods/p?propagationPolicy=Orphan",
            NO_BODY,
            200,
            json!({"metadata": {"finalizers": ["example.com/a", "orphan"], "deletionGracePeriodSeconds": 0}}),
        ),
        (
            "DELETE pods/p?propagationPolicy=Background",
            NO_BODY,
            200,
            json!({"metadata": {"finalizers": ["example.com/a"]}}),
        ),
        ("MERGE pods/p", no_finalizers(), 200, any()),
        ("GET pods/p", NO_BODY, 404, any()),
        // The finalizer is removed first: the grace period still applies.
        ("POST pods", object, 201, any()),
        ("DELETE pods/p", NO_BODY, 200, terminating_at(T30, 30, 2)),
        ("MERGE pods/p", no_finalizers(), 200, terminating_at(T30, 30, 2)),
        ("GET pods/p", NO_BODY, 200, terminating_at(T30, 30, 2)),
        ("DELETE pods/p?gracePeriodSeconds=0", NO_BODY, 200, any()),
        ("GET pods/p", NO_BODY, 404, any()),
    ];
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario.run_steps(&steps).await;
        scenario.stop().await;
    });
}

/// A watch sees the update that marks the pod as terminating, and then the deletion with a revision of its own.
#[test]
fn watches_see_the_update_and_the_deletion() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let mut watch = scenario.cluster.watch("/api/v1/namespaces/default/pods?watch=1").await;
        scenario.run_steps(&[("POST pods", pod("p", json!(30)), 201, any())]).await;
        let created = watch.expect("ADDED", "p").await;
        scenario.run_steps(&[("DELETE pods/p?gracePeriodSeconds=0", NO_BODY, 200, any())]).await;
        let revision =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        let terminating = watch.expect("MODIFIED", "p").await;
        let last = watch.expect("DELETED", "p").await;
        assert!(
            revision(&created) < revision(&terminating) && revision(&terminating) < revision(&last),
            "{terminating} {last}"
        );
        // The last state differs only in its revision. Managed fields do not record the deletion.
        let mut expect = terminating.clone();
        expect["metadata"]["resourceVersion"] = last["metadata"]["resourceVersion"].clone();
        assert_eq!(last, expect);
        assert_eq!(terminating["metadata"]["managedFields"], created["metadata"]["managedFields"]);
        // The delete returns the last state.
        assert_eq!(
            scenario.variables["p.rv"],
            last["metadata"]["resourceVersion"].as_str().expect("a resourceVersion")
        );
        scenario.stop().await;
    });
}

/// Other kinds ignore grace periods.
#[test]
fn other_kinds_ignore_grace_periods() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", super::with_finalizers("a", &["example.com/a"]), 201, any()),
                (
                    "DELETE configmaps/a?gracePeriodSeconds=60",
                    NO_BODY,
                    200,
                    json!({"metadata": {"deletionTimestamp": T0, "deletionGracePeriodSeconds": 0, "generation": null}}),
                ),
                ("POST configmaps", super::configmap("b"), 201, any()),
                ("DELETE configmaps/b?gracePeriodSeconds=60", NO_BODY, 200, super::deleted_status("configmaps", "b")),
            ])
            .await;
        scenario.stop().await;
    });
}
