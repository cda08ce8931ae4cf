//! The reports of an eviction's responders about their progress.

use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::time::{Duration, Time};
use pintle_value::{Errors, FieldPath, Value};

use super::responder_states::{ACTIVE, find, name};
use super::target_responders::has_same_names;
use crate::generic::same;
use crate::go_json::{self, GoType};

/// How upstream's internal type prints a responder, and the list.
const RESPONDER: GoType = GoType::Of("lifecycle/v1alpha1.ResponderStatus");
const RESPONDERS: GoType = GoType::List(&RESPONDER);

/// How far the clocks of servers and responders may differ.
pub(super) const CLOCK_SKEW: Duration = Duration::from_seconds(30);
/// How far in the future a responder may expect its end.
const MAX_DURATION: Duration = Duration::from_seconds(10 * 365 * 24 * 3600);

const NOT_NOW: &str = "must be set to the present time";

/// Validates `responders` of a status. Only the active responder changes.
pub(super) fn validate_responders(errors: &mut Errors, status: &Value, old: &Value, now: Time) {
    let path = FieldPath::new("status.responders");
    let (responders, old_responders) = (status.items_at(&["responders"]), old.items_at(&["responders"]));
    let targets = status.items_at(&["targetResponders"]);
    let invalid = |detail: &str| go_json::invalid(&path, &status["responders"], &RESPONDERS, detail);
    if responders.len() != targets.len() {
        let detail = "must be the same length as status.targetResponders and contain the same keys";
        return errors.push(invalid(detail));
    }
    if !has_same_names(responders, targets) {
        return errors.push(invalid("must contain the same keys as status.targetResponders"));
    }
    for (i, responder) in responders.iter().enumerate() {
        let old = find(old_responders, name(responder));
        let is_active = find(targets, name(responder)).is_some_and(|target| target.str_at(&["state"]) == ACTIVE);
        let path = path.index(i);
        if is_active {
            Report { responder, old, now, start_field: format!("status.responders[{i}].startTime") }
                .validate(errors, &path);
        } else if !old_responders.is_empty() && !same(Some(responder), old) {
            errors.push(go_json::invalid(&path, responder, &RESPONDER, IMMUTABLE_TEXT));
        }
    }
}

/// The report of an active responder.
struct Report<'v> {
    responder: &'v Value,
    old: Option<&'v Value>,
    now: Time,
    /// The path of its start time, for messages.
    start_field: String,
}

impl Report<'_> {
    fn time(&self, field: &str) -> Option<Time> {
        self.responder.time_at(&[field])
    }

    fn old_time(&self, field: &str) -> Option<Time> {
        self.old.and_then(|old| old.time_at(&[field]))
    }

    fn is_changed(&self, field: &str) -> bool {
        self.time(field) != self.old_time(field)
    }

    fn is_now(&self, time: Time) -> bool {
        time <= self.now.plus(CLOCK_SKEW) && self.now <= time.plus(CLOCK_SKEW)
    }

    /// Adds an error about a time of the report.
    fn reject(&self, errors: &mut Errors, field: &str, path: &FieldPath<'_>, detail: &str) {
        errors.invalid(&path.child(field), self.responder.get(field).cloned(), detail);
    }

    fn validate(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        match self.time("startTime") {
            None => errors.required(&path.child("startTime"), "is required for an active responder"),
            Some(start) if self.old_time("startTime").is_none() && !self.is_now(start) => {
                self.reject(errors, "startTime", path, NOT_NOW);
            }
            Some(_) => {}
        }
        self.validate_heartbeat(errors, path);
        self.validate_expectation(errors, path);
        let field = "completionTime";
        if let Some(time) = self.time(field).filter(|time| self.is_after_start(errors, field, *time, path))
            && self.is_changed(field)
            && !self.is_now(time)
        {
            self.reject(errors, field, path, NOT_NOW);
        }
    }

    /// Requires that a time is not before the start. Returns false if there is no start.
    fn is_after_start(&self, errors: &mut Errors, field: &str, time: Time, path: &FieldPath<'_>) -> bool {
        let Some(start) = self.time("startTime") else {
            self.reject(errors, field, path, &format!("cannot be set before {} is set", self.start_field));
            return false;
        };
        if time < start {
            self.reject(errors, field, path, &format!("must occur after {}", self.start_field));
        }
        true
    }

    fn validate_heartbeat(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        let field = "heartbeatTime";
        let old = self.old_time(field);
        let Some(time) = self.time(field) else {
            if old.is_some() {
                errors.required(&path.child(field), "is required once set");
            }
            return;
        };
        if self.time("startTime").is_some() && old.is_some_and(|old| time < old) {
            self.reject(errors, field, path, "cannot be decreased");
        }
        if self.is_after_start(errors, field, time, path) && self.is_changed(field) && !self.is_now(time) {
            self.reject(errors, field, path, NOT_NOW);
        }
    }

    fn validate_expectation(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        let field = "expectedCompletionTime";
        let Some(time) = self.time(field) else { return };
        if !self.is_after_start(errors, field, time, path) || !self.is_changed(field) {
            return;
        }
        if time < self.now {
            self.reject(errors, field, path, "cannot be set to the past time");
        }
        if time > self.now.plus(MAX_DURATION) {
            self.reject(errors, field, path, "must complete within 10 years");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn time(offset: i64) -> String {
        Time::from_seconds(context().now.seconds + offset).rfc3339()
    }

    /// A status with two responders, of which the first is active and has times at these seconds from now on.
    fn status(times: &[(&str, i64)]) -> Value {
        let times: String = times.iter().map(|(field, offset)| format!(r#","{field}":"{}""#, time(*offset))).collect();
        object(&format!(
            r#"{{"targetResponders":[{{"name":"a","state":"Active"}},{{"name":"b","state":"Inactive"}}],
                "responders":[{{"name":"a"{times}}},{{"name":"b"}}]}}"#
        ))
    }

    #[track_caller]
    fn check(new: &Value, old: &Value, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_responders(&mut errors, new, old, context().now);
        // Values are times, which depend on the test's clock.
        let cut = |text: &String| match text.split_once(": Invalid value: \"") {
            Some((path, rest)) => format!("{path}: {}", rest.split_once("\": ").map_or("", |(_, detail)| detail)),
            None => text.clone(),
        };
        let expect: Vec<String> = expect.iter().map(|text| format!("status.responders{text}")).collect();
        assert_eq!(messages(&errors).iter().map(cut).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn there_is_a_report_for_each_responder() {
        let none = object("{}");
        check(&none, &none, &[]);
        let mut fewer = status(&[("startTime", 0)]);
        fewer.set("responders", Vec::<Value>::new());
        check(
            &fewer,
            &none,
            &[": Invalid value: []: must be the same length as status.targetResponders and contain the same keys"],
        );
        let mut changed = status(&[("startTime", 0)]);
        changed.set(
            "responders",
            object(r#"[{"name":"a","startTime":"2023-11-14T22:13:20Z"},{"name":"b","message":"m"}]"#),
        );
        check(&changed, &none, &[]);
        check(
            &changed,
            &status(&[]),
            &[
                r#"[1]: Invalid value: {"Name":"b","StartTime":null,"HeartbeatTime":null,"ExpectedCompletionTime":null,"CompletionTime":null,"Message":"m"}: field is immutable"#,
            ],
        );
    }

    #[test]
    fn times_are_those_of_the_present() {
        let old = status(&[("startTime", -600), ("heartbeatTime", -60)]);
        check(&status(&[]), &status(&[]), &["[0].startTime: Required value: is required for an active responder"]);
        check(&status(&[("startTime", -31)]), &status(&[]), &["[0].startTime: must be set to the present time"]);
        check(&status(&[("startTime", 30)]), &status(&[]), &[]);
        check(&old, &old, &[]);
        check(&status(&[("startTime", -600)]), &old, &["[0].heartbeatTime: Required value: is required once set"]);
        check(
            &status(&[("startTime", -600), ("heartbeatTime", -700)]),
            &old,
            &[
                "[0].heartbeatTime: cannot be decreased",
                "[0].heartbeatTime: must occur after status.responders[0].startTime",
                "[0].heartbeatTime: must be set to the present time",
            ],
        );
        check(
            &status(&[
                ("startTime", -600),
                ("heartbeatTime", 0),
                ("expectedCompletionTime", -1),
                ("completionTime", 60),
            ]),
            &old,
            &[
                "[0].expectedCompletionTime: cannot be set to the past time",
                "[0].completionTime: must be set to the present time",
            ],
        );
        check(
            &status(&[("startTime", -600), ("heartbeatTime", 0), ("expectedCompletionTime", 315_360_001)]),
            &old,
            &["[0].expectedCompletionTime: must complete within 10 years"],
        );
        check(
            &status(&[("completionTime", 0)]),
            &status(&[]),
            &[
                "[0].startTime: Required value: is required for an active responder",
                "[0].completionTime: cannot be set before status.responders[0].startTime is set",
            ],
        );
    }
}
