//! The rules of evictions about a pod, and the condition that an eviction sets (upstream: `EvictionREST`).

use pintle_value::time::Time;
use pintle_value::{Value, object};

use super::status::set_condition;

/// True if a pod is evicted without regard to its disruption budget: it does not run yet, has ended, or is terminating
/// (upstream: `canIgnorePDB`).
#[must_use]
pub fn is_evicted_without_budget(pod: &Value) -> bool {
    phase(pod) == "Pending" || has_ended(pod)
}

/// True if a pod may become ready. An eviction without a budget then applies only to the version of the pod that was
/// examined (upstream: `shouldEnforceResourceVersion`).
#[must_use]
pub fn may_become_ready(pod: &Value) -> bool {
    !has_ended(pod)
}

/// True if the condition `Ready` of a pod holds.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let ready = pod.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == "Ready");
    ready.is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Sets the condition that says why a pod ends.
pub fn mark_evicted(pod: &mut Value, now: Time) {
    let condition = object! {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": Value::Null,
        "lastTransitionTime": Value::Null,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    };
    set_condition(pod, condition, now);
}

fn has_ended(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed") || pod.is_terminating()
}

fn phase(pod: &Value) -> &str {
    pod.str_at(&["status", "phase"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn running_pods_alone_need_a_budget() {
        let check = |pod: &str, expect: (bool, bool)| {
            let pod = object(pod);
            assert_eq!((is_evicted_without_budget(&pod), may_become_ready(&pod)), expect, "{pod:?}");
        };
        check(r#"{"status":{"phase":"Running"}}"#, (false, true));
        check(r#"{"status":{"phase":"Unknown"}}"#, (false, true));
        check("{}", (false, true));
        check(r#"{"status":{"phase":"Pending"}}"#, (true, true));
        check(r#"{"status":{"phase":"Succeeded"}}"#, (true, false));
        check(r#"{"status":{"phase":"Failed"}}"#, (true, false));
        check(
            r#"{"metadata":{"deletionTimestamp":"2023-11-14T22:13:20Z"},"status":{"phase":"Running"}}"#,
            (true, false),
        );
    }

    #[test]
    fn the_condition_of_an_evicted_pod_keeps_its_time() {
        let check = |before: &str, expect: &str| {
            let mut pod = object(&format!(r#"{{"status":{{"phase":"Running"{before}}}}}"#));
            mark_evicted(&mut pod, Time { seconds: 1_700_000_000, nanos: 0 });
            assert_eq!(pod, object(&format!(r#"{{"status":{{"phase":"Running","conditions":[{expect}]}}}}"#)));
        };
        let condition = |status: &str, time: &str, reason: &str, message: &str| {
            format!(
                r#"{{"type":"DisruptionTarget","status":"{status}","lastProbeTime":null,"lastTransitionTime":"{time}","reason":"{reason}","message":"{message}"}}"#
            )
        };
        let evicted = |time: &str| condition("True", time, "EvictionByEvictionAPI", "Eviction API: evicting");
        let (now, earlier) = ("2023-11-14T22:13:20Z", "2023-01-01T00:00:00Z");
        check("", &evicted(now));
        check(&format!(r#","conditions":[{}]"#, condition("True", earlier, "Other", "before")), &evicted(earlier));
        check(&format!(r#","conditions":[{}]"#, condition("False", earlier, "Other", "before")), &evicted(now));
        let ready = r#"{"type":"Ready","status":"True"}"#;
        check(&format!(r#","conditions":[{ready}]"#), &format!("{ready},{}", evicted(now)));
    }
}
