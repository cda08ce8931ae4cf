//! The responders of an eviction with their priorities and states, which the controller of eviction requests sets.

use std::collections::BTreeSet;

use pintle_value::print::quote;
use pintle_value::time::{Duration, Time};
use pintle_value::{Errors, FieldPath, Value};

use super::responder_states::{ACTIVE, COMPLETED, allowed_states, find, name};
use super::responders::CLOCK_SKEW;
use crate::go_json::{self, GoType};

/// How upstream's internal type prints the list.
const TARGETS: GoType = GoType::List(&GoType::Of("lifecycle/v1alpha1.TargetResponder"));

/// The maximum number of responders. The tags of the type report more.
const MAX_RESPONDERS: usize = 11;
/// Priorities below this one are for responders of Kubernetes.
const MIN_FREE_PRIORITY: i64 = 1000;
/// The responder that evicts pods by the subresource `eviction`, and its priority.
const CORE_RESPONDER: (&str, i64) = ("imperative-eviction.k8s.io/evictor", 100);
/// How long a responder may be silent.
const HEARTBEAT_DEADLINE: Duration = Duration::from_seconds(20 * 60);

/// Whether two lists have the same names.
pub(super) fn has_same_names(list: &[Value], other: &[Value]) -> bool {
    let names: BTreeSet<_> = list.iter().map(name).collect();
    names == other.iter().map(name).collect()
}

/// Validates `targetResponders` of a status.
pub(super) fn validate_target_responders(errors: &mut Errors, status: &Value, old: &Value, is_final: bool, now: Time) {
    let path = FieldPath::new("status.targetResponders");
    let (targets, old_targets) = (status.items_at(&["targetResponders"]), old.items_at(&["targetResponders"]));
    let names: BTreeSet<_> = targets.iter().map(name).collect();
    if (targets.is_empty() && old_targets.is_empty()) || targets.len() > MAX_RESPONDERS || names.len() < targets.len() {
        return;
    }
    if !old_targets.is_empty() {
        let detail = match (targets.len() == old_targets.len(), has_same_names(targets, old_targets)) {
            (false, _) => Some("must preserve the same length and the same keys"),
            (true, false) => Some("must preserve the same keys"),
            (true, true) => None,
        };
        if let Some(detail) = detail {
            let shown = &status["targetResponders"];
            return errors.push(go_json::invalid(&path, shown, &TARGETS, detail));
        }
    }
    let responders = status.items_at(&["responders"]);
    let allowed = allowed_states(targets, old_targets, is_final);
    for (i, (target, allowed)) in targets.iter().zip(allowed).enumerate() {
        let path = path.index(i);
        validate_priority(errors, target, &path);
        let Some(responder) = find(responders, name(target)) else {
            let detail = format!("{} has to be tracked in status.responders first", quote(name(target)));
            errors.invalid(&path, name(target), detail);
            continue;
        };
        let state_path = path.child("state");
        let state = target.str_at(&["state"]);
        if !allowed.states.iter().any(|known| known == state) {
            let detail = format!("must be one of: {}, because {}", allowed.states.join(", "), allowed.reason);
            errors.invalid(&state_path, state, detail);
        }
        let was_active = find(old_targets, name(target)).is_some_and(|old| old.str_at(&["state"]) == ACTIVE);
        if was_active && state != ACTIVE && !is_final {
            validate_end(errors, responder, state, now, &state_path);
        }
    }
}

/// Validates the priority of a responder: low ones are for responders of Kubernetes.
fn validate_priority(errors: &mut Errors, target: &Value, path: &FieldPath<'_>) {
    let path = path.child("priority");
    let priority = target.int_at(&["priority"]).unwrap_or(0);
    let domain = name(target).split('/').next().unwrap_or_default();
    let is_of_kubernetes = domain == "k8s.io" || domain.ends_with(".k8s.io");
    if priority < MIN_FREE_PRIORITY && !is_of_kubernetes {
        errors.invalid(&path, priority, "priorities 0-999 are reserved for responders with *.k8s.io suffix");
    }
    if name(target) == CORE_RESPONDER.0 && priority != CORE_RESPONDER.1 {
        errors.invalid(&path, priority, "core k8s responder is expected to have priority: 100");
    }
}

/// Validates that an active responder gets another state. It has to report its end, or to be silent for too long.
fn validate_end(errors: &mut Errors, responder: &Value, state: &str, now: Time, path: &FieldPath<'_>) {
    if responder.time_at(&["completionTime"]).is_some() {
        return;
    }
    let started = responder.time_at(&["startTime"]);
    let last_sign = started.map(|started| responder.time_at(&["heartbeatTime"]).unwrap_or(started));
    if last_sign.is_some_and(|sign| now.plus(CLOCK_SKEW) < sign.plus(HEARTBEAT_DEADLINE)) {
        let detail = "must stay Active because the responder is in progress and it should report \
                      status.responders.heartbeatTime or status.responders.completionTime";
        errors.forbidden(path, detail);
    }
    if state == COMPLETED {
        let detail = "cannot become Completed because the responder didn't report status.responders.completionTime";
        errors.invalid(path, state, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    /// A status whose targets are `NAME PRIORITY STATE`, with these fields of the first responder.
    fn status(targets: &str, fields: &str) -> Value {
        let (mut list, mut responders) = (Vec::new(), Vec::new());
        for (i, target) in targets.split(',').enumerate() {
            let words: Vec<&str> = target.split_whitespace().collect();
            let [name, priority, state] = words[..] else { panic!("three words") };
            list.push(format!(r#"{{"name":"{name}","priority":{priority},"state":"{state}"}}"#));
            responders.push(format!(r#"{{"name":"{name}"{}}}"#, if i == 0 { fields } else { "" }));
        }
        let (list, responders) = (list.join(","), responders.join(","));
        object(&format!(r#"{{"targetResponders":[{list}],"responders":[{responders}]}}"#))
    }

    #[track_caller]
    fn check(new: &Value, old: &Value, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_target_responders(&mut errors, new, old, false, context().now);
        let expect: Vec<String> = expect.iter().map(|text| format!("status.targetResponders{text}")).collect();
        assert_eq!(messages(&errors), expect);
    }

    #[test]
    fn names_stay_and_low_priorities_are_reserved() {
        let none = object("{}");
        check(&none, &none, &[]);
        let one = status("a.io/x 1000 Active", "");
        check(&one, &none, &[]);
        check(&none, &one, &[": Invalid value: null: must preserve the same length and the same keys"]);
        check(
            &status("b.io/x 1000 Active", ""),
            &one,
            &[r#": Invalid value: [{"Name":"b.io/x","Priority":1000,"State":"Active"}]: must preserve the same keys"#],
        );
        check(
            &status("imperative-eviction.k8s.io/evictor 99 Inactive, a.io/x 999 Active", ""),
            &none,
            &[
                "[0].priority: Invalid value: 99: core k8s responder is expected to have priority: 100",
                "[1].priority: Invalid value: 999: priorities 0-999 are reserved for responders with *.k8s.io suffix",
            ],
        );
        check(
            &object(r#"{"targetResponders":[{"name":"a.io/x","priority":1000,"state":"Active"}]}"#),
            &none,
            &["[0]: Invalid value: \"a.io/x\": \"a.io/x\" has to be tracked in status.responders first"],
        );
        check(
            &status("a.io/x 1000 Inactive", ""),
            &none,
            &["[0].state: Invalid value: \"Inactive\": must be one of: Active, because this responder is next in line"],
        );
    }

    #[test]
    fn an_active_responder_reports_its_end() {
        let old = status("a.io/x 1000 Active", "");
        let started = |ago: i64| {
            let time = Time::from_seconds(context().now.seconds - ago).rfc3339();
            format!(r#","startTime":"{time}""#)
        };
        let in_progress = "[0].state: Forbidden: must stay Active because the responder is in progress and it should \
                           report status.responders.heartbeatTime or status.responders.completionTime";
        let no_report = "[0].state: Invalid value: \"Completed\": cannot become Completed because the responder didn't \
                         report status.responders.completionTime";
        check(&status("a.io/x 1000 Interrupted", &started(1171)), &old, &[]);
        check(&status("a.io/x 1000 Interrupted", &started(1169)), &old, &[in_progress]);
        check(&status("a.io/x 1000 Completed", &started(1171)), &old, &[no_report]);
        check(&status("a.io/x 1000 Completed", &started(5)), &old, &[in_progress, no_report]);
        let completed = format!(r#"{},"completionTime":"2023-11-14T22:13:20Z""#, started(5));
        check(&status("a.io/x 1000 Completed", &completed), &old, &[]);
    }
}
