//! Scenarios by upstream's cases: limit ranges, an object, and its defaults or the text of the refusal.

use pintle_value::Value;

use super::*;
use crate::testing::{Scenario, json};

fn limit_range(items: &str) -> Value {
    json(&format!(
        r#"{{"kind":"LimitRange","metadata":{{"name":"l","namespace":"ns"}},"spec":{{"limits":[{items}]}}}}"#
    ))
}

/// A container with requests and limits, each without its braces.
fn container(name: &str, requests: &str, limits: &str) -> String {
    format!(r#"{{"name":"{name}","resources":{{"requests":{{{requests}}},"limits":{{{limits}}}}}}}"#)
}

/// A pod whose spec has these fields.
fn pod(spec: &str) -> Value {
    json(&format!(r#"{{"metadata":{{"name":"p","namespace":"ns"}},"spec":{{{spec}}}}}"#))
}

/// A pod with a container `c`.
fn simple_pod(requests: &str, limits: &str) -> Value {
    pod(&format!(r#""containers":[{}]"#, container("c", requests, limits)))
}

/// The text of a refusal without its introduction; empty if the write is allowed.
fn why(outcome: Result<(), ApiError>) -> String {
    let text = outcome.map_err(|error| error.to_string()).err().unwrap_or_default();
    text.split_once(" is forbidden: ").map_or(text.clone(), |(_, why)| why.to_owned())
}

/// Checks the create of an object in a namespace with a limit range.
#[track_caller]
fn check_create(plural: &str, items: &str, object: &Value, expect: &str) {
    let scenario = Scenario { stored: vec![limit_range(items)], ..Scenario::create("", plural) };
    assert_eq!(why(scenario.validate(&LimitRanger, object)), expect, "{items} {object:?}");
}

/// Checks a pod under an item of a type; `constraint` is a field of the item.
#[track_caller]
fn check_pod_under(limit_type: &str, constraint: &str, pod: &Value, expect: &str) {
    check_create("pods", &format!(r#"{{"type":"{limit_type}",{constraint}}}"#), pod, expect);
}

#[test]
fn containers_get_default_requests_and_limits() {
    #[track_caller]
    fn check(ranges: &[&str], given: &str, expect: &str, annotation: Option<&str>) {
        let stored = ranges.iter().map(|items| limit_range(items)).collect();
        let scenario = Scenario { stored, ..Scenario::create("", "pods") };
        let mut object = pod(given);
        scenario.mutate(&LimitRanger, &mut object).expect("no refusal");
        let mut expected = pod(expect);
        if let Some(annotation) = annotation {
            expected.annotate("kubernetes.io/limit-ranger", annotation);
        }
        assert_eq!(object, expected);
    }
    let range = r#"{"type":"Pod","max":{"cpu":"200m"}},{"type":"Container","default":{"cpu":"75m","memory":"10Mi"},
        "defaultRequest":{"cpu":"50m","memory":"5Mi"}}"#;
    let (requests, limits) = (r#""cpu":"50m","memory":"5Mi""#, r#""cpu":"75m","memory":"10Mi""#);
    let full = |name: &str| container(name, requests, limits);
    check(
        &[range],
        r#""containers":[{"name":"a"},{"name":"b"}]"#,
        &format!(r#""containers":[{},{}]"#, full("a"), full("b")),
        Some(
            "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; \
             cpu, memory request for container b; cpu, memory limit for container b",
        ),
    );
    let partial = container("a", r#""memory":"512Mi""#, "");
    let completed = container("a", r#""cpu":"50m","memory":"512Mi""#, limits);
    check(
        &[range],
        &format!(r#""containers":[{partial}],"initContainers":[{partial}]"#),
        &format!(r#""containers":[{completed}],"initContainers":[{completed}]"#),
        Some(
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
             cpu request for init container a; cpu, memory limit for init container a",
        ),
    );
    let complete =
        format!(r#""containers":[{}]"#, container("a", r#""cpu":"1","memory":"1""#, r#""cpu":"2","memory":"2""#));
    check(&[range], &complete, &complete, None);
    let plain = r#""containers":[{"name":"a"}]"#;
    check(&[], plain, plain, None);
    check(&[r#"{"type":"Pod","max":{"cpu":"1"}}"#], plain, plain, None);
    // Within a limit range, the later item wins. Among limit ranges, the first wins. The annotation lists the defaults
    // of the last limit range only.
    let two = r#"{"type":"Container","default":{"cpu":"1"}},{"type":"Container","default":{"cpu":"2"}}"#;
    check(
        &[two, r#"{"type":"Container","default":{"cpu":"3","memory":"4"}}"#],
        plain,
        r#""containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"4"}}}]"#,
        Some("LimitRanger plugin set: memory limit for container a"),
    );
}

#[test]
fn containers_are_within_minimum_and_maximum() {
    let check = |constraint, pod: &Value, expect| check_pod_under("Container", constraint, pod, expect);
    let min = r#""min":{"cpu":"50m"}"#;
    check(min, &simple_pod(r#""cpu":"50m""#, ""), "");
    check(min, &simple_pod(r#""cpu":"100m""#, r#""cpu":"200m""#), "");
    check(min, &simple_pod("", ""), "minimum cpu usage per Container is 50m.  No request is specified");
    check(min, &simple_pod(r#""cpu":"49m""#, ""), "minimum cpu usage per Container is 50m, but request is 49m");
    check(
        min,
        &simple_pod(r#""cpu":"50m""#, r#""cpu":"49m""#),
        "minimum cpu usage per Container is 50m, but limit is 49m",
    );
    let max = r#""max":{"memory":"1Gi"}"#;
    check(max, &simple_pod("", r#""memory":"1024Mi""#), "");
    check(max, &simple_pod("", ""), "maximum memory usage per Container is 1Gi.  No limit is specified");
    check(
        max,
        &simple_pod(r#""memory":"250Mi""#, ""),
        "maximum memory usage per Container is 1Gi.  No limit is specified",
    );
    check(
        max,
        &simple_pod("", r#""memory":"1536Mi""#),
        "maximum memory usage per Container is 1Gi, but limit is 1536Mi",
    );
    check(
        max,
        &simple_pod(r#""memory":"2Gi""#, r#""memory":"1Gi""#),
        "maximum memory usage per Container is 1Gi, but request is 2Gi",
    );
    let init = pod(&format!(
        r#""containers":[{}],"initContainers":[{}]"#,
        container("c", r#""cpu":"50m""#, ""),
        container("i", r#""cpu":"1m""#, "")
    ));
    check(min, &init, "minimum cpu usage per Container is 50m, but request is 1m");
}

#[test]
fn limits_are_within_the_ratio_to_requests() {
    let check = |pod: &Value, expect: &str| {
        check_pod_under("Container", r#""maxLimitRequestRatio":{"cpu":"1500m"}"#, pod, expect);
    };
    check(&simple_pod(r#""cpu":"500m""#, r#""cpu":"750m""#), "");
    let introduction = "cpu max limit to request ratio per Container is 1500m, but";
    check(&simple_pod(r#""cpu":"500m""#, r#""cpu":"1""#), &format!("{introduction} provided ratio is 2.000000"));
    for none in ["", r#""cpu":"0""#] {
        check(&simple_pod(none, r#""cpu":"1""#), &format!("{introduction} no request is specified or request is 0"));
        check(&simple_pod(r#""cpu":"1""#, none), &format!("{introduction} no limit is specified or limit is 0"));
    }
}

#[test]
fn pods_are_limited_by_what_their_containers_need_together() {
    let check = |constraint, spec: &str, expect| check_pod_under("Pod", constraint, &pod(spec), expect);
    let memory = |name: &str, amount: &str| {
        let quantity = format!(r#""memory":"{amount}""#);
        container(name, &quantity, &quantity)
    };
    let two = format!(r#""containers":[{},{}]"#, memory("a", "60Mi"), memory("b", "60Mi"));
    check(r#""min":{"memory":"120Mi"}"#, &two, "");
    check(r#""max":{"memory":"120Mi"}"#, &two, "");
    check(r#""min":{"memory":"121Mi"}"#, &two, "minimum memory usage per Pod is 121Mi, but request is 120Mi");
    check(r#""max":{"memory":"119Mi"}"#, &two, "maximum memory usage per Pod is 119Mi, but limit is 120Mi");
    let init = format!(r#"{two},"initContainers":[{},{}]"#, memory("i", "100Mi"), memory("j", "130Mi"));
    check(r#""min":{"memory":"130Mi"}"#, &init, "");
    check(r#""max":{"memory":"129Mi"}"#, &init, "maximum memory usage per Pod is 129Mi, but limit is 130Mi");
    let sidecar = memory("s", "20Mi").replacen('{', r#"{"restartPolicy":"Always","#, 1);
    let with_sidecar = format!(r#"{two},"initContainers":[{sidecar},{}]"#, memory("j", "130Mi"));
    check(r#""max":{"memory":"149Mi"}"#, &with_sidecar, "maximum memory usage per Pod is 149Mi, but limit is 150Mi");
    let own = r#""resources":{"requests":{"memory":"1Gi"},"limits":{"memory":"2Gi"}},"overhead":{"memory":"5Gi"}"#;
    check(r#""min":{"memory":"1Gi"},"max":{"memory":"2Gi"}"#, &format!("{two},{own}"), "");
    check(
        r#""max":{"memory":"1Gi"}"#,
        &format!("{two},{own}"),
        "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
    );
    check(r#""max":{"cpu":"1"}"#, &two, "maximum cpu usage per Pod is 1.  No limit is specified");
    check(
        r#""maxLimitRequestRatio":{"memory":"2"}"#,
        &format!(r#""containers":[{}]"#, container("a", r#""memory":"1Gi""#, r#""memory":"3Gi""#)),
        "memory max limit to request ratio per Pod is 2, but provided ratio is 3.000000",
    );
}

#[test]
fn claims_are_limited_by_what_they_request() {
    let claim = |resources: &str| {
        json(&format!(r#"{{"metadata":{{"name":"c","namespace":"ns"}},"spec":{{"resources":{{{resources}}}}}}}"#))
    };
    let items = r#"{"type":"Pod","max":{"storage":"1"}},
        {"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}"#;
    let check = |resources: &str, expect| check_create("persistentvolumeclaims", items, &claim(resources), expect);
    check(r#""requests":{"storage":"1536Mi"},"limits":{"storage":"5Gi"}"#, "");
    check(
        r#""requests":{"storage":"1Mi"}"#,
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
    );
    check(
        r#""requests":{"storage":"3Gi"}"#,
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
    );
    check(
        "",
        "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, \
         maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]",
    );
}

#[test]
fn equal_errors_are_named_once() {
    let two = pod(r#""containers":[{"name":"a"},{"name":"b"}]"#);
    check_pod_under(
        "Container",
        r#""min":{"cpu":"1","memory":"1Mi"}"#,
        &two,
        "[minimum cpu usage per Container is 1.  No request is specified, \
         minimum memory usage per Container is 1Mi.  No request is specified]",
    );
}

#[test]
fn only_creates_resizes_and_updates_of_claims_are_checked() {
    let stored = vec![limit_range(r#"{"type":"Container","min":{"cpu":"1"},"default":{"cpu":"2"}}"#)];
    let refusal = "minimum cpu usage per Container is 1.  No request is specified";
    let check = |scenario: Scenario, expect: &str| {
        let mut object = simple_pod("", "");
        let scenario = Scenario { stored: stored.clone(), ..scenario };
        assert_eq!(why(scenario.validate(&LimitRanger, &object)), expect);
        scenario.mutate(&LimitRanger, &mut object).expect("no refusal");
        assert_eq!(object != simple_pod("", ""), !expect.is_empty());
    };
    let old = Some(simple_pod("", ""));
    let mut terminating = simple_pod("", "");
    terminating.set_at(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    let update = Scenario { old: old.clone(), ..Scenario::update("", "pods") };
    check(Scenario::create("", "pods"), refusal);
    check(update.clone(), "");
    check(Scenario { subresource: "resize", ..update.clone() }, refusal);
    check(Scenario { subresource: "resize", old: Some(terminating), ..update.clone() }, "");
    for subresource in ["status", "ephemeralcontainers"] {
        check(Scenario { subresource, ..update.clone() }, "");
    }
    check(Scenario { subresource: "binding", ..Scenario::create("", "pods") }, "");
    check(Scenario { old, ..Scenario::delete("", "pods") }, "");
    check(Scenario::create("", "replicationcontrollers"), "");

    let claim = json(r#"{"metadata":{"name":"c","namespace":"ns"},"spec":{"resources":{"requests":{"storage":"2"}}}}"#);
    let update = Scenario {
        stored: vec![limit_range(r#"{"type":"PersistentVolumeClaim","max":{"storage":"1"}}"#)],
        old: Some(claim.clone()),
        ..Scenario::update("", "persistentvolumeclaims")
    };
    let refusal = "maximum storage usage per PersistentVolumeClaim is 1, but request is 2";
    assert_eq!(why(update.validate(&LimitRanger, &claim)), refusal);
    assert_eq!(why(Scenario { subresource: "status", ..update }.validate(&LimitRanger, &claim)), "");
}

#[test]
fn limit_ranges_of_other_namespaces_do_not_apply() {
    let mut other = limit_range(r#"{"type":"Container","min":{"cpu":"1"},"default":{"cpu":"2"}}"#);
    other.set_at(&["metadata", "namespace"], "other");
    let scenario = Scenario { stored: vec![other], ..Scenario::create("", "pods") };
    let mut object = simple_pod("", "");
    scenario.mutate(&LimitRanger, &mut object).expect("no refusal");
    scenario.validate(&LimitRanger, &object).expect("no refusal");
    assert_eq!(object, simple_pod("", ""));
}
