//! Tables of the group `batch`.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age, human_duration, since};

use super::{CONTAINERS, IMAGES, StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "jobs" => JOBS,
        "cronjobs" => CRON_JOBS,
        _ => return None,
    })
}

const JOBS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Status", "How far the job is."),
        Column::string("Completions", "=batch/v1.JobStatus.succeeded"),
        Column::string("Duration", "How long the job took or has been running."),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        Column::string("Selector", "=batch/v1.JobSpec.selector").wide(),
    ],
    cells: job,
};

fn job(o: &Value, now: Time) -> Vec<Value> {
    let succeeded = cells::int(o, &["status", "succeeded"]);
    let completions = match (o.int_at(&["spec", "completions"]), cells::int(o, &["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let end = o.time_at(&["status", "completionTime"]).unwrap_or(now);
    let duration = o.time_at(&["status", "startTime"]).map(|start| human_duration(end.since(start)));
    let (names, images) = cells::container_names_and_images(o.at(&["spec", "template", "spec"]));
    row![
        o.name(),
        job_status(o),
        completions,
        duration.unwrap_or_default(),
        age(o, now),
        names,
        images,
        cells::format_selector(o, &["spec", "selector"]),
    ]
}

fn job_status(o: &Value) -> &'static str {
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

const CRON_JOBS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Schedule", "=batch/v1.CronJobSpec.schedule"),
        Column::string("Timezone", "=batch/v1.CronJobSpec.timeZone"),
        Column::boolean("Suspend", "=batch/v1.CronJobSpec.suspend"),
        Column::integer("Active", "=batch/v1.CronJobStatus.active"),
        Column::string("Last Schedule", "=batch/v1.CronJobStatus.lastScheduleTime"),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        Column::string("Selector", "=batch/v1.JobSpec.selector").wide(),
    ],
    cells: |o, now| {
        let last = match o.at(&["status", "lastScheduleTime"]) {
            Some(_) => since(o.time_at(&["status", "lastScheduleTime"]), now),
            None => "<none>".to_owned(),
        };
        // Upstream sends a string, although the type of the column is boolean.
        let suspend = match o.at(&["spec", "suspend"]).and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let (names, images) =
            cells::container_names_and_images(o.at(&["spec", "jobTemplate", "spec", "template", "spec"]));
        row![
            o.name(),
            o.str_at(&["spec", "schedule"]),
            cells::string_or(o, &["spec", "timeZone"], "<none>"),
            suspend,
            cells::count(o, &["status", "active"]),
            last,
            age(o, now),
            names,
            images,
            cells::format_selector(o, &["spec", "jobTemplate", "spec", "selector"]),
        ]
    },
};
