//! Validation of a job's spec (upstream: `ValidateJob` and `validateJobSpec` of `pkg/apis/batch/validation`), for jobs
//! and for the template of a CronJob.

use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::job::{NAME_LABELS, UID_LABELS};
use super::policies;
use crate::apps::template;
use crate::gojson;
use crate::labels::{self, has_invalid_value, validate_selector};
use crate::strategy::nonnegative;

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const LIMIT_FOR_MANY_COMPLETIONS: i64 = 10_000;
const MANAGED_BY_LENGTH: usize = 63;

/// The integers of a spec that must not be negative, in upstream's order.
const NONNEGATIVE: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Checks a job.
pub(super) fn validate_job(job: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    // Jobs older than the prefixed labels do not have them.
    let had_label = |label| old.is_none_or(|old| old.at(&["spec", "template", "metadata", "labels", label]).is_some());
    validate_generated_selector(&mut errors, job, had_label(NAME_LABELS[1]) && had_label(UID_LABELS[1]));
    errors.append(validate_spec_with_selector(job, old));
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
    if labels::read(Some(selector)).is_some_and(|s| !labels::selects(&s, Some(&Value::Object(expected)))) {
        errors.push(
            FieldError::invalid(
                &FieldPath::new("spec").child("selector"),
                Value::Null,
                "`selector` not auto-generated",
            )
            .showing(gojson::print(selector)),
        );
    }
}

/// Checks a job's spec and that its selector selects its pods.
pub(super) fn validate_spec_with_selector(job: &Value, old: Option<&Value>) -> Errors {
    let path = FieldPath::new("spec");
    let empty = Value::object();
    let spec = job.get("spec").unwrap_or(&empty);
    let mut errors = validate_spec(spec, old.and_then(|old| old.get("spec")), &path);
    let selector = spec.get("selector");
    if selector.is_none() {
        errors.required(&path.child("selector"), "");
    }
    let any_value = has_invalid_value(old.and_then(|old| old.at(&["spec", "selector"])));
    errors.append(validate_selector(selector, any_value, &path.child("selector")));
    let labels = spec.at(&["template", "metadata", "labels"]);
    if labels::read(selector).is_some_and(|selector| !labels::selects(&selector, labels)) {
        template::labels_do_not_match(&mut errors, labels, &path.child("template"));
    }
    errors
}

/// Checks the spec of a job or of a CronJob's template.
pub(super) fn validate_spec(spec: &Value, old: Option<&Value>, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    for field in NONNEGATIVE {
        nonnegative(&mut errors, spec.int_at(&[field]), &path.child(field));
    }
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
            let shown = gojson::internal(Some(policy), &policies::SUCCESS_POLICY);
            let error = FieldError::invalid(&path, Value::Null, "requires indexed completion mode");
            errors.push(error.showing(shown));
        }
    }
    policies::validate_replacement_policy(&mut errors, spec, &path.child("podReplacementPolicy"));
    let old_template = old.and_then(|old| old.get("template"));
    errors.append(template::validate(spec.get("template"), old_template, &path.child("template")));
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
