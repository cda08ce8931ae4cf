//! Cells of the group `batch`.

use pintle_value::Value;
use pintle_value::time::{Time, human_duration};

use super::cells;

/// How many pods of how many have succeeded.
pub(super) fn job_completions(o: &Value) -> String {
    let succeeded = cells::int(o, &["status", "succeeded"]);
    match (o.int_at(&["spec", "completions"]), cells::int(o, &["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// How long a job took or has been running.
pub(super) fn job_duration(o: &Value, now: Time) -> String {
    let end = o.time_at(&["status", "completionTime"]).unwrap_or(now);
    o.time_at(&["status", "startTime"]).map(|start| human_duration(end.since(start))).unwrap_or_default()
}

/// How far a job is.
pub(super) fn job_status(o: &Value) -> &'static str {
    let conditions = o.items_at(&["status", "conditions"]);
    let is = |kind: &str| cells::is_condition_true(conditions, kind);
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if o.is_terminating() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

/// Whether a cron job is suspended. Upstream sends a string, although the type of the column is boolean.
pub(super) fn cron_job_suspend(o: &Value) -> &'static str {
    match o.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
}
