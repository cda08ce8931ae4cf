//! The strategy for CronJob (upstream: `validateCronJobSpec`, `pkg/registry/batch/cronjob`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::job::{drop_disabled_job_fields, set_pattern_defaults, spec_warnings};
use super::{cron, jobspec};
use crate::apps::template;
use crate::generic::{
    SPEC, StatusStrategy, no_validation, pod_name_warning, reset_status, same_at, set_generation, set_if_empty,
};
use crate::go_json;
use crate::validation::reject_negative;

/// The maximum length of the name. The names of jobs append a timestamp of 11 characters.
const NAME_LENGTH: usize = 52;
const CONCURRENCY_POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const JOB: [&str; 3] = ["spec", "jobTemplate", "spec"];

static STATUS: StatusStrategy = StatusStrategy::new(no_validation);

/// The strategy for CronJob.
pub(crate) struct CronJobStrategy;

impl Strategy for CronJobStrategy {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        set_if_empty(spec, "concurrencyPolicy", "Allow");
        spec.set_default("suspend", false);
        spec.set_default("successfulJobsHistoryLimit", 3);
        spec.set_default("failedJobsHistoryLimit", 1);
        if let Some(job) = spec.at_mut(&["jobTemplate", "spec"]) {
            set_pattern_defaults(job);
            template::defaults(job);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        drop_disabled_job_fields(context, object, old, &JOB);
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_spec(context, object, old);
        if old.is_none() && object.name().len() > NAME_LENGTH {
            errors.invalid(&FieldPath::new("metadata.name"), object.name(), "must be no more than 52 characters");
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = FieldPath::new("spec");
        let template = spec.child("jobTemplate");
        let path = template.child("spec");
        let job_warnings = || spec_warnings(object.at(&JOB).unwrap_or(&Value::Null), &path);
        let mut warnings = Vec::new();
        match old {
            None => {
                warnings.extend(pod_name_warning(object));
                warnings.extend(job_warnings());
            }
            Some(old) => {
                if object.generation() != old.generation() {
                    warnings.extend(job_warnings());
                }
                if object.str_at(&["spec", "schedule"]).contains("TZ") {
                    warnings.push(
                        "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                         https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                            .to_owned(),
                    );
                }
            }
        }
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

fn validate_spec(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &object["spec"];
    let old_spec = old.and_then(|old| old.get("spec"));

    validate_schedule(&mut errors, spec, old_spec, &path.child("schedule"));
    let deadline = "startingDeadlineSeconds";
    reject_negative(&mut errors, &path.child(deadline), spec.int_at(&[deadline]));
    if old_spec.is_none_or(|old| !same_at(spec, old, &["timeZone"])) {
        validate_time_zone(&mut errors, spec, &path.child("timeZone"));
    }
    let policy = spec.str_at(&["concurrencyPolicy"]);
    if policy.is_empty() {
        errors.required(&path.child("concurrencyPolicy"), "");
    } else if !CONCURRENCY_POLICIES.contains(&policy) {
        errors.not_supported(&path.child("concurrencyPolicy"), policy, &CONCURRENCY_POLICIES);
    }

    let template_path = path.child("jobTemplate");
    let job_path = template_path.child("spec");
    let job = spec.at(&["jobTemplate", "spec"]).unwrap_or(&Value::Null);
    let old_job = old_spec.and_then(|old| old.at(&["jobTemplate", "spec"]));
    errors.append(jobspec::validate_spec(context, job, old_job, &job_path));
    if let Some(selector) = job.get("selector") {
        let error = FieldError::invalid(&job_path.child("selector"), Value::Null, "`selector` will be auto-generated");
        errors.push(error.showing(go_json::print(selector)));
    }
    if job.bool_at(&["manualSelector"]) {
        errors.not_supported(&job_path.child("manualSelector"), true, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        reject_negative(&mut errors, &path.child(field), spec.int_at(&[field]));
    }
    errors
}

fn validate_schedule(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
    let schedule = spec.str_at(&["schedule"]);
    if schedule.is_empty() {
        errors.required(path, "");
        return;
    }
    if let Err(text) = cron::check_schedule(schedule) {
        errors.invalid(path, schedule, text);
    }
    // A time zone in the schedule is tolerated if the old schedule had one.
    let zone_allowed = old.is_some_and(|old| old.str_at(&["schedule"]).contains("TZ"));
    let text = match (schedule.contains("TZ"), zone_allowed) {
        (true, true) if spec.get("timeZone").is_some() => {
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        }
        (true, false) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        _ => return,
    };
    errors.invalid(path, schedule, text);
}

fn validate_time_zone(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(zone) = spec.get("timeZone").and_then(Value::as_str) else { return };
    if zone.is_empty() {
        errors.invalid(path, zone, "timeZone must be nil or non-empty string");
        return;
    }
    // The naming rules of the tz database.
    let well_formed = |part: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
        (1..=14).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(known)
    };
    if !zone.split('/').all(well_formed) {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, text);
    }
    if let Err(text) = cron::check_zone(zone) {
        errors.invalid(path, zone, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn cron_job(spec: &str) -> Value {
        let mut job = object(
            r#"{"metadata":{"name":"c"},"spec":{"jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":
                {"restartPolicy":"Never","containers":[{"name":"c","image":"i:1"}]}}}}}}"#,
        );
        for (field, value) in object(spec).as_object().expect("object").iter() {
            job.set_at(&["spec", field], value.clone());
        }
        CronJobStrategy.defaults(&mut job);
        job
    }

    #[test]
    fn defaults() {
        let mut spec = cron_job(r#"{"schedule":"* * * * *"}"#)["spec"].clone();
        spec.remove("jobTemplate");
        let expect = r#"{"schedule":"* * * * *","concurrencyPolicy":"Allow","suspend":false,"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1}"#;
        assert_eq!(spec, object(expect));
    }

    #[test]
    fn schedules_and_time_zones_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(messages(&CronJobStrategy.validate(&context(), &cron_job(spec))), expect);
        };
        check(r#"{"schedule":"*/5 * * * *","timeZone":"Europe/Berlin"}"#, &[]);
        check(r#"{"schedule":""}"#, &["spec.schedule: Required value"]);
        check(
            r#"{"schedule":"TZ=UTC 0 * * * *"}"#,
            &[
                "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ],
        );
        check(r#"{"schedule":"x"}"#, &["spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]"]);
        check(
            r#"{"schedule":"@daily","timeZone":"Local","concurrencyPolicy":"Maybe"}"#,
            &[
                "spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                "spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            ],
        );
        check(
            r#"{"schedule":"@daily","timeZone":"Nowhere"}"#,
            &["spec.timeZone: Invalid value: \"Nowhere\": unknown time zone Nowhere"],
        );
        check(
            r#"{"schedule":"@daily","timeZone":"a//b"}"#,
            &["spec.timeZone: Invalid value: \"a//b\": unknown time zone a//b"],
        );
    }

    #[test]
    fn a_time_zone_in_an_old_schedule_is_tolerated() {
        let old = cron_job(r#"{"schedule":"TZ=UTC 0 * * * *"}"#);
        let new = cron_job(r#"{"schedule":"TZ=UTC 1 * * * *"}"#);
        assert_eq!(messages(&CronJobStrategy.validate_update(&context(), &new, &old)), [""; 0]);
        assert_eq!(CronJobStrategy.warnings(&context(), &new, Some(&old)).len(), 1);
        let both = cron_job(r#"{"schedule":"TZ=UTC 1 * * * *","timeZone":"UTC"}"#);
        assert_eq!(
            messages(&CronJobStrategy.validate_update(&context(), &both, &old)),
            [
                "spec.schedule: Invalid value: \"TZ=UTC 1 * * * *\": cannot use both timeZone field and TZ or CRON_TZ in schedule",
            ]
        );
    }
}
