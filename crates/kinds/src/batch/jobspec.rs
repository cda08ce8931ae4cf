//! Validates the spec of jobs and of the job template of CronJobs (upstream: `ValidateJob` and `validateJobSpec` of
//! `pkg/apis/batch/validation`).

use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::job::{NAME_LABELS, UID_LABELS};
use super::policies;
use crate::apps::template;
use crate::declarative::Rules;
use crate::go_json;
use crate::labels::{self, has_invalid_value, validate_selector};

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const LIMIT_FOR_MANY_COMPLETIONS: i64 = 10_000;
const MANAGED_BY_LENGTH: usize = 63;

static SPEC: Rules = Rules::own("batch/v1", "JobSpec");

/// Validates a job.
pub(super) fn validate_job(context: &StrategyContext, job: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    // Jobs that were created before the prefixed labels do not have them.
    let had_label = |label| old.is_none_or(|old| old.at(&["spec", "template", "metadata", "labels", label]).is_some());
    validate_generated_selector(&mut errors, job, had_label(NAME_LABELS[1]) && had_label(UID_LABELS[1]));
    errors.append(validate_spec_with_selector(context, job, old));
    let completions = job.int_at(&["spec", "completions"]).unwrap_or(0);
    if job.str_at(&["spec", "completionMode"]) == "Indexed" && completions > 0 {
        let hostname = format!("{}-{}", job.name(), completions - 1);
        if !names::dns1123_label(&hostname).is_empty() {
            let text = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.invalid(&FieldPath::new("metadata").child("name"), job.name(), text);
        }
    }
    errors
}

fn validate_generated_selector(errors: &mut Errors, job: &Value, prefixed: bool) {
    let Some(selector) = job.at(&["spec", "selector"]) else { return };
    if job.bool_at(&["spec", "manualSelector"]) {
        return;
    }
    let metadata = FieldPath::new("metadata");
    if job.uid().is_empty() {
        errors.required(&metadata.child("uid"), "");
    }
    let mut expected = vec![(UID_LABELS[0], job.uid()), (NAME_LABELS[0], job.name())];
    if prefixed {
        expected.extend([(UID_LABELS[1], job.uid()), (NAME_LABELS[1], job.name())]);
    }
    let labels = job.at(&["spec", "template", "metadata", "labels"]);
    let path = FieldPath::new("spec.template.metadata.labels");
    for (label, value) in &expected {
        match labels.and_then(|labels| labels.get(label)).and_then(Value::as_str) {
            None => errors.required(&path.key(label), format!("must be '{value}'")),
            Some(actual) if actual != *value => {
                errors.invalid(&path.key(label), labels.cloned(), format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let expected: pintle_value::Object = expected.into_iter().collect();
    if labels::parse_selector(Some(selector))
        .is_some_and(|s| !labels::matches_labels(&s, Some(&Value::Object(expected))))
    {
        errors.push(
            FieldError::invalid(
                &FieldPath::new("spec").child("selector"),
                Value::Null,
                "`selector` not auto-generated",
            )
            .showing(go_json::print(selector)),
        );
    }
}

/// Validates a job's spec and that its selector matches its template.
pub(super) fn validate_spec_with_selector(context: &StrategyContext, job: &Value, old: Option<&Value>) -> Errors {
    let path = FieldPath::new("spec");
    let spec = &job["spec"];
    let mut errors = validate_spec(context, spec, old.and_then(|old| old.get("spec")), &path);
    let selector = spec.get("selector");
    if selector.is_none() {
        errors.required(&path.child("selector"), "");
    }
    let any_value = has_invalid_value(old.and_then(|old| old.at(&["spec", "selector"])));
    errors.append(validate_selector(selector, any_value, &path.child("selector")));
    let labels = spec.at(&["template", "metadata", "labels"]);
    if labels::parse_selector(selector).is_some_and(|selector| !labels::matches_labels(&selector, labels)) {
        template::add_selector_mismatch(&mut errors, labels, &path.child("template"));
    }
    errors
}

/// Validates the spec of a job or of a CronJob's job template.
pub(super) fn validate_spec(
    context: &StrategyContext,
    spec: &Value,
    old: Option<&Value>,
    path: &FieldPath<'_>,
) -> Errors {
    let mut errors = Errors::new();
    SPEC.validate_part(&mut errors, spec, path);
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        errors.append(names::domain_prefixed_path(&path.child("managedBy"), manager));
        if manager.len() > MANAGED_BY_LENGTH {
            errors.push(FieldError::too_long(&path.child("managedBy"), MANAGED_BY_LENGTH));
        }
    }
    validate_mode(&mut errors, spec, path);
    if spec.get("podFailurePolicy").is_some() {
        policies::validate_failure_policy(&mut errors, spec, &path.child("podFailurePolicy"));
    }
    if let Some(policy) = spec.get("successPolicy") {
        let path = path.child("successPolicy");
        if spec.str_at(&["completionMode"]) == "Indexed" {
            policies::validate_success_policy(&mut errors, spec, &path);
        } else {
            let shown = go_json::internal(Some(policy), &policies::SUCCESS_POLICY);
            let error = FieldError::invalid(&path, Value::Null, "requires indexed completion mode");
            errors.push(error.showing(shown));
        }
    }
    policies::validate_replacement_policy(&mut errors, spec, &path.child("podReplacementPolicy"));
    let old_template = old.and_then(|old| old.get("template"));
    errors.append(template::validate(context, spec.get("template"), old_template, &path.child("template")));
    validate_restart_policy(&mut errors, spec, path);
    errors
}

fn validate_mode(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let number = |field: &str| spec.int_at(&[field]);
    let (completions, parallelism) = (number("completions"), number("parallelism"));
    let (failed, per_index) = (number("maxFailedIndexes"), number("backoffLimitPerIndex"));
    let (parallelism_path, failed_path) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    let mode = spec.get("completionMode").and_then(Value::as_str).unwrap_or("NonIndexed");
    if mode != "NonIndexed" && mode != "Indexed" {
        errors.not_supported(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    let over = |value: Option<i64>, limit: i64| value.filter(|value| *value > limit);
    if mode == "Indexed" {
        if completions.is_none() {
            errors.required(&path.child("completions"), "when completion mode is Indexed");
        }
        if let Some(value) = over(parallelism, MAX_INDEXED_PARALLELISM) {
            let limit = MAX_INDEXED_PARALLELISM;
            let text = format!("must be less than or equal to {limit} when completion mode is Indexed");
            errors.invalid(&parallelism_path, value, text);
        }
        if let Some(value) = completions.and_then(|completions| over(failed, completions)) {
            errors.invalid(&failed_path, value, "must be less than or equal to completions");
        }
        if let Some(value) = over(failed, MAX_FAILED_INDEXES) {
            errors.invalid(&failed_path, value, format!("must be less than or equal to {MAX_FAILED_INDEXES}"));
        }
        if over(completions, MANY_COMPLETIONS).is_some() && per_index.is_some() {
            if failed.is_none() {
                let text = format!("must be specified when completions is above {MANY_COMPLETIONS}");
                errors.required(&failed_path, text);
            }
            let text = format!(
                "must be less than or equal to {LIMIT_FOR_MANY_COMPLETIONS} when completions are above \
                 {MANY_COMPLETIONS} and used with backoff limit per index"
            );
            if let Some(value) = over(parallelism, LIMIT_FOR_MANY_COMPLETIONS) {
                errors.invalid(&parallelism_path, value, text.as_str());
            }
            if let Some(value) = over(failed, LIMIT_FOR_MANY_COMPLETIONS) {
                errors.invalid(&failed_path, value, text.as_str());
            }
        }
    }
    if mode == "NonIndexed" {
        for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
            if let Some(value) = value {
                errors.invalid(&path.child(field), value, "requires indexed completion mode");
            }
        }
    }
}

fn validate_restart_policy(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let template = path.child("template");
    let pod = template.child("spec");
    let path = pod.child("restartPolicy");
    match spec.str_at(&["template", "spec", "restartPolicy"]) {
        "" | "Always" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.get("podFailurePolicy").is_some() => {
            errors.invalid(&path, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

#[cfg(test)]
mod tests {
    use pintle_registry::Strategy;

    use super::*;
    use crate::batch::job::JobStrategy;
    use crate::testing::{context, messages, object};

    /// A job ready for validation: with these fields of the spec, defaults and generated labels.
    fn job(spec: &str) -> Value {
        let mut job = object(
            r#"{"metadata":{"name":"j","uid":"u"},"spec":{"template":{"metadata":{},"spec":
                {"restartPolicy":"Never","containers":[{"name":"c","image":"i:1","resources":{}}]}}}}"#,
        );
        for (field, value) in object(spec).as_object().expect("object").iter() {
            job.set_at(&["spec", field], value.clone());
        }
        JobStrategy.defaults(&mut job);
        JobStrategy.prepare_for_create(&context(), &mut job);
        job
    }

    #[test]
    fn specs_are_validated() {
        let check =
            |spec: &str, expect: &[&str]| assert_eq!(messages(&validate_job(&context(), &job(spec), None)), expect);
        check("{}", &[]);
        check(
            r#"{"parallelism":-1,"backoffLimit":-2,"managedBy":"me"}"#,
            &[
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.backoffLimit: Invalid value: -2: must be greater than or equal to 0",
                "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ],
        );
        check(
            r#"{"backoffLimitPerIndex":1,"maxFailedIndexes":1}"#,
            &[
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
        );
        check(
            r#"{"completionMode":"Indexed","parallelism":200000,"maxFailedIndexes":5}"#,
            &[
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.completions: Required value: when completion mode is Indexed",
                "spec.parallelism: Invalid value: 200000: must be less than or equal to 100000 when completion mode is Indexed",
            ],
        );
        check(
            r#"{"completionMode":"Indexed","completions":100001,"parallelism":10001,"backoffLimitPerIndex":1}"#,
            &[
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
                "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
            ],
        );
        check(
            r#"{"completionMode":"Sometimes","podReplacementPolicy":"Never"}"#,
            &[
                "spec.completionMode: Unsupported value: \"Sometimes\": supported values: \"NonIndexed\", \"Indexed\"",
                "spec.podReplacementPolicy: Unsupported value: \"Never\": supported values: \"Failed\", \"TerminatingOrFailed\"",
            ],
        );
        check(
            r#"{"successPolicy":{"rules":[{"succeededCount":1}]}}"#,
            &[
                "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: requires indexed completion mode",
            ],
        );
    }

    #[test]
    fn restart_policy_always_is_rejected() {
        let check = |restart: &str, policy: &str, expect: &[&str]| {
            let spec = format!(
                r#"{{"template":{{"metadata":{{}},"spec":{{{restart}"containers":[{{"name":"c","image":"i:1","resources":{{}}}}]}}}}{policy}}}"#
            );
            assert_eq!(messages(&validate_job(&context(), &job(&spec), None)), expect);
        };
        check("", "", &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""]);
        check("\"restartPolicy\":\"OnFailure\",", "", &[]);
        let policy =
            r#","podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"}]}]}"#;
        check(
            "\"restartPolicy\":\"OnFailure\",",
            policy,
            &[
                "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
            ],
        );
    }

    #[test]
    fn generated_labels_must_not_be_changed() {
        let check = |change: &dyn Fn(&mut Value), expect: &[&str]| {
            let mut job = job("{}");
            change(&mut job);
            assert_eq!(messages(&validate_job(&context(), &job, None)), expect);
        };
        let label = |key: &'static str| {
            move |job: &mut Value| job.set_at(&["spec", "template", "metadata", "labels", key], "x")
        };
        let labels = r#"{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"x"}"#;
        check(
            &label("job-name"),
            &[&format!("spec.template.metadata.labels[job-name]: Invalid value: {labels}: must be 'j'")],
        );
        check(
            &|job| job.set_at(&["spec", "selector", "matchLabels", "a"], "b"),
            &[
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated",
                "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"j\",\"controller-uid\":\"u\",\"job-name\":\"j\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            &|job| {
                job.set_at(&["spec", "completionMode"], "Indexed");
                job.set_at(&["metadata", "name"], "a.b");
                for key in NAME_LABELS {
                    job.set_at(&["spec", "template", "metadata", "labels", key], "a.b");
                }
            },
            &["metadata.name: Invalid value: \"a.b\": will not able to create pod with invalid DNS label: a.b-0"],
        );
    }
}
