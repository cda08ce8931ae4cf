//! Validates the status of a job (upstream: `validateJobStatus` and `ValidateJobStatusUpdate`). External controllers
//! may run jobs (`managedBy`), so clients rely on these rules. Most rules apply only if the fields in question changed,
//! so that older jobs remain writable.

use std::collections::HashSet;

use pintle_registry::StrategyContext;
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::time::Time;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::indexes;
use crate::declarative::Rules;
use crate::generic::same_at;
use crate::go_json::{self, GoType};

static STATUS: Rules = Rules::own("batch/v1", "JobStatus");

const UNCOUNTED: GoType = GoType::Of("batch/v1.UncountedTerminatedPods");

/// Returns true if a job has the condition with the status `True`.
pub(super) fn is_true(job: &Value, condition: &str) -> bool {
    has_condition(job, condition, "True")
}

fn has_condition(job: &Value, condition: &str, status: &str) -> bool {
    let conditions = job.items_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == condition && c.str_at(&["status"]) == status)
}

fn is_finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

fn number(job: &Value, field: &str) -> i64 {
    job.int_at(&["status", field]).unwrap_or(0)
}

/// An update of a job.
struct JobUpdate<'a> {
    job: &'a Value,
    old: &'a Value,
}

impl JobUpdate<'_> {
    fn has_condition_changed(&self, condition: &str) -> bool {
        is_true(self.job, condition) != is_true(self.old, condition)
    }

    fn has_finished_changed(&self) -> bool {
        is_finished(self.job) != is_finished(self.old)
    }

    fn has_field_changed(&self, field: &str) -> bool {
        !same_at(self.job, self.old, &["status", field])
    }

    fn has_count_changed(&self, field: &str) -> bool {
        number(self.job, field) != number(self.old, field)
    }
}

/// Validates an update of the status.
pub(super) fn validate_update(_: &StrategyContext, job: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    let update = JobUpdate { job, old };
    validate_numbers(&mut errors, job, &path);
    validate_times(&mut errors, &update, &path);
    validate_finished(&mut errors, &update, &path);
    validate_indexes(&mut errors, &update, &path);
    if (update.has_finished_changed() || update.has_field_changed("terminating"))
        && number(job, "terminating") > 0
        && is_finished(job)
    {
        let text = "terminating>0 is invalid for finished job";
        errors.invalid(&path.child("terminating"), number(job, "terminating"), text);
    }
    if let Some(ready) = job.int_at(&["status", "ready"])
        && (update.has_field_changed("ready") || update.has_count_changed("active"))
        && ready > number(job, "active")
    {
        errors.invalid(&path.child("ready"), ready, "cannot set more ready pods than active");
    }
    validate_success(&mut errors, job, &path);
    validate_transition(&mut errors, &update, &path);
    errors
}

fn refuse_conditions(errors: &mut Errors, path: &FieldPath<'_>, text: impl Into<String>) {
    errors.push(FieldError::invalid(&path.child("conditions"), Value::Null, text).without_value());
}

fn validate_numbers(errors: &mut Errors, job: &Value, path: &FieldPath<'_>) {
    STATUS.validate_part(errors, &job["status"], path);
    let path = path.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for list in ["succeeded", "failed"] {
        let uids = job.items_at(&["status", "uncountedTerminatedPods", list]);
        for (i, uid) in uids.iter().filter_map(Value::as_str).enumerate() {
            let list = path.child(list);
            if uid.is_empty() {
                errors.invalid(&list.index(i), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&list.index(i), uid);
            }
        }
    }
}

fn validate_times(errors: &mut Errors, update: &JobUpdate<'_>, path: &FieldPath<'_>) {
    let job = update.job;
    let complete = is_true(job, "Complete");
    let completion = job.at(&["status", "completionTime"]);
    let completion_path = path.child("completionTime");
    if (update.has_condition_changed("Complete") || update.has_condition_changed("Failed"))
        && complete
        && is_true(job, "Failed")
    {
        refuse_conditions(errors, path, "cannot set Complete=True and Failed=true conditions");
    }
    if (update.has_condition_changed("Complete") || update.has_condition_changed("FailureTarget"))
        && complete
        && is_true(job, "FailureTarget")
    {
        refuse_conditions(errors, path, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if update.has_condition_changed("Complete") || update.has_field_changed("completionTime") {
        if completion.is_some() && !complete {
            let text = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&completion_path, completion.cloned(), text);
        }
        if completion.is_none() && complete {
            errors.required(&completion_path, "completionTime is required for Complete jobs");
        }
    }
    if update.has_field_changed("startTime") || update.has_field_changed("completionTime") {
        let time = |field: &str| Time::parse_rfc3339(job.str_at(&["status", field])).ok();
        if let (Some(start), Some(end)) = (time("startTime"), time("completionTime"))
            && end < start
        {
            errors.invalid(&completion_path, completion.cloned(), "must be equal to or after `startTime`");
        }
    }
}

fn validate_finished(errors: &mut Errors, update: &JobUpdate<'_>, path: &FieldPath<'_>) {
    let job = update.job;
    let failed = update.has_condition_changed("Failed") || update.has_field_changed("failedIndexes");
    if failed && is_true(job, "Failed") && !is_true(job, "FailureTarget") {
        let text = "cannot set Failed=True condition without the FailureTarget=true condition";
        refuse_conditions(errors, path, text);
    }
    let complete = update.has_condition_changed("Complete") || update.has_condition_changed("SuccessCriteriaMet");
    if complete && is_true(job, "Complete") && !is_true(job, "SuccessCriteriaMet") {
        let text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        refuse_conditions(errors, path, text);
    }
    if !is_finished(job) {
        return;
    }
    if (update.has_finished_changed() || update.has_count_changed("active")) && number(job, "active") > 0 {
        errors.invalid(&path.child("active"), number(job, "active"), "active>0 is invalid for finished job");
    }
    let never_ran = job.bool_at(&["spec", "suspend"]) && job.int_at(&["spec", "completions"]) == Some(0);
    let started = job.at(&["status", "startTime"]).is_some();
    if (update.has_finished_changed() || update.has_field_changed("startTime")) && !never_ran && !started {
        errors.required(&path.child("startTime"), "startTime is required for finished job");
    }
    let field = "uncountedTerminatedPods";
    let pods = |list: &str| job.items_at(&["status", field, list]).len();
    if (update.has_finished_changed() || update.has_field_changed(field)) && pods("succeeded") + pods("failed") > 0 {
        let error = FieldError::invalid(&path.child(field), Value::Null, "must be empty for finished job");
        errors.push(error.showing(go_json::internal(job.at(&["status", field]), &UNCOUNTED)));
    }
}

fn validate_indexes(errors: &mut Errors, update: &JobUpdate<'_>, path: &FieldPath<'_>) {
    let job = update.job;
    let completions = job.int_at(&["spec", "completions"]);
    let per_index = job.at(&["spec", "backoffLimitPerIndex"]).is_some();
    let completed = job.str_at(&["status", "completedIndexes"]);
    let failed = job.at(&["status", "failedIndexes"]).and_then(Value::as_str);
    let (completed_path, failed_path) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let (completed_changed, failed_changed) =
        (update.has_field_changed("completedIndexes"), update.has_field_changed("failedIndexes"));
    if let Some(completions) = completions.filter(|_| completed_changed)
        && let Err(e) = indexes::count(completed, completions)
    {
        errors.invalid(&completed_path, completed, format!("error parsing completedIndexes: {e}"));
    }
    if let (Some(completions), Some(failed)) = (completions, failed.filter(|_| failed_changed && per_index))
        && let Err(e) = indexes::count(failed, completions)
    {
        errors.invalid(&failed_path, failed, format!("error parsing failedIndexes: {e}"));
    }
    if completed_changed && !completed.is_empty() && job.str_at(&["spec", "completionMode"]) != "Indexed" {
        let text = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_path, completed, text);
    }
    let Some(failed) = failed else { return };
    if failed_changed && !per_index {
        let text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_path, failed, text);
    }
    if let Some(completions) = completions.filter(|_| failed_changed || completed_changed)
        && let Some(index) = indexes::overlap(completed, failed, completions)
    {
        let text = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_path, failed, text);
    }
}

/// Validates success criteria, which apply to any status.
fn validate_success(errors: &mut Errors, job: &Value, path: &FieldPath<'_>) {
    let met = is_true(job, "SuccessCriteriaMet");
    if met && is_true(job, "Failed") {
        refuse_conditions(errors, path, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && is_true(job, "FailureTarget") {
        refuse_conditions(errors, path, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if job.at(&["spec", "successPolicy"]).is_some() && !met && is_true(job, "Complete") {
        let text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        refuse_conditions(errors, path, text);
    }
}

/// Validates the changes of a status: final conditions stay, and counters do not decrease.
fn validate_transition(errors: &mut Errors, update: &JobUpdate<'_>, path: &FieldPath<'_>) {
    let (job, old) = (update.job, update.old);
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if is_true(old, condition) && !is_true(job, condition) {
            refuse_conditions(errors, path, format!("cannot disable the terminal {condition}=True condition"));
        }
    }
    let spec = |field: &str| job.int_at(&["spec", field]);
    // Indexed jobs with equal parallelism and completions can be scaled down.
    let elastic = job.str_at(&["spec", "completionMode"]) == "Indexed" && spec("completions") == spec("parallelism");
    for (field, counts) in [("failed", true), ("succeeded", !elastic)] {
        let value = number(job, field);
        if counts && value < number(old, field) {
            errors.invalid(&path.child(field), value, format!("cannot decrease the {field} counter"));
        }
    }
    let (new_end, old_end) = (job.at(&["status", "completionTime"]), old.at(&["status", "completionTime"]));
    if new_end.is_some() && old_end.is_some() && new_end != old_end {
        errors.invalid(&path.child("completionTime"), new_end.cloned(), IMMUTABLE_TEXT);
    }
    let resuming = is_true(old, "Suspended") && has_condition(job, "Suspended", "False");
    let started = old.at(&["status", "startTime"]).is_some();
    if update.has_field_changed("startTime") && !resuming && started && !job.bool_at(&["spec", "suspend"]) {
        let start = job.at(&["status", "startTime"]).cloned();
        errors.invalid(&path.child("startTime"), start, "field is immutable for unsuspended job once set");
    }
    let (met, was_met) = (is_true(job, "SuccessCriteriaMet"), is_true(old, "SuccessCriteriaMet"));
    if was_met && !met {
        refuse_conditions(errors, path, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(old, "Complete") && !was_met && met {
        let text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        refuse_conditions(errors, path, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn job(spec: &str, status: &str) -> Value {
        object(&format!(r#"{{"spec":{spec},"status":{status}}}"#))
    }

    #[test]
    fn status_updates_must_be_consistent() {
        let check = |spec: &str, old: &str, new: &str, expect: &[&str]| {
            assert_eq!(messages(&validate_update(&context(), &job(spec, new), &job(spec, old))), expect);
        };
        let done = r#"{"startTime":"2024-01-01T00:00:00Z","completionTime":"2024-01-01T00:01:00Z","succeeded":1,
            "conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}"#;
        check("{}", "{}", done, &[]);
        check(
            "{}",
            "{}",
            r#"{"conditions":[{"type":"Complete","status":"True"}],"active":1}"#,
            &[
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        );
        check(
            "{}",
            done,
            r#"{"startTime":"2024-01-01T00:00:00Z"}"#,
            &[
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
        );
        check(
            "{}",
            "{}",
            r#"{"active":-1,"uncountedTerminatedPods":{"succeeded":["a",""],"failed":["a"]}}"#,
            &[
                "status.active: Invalid value: -1: must be greater than or equal to 0",
                "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            ],
        );
        check(
            "{}",
            "{}",
            r#"{"active":1,"ready":2}"#,
            &["status.ready: Invalid value: 2: cannot set more ready pods than active"],
        );
        check(
            "{}",
            "{}",
            r#"{"completedIndexes":"0"}"#,
            &[
                "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
            ],
        );
        check(
            r#"{"completionMode":"Indexed","completions":5,"parallelism":5,"backoffLimitPerIndex":1}"#,
            "{}",
            r#"{"completedIndexes":"0-2","failedIndexes":"2,9"}"#,
            &[
                "status.failedIndexes: Invalid value: \"2,9\": error parsing failedIndexes: too large index: \"9\"",
                "status.failedIndexes: Invalid value: \"2,9\": failedIndexes and completedIndexes overlap at index: 2",
            ],
        );
        // Errors of the old status are tolerated.
        check("{}", r#"{"completedIndexes":"0"}"#, r#"{"completedIndexes":"0","active":1}"#, &[]);
    }
}
