//! The strategy for Job: defaults, generated selector and labels, and updates (upstream:
//! `pkg/apis/batch/v1/defaults.go`, `pkg/registry/batch/job`). The validation is in `jobspec` and `jobstatus`.

use pintle_registry::{GarbageCollectionPolicy, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Str, Value};

use super::{jobspec, jobstatus, jobupdate, scheduling};
use crate::apps::template;
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC, StatusStrategy, pod_name_warning, reset_status, set_generation, set_if_empty};

/// The template labels with the job's name and uid, legacy and prefixed.
pub(super) const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
pub(super) const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

const MANY_COMPLETIONS: i64 = 100_000;
const MANY_PARALLEL: i64 = 10_000;

static STATUS: StatusStrategy = StatusStrategy::new(jobstatus::validate_update);

/// Drops disabled fields from the spec of a job at a path, and from its pod template.
pub(super) fn drop_disabled_job_fields(
    context: &StrategyContext,
    object: &mut Value,
    old: Option<&Value>,
    path: &[&str],
) {
    let Some(spec) = object.at_mut(path) else { return };
    let old = old.and_then(|old| old.at(path));
    drop_disabled(&context.gates, Part::JobSpec, spec, old);
    template::drop_disabled(context, spec, old, &["template"]);
}

/// The strategy for Job.
pub(crate) struct JobStrategy;

impl Strategy for JobStrategy {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
            spec.set("completions", 1);
        }
        spec.set_default("parallelism", 1);
        let backoff = if spec.get("backoffLimitPerIndex").is_some() { i32::MAX } else { 6 };
        spec.set_default("backoffLimit", backoff);
        spec.set_default("completionMode", "NonIndexed");
        spec.set_default("suspend", false);
        let replacement = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
        spec.set_default("podReplacementPolicy", replacement);
        spec.set_default("manualSelector", false);
        set_pattern_defaults(spec);
        template::defaults(spec);
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        if old.is_none() && !object.bool_at(&["spec", "manualSelector"]) {
            generate_selector(object);
        }
        label_like_template(object);
        reset_status(object, old, Value::object());
        drop_disabled_job_fields(context, object, old, &["spec"]);
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = jobspec::validate_job(context, object, old);
        if let Some(old) = old {
            errors.append(jobupdate::validate_change(context, object, old));
        }
        scheduling::validate(&mut errors, object, old);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = &object["spec"];
        let path = FieldPath::new("spec");
        match old {
            None => {
                let mut warnings: Vec<String> = pod_name_warning(object).into_iter().collect();
                warnings.extend(spec_warnings(spec, &path));
                warnings
            }
            Some(old) if object.generation() != old.generation() => spec_warnings(spec, &path),
            Some(_) => Vec::new(),
        }
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["status.successful"]
    }

    fn unsupported_field_message(&self, field: &str) -> String {
        format!("field label {} not supported for batchv1.Job", pintle_value::field::quote(field))
    }

    fn selectable_field_sources(&self) -> Vec<&str> {
        vec!["status.succeeded"]
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, Str)> {
        let succeeded = object.int_at(&["status", "succeeded"]).unwrap_or(0);
        vec![("status.successful", Str::from(succeeded.to_string()))]
    }

    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::OrphanDependents
    }

    fn default_propagation_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
             set propagationPolicy=Orphan to suppress this warning",
        )
    }
}

/// Sets the defaults of the pod condition patterns in a pod failure policy.
pub(super) fn set_pattern_defaults(spec: &mut Value) {
    let rules = spec.at_mut(&["podFailurePolicy", "rules"]).and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            set_if_empty(pattern, "status", "True");
        }
    }
}

/// Returns the warnings about a job's spec at `path`.
pub(super) fn spec_warnings(spec: &Value, path: &FieldPath<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let number = |field: &str| spec.int_at(&[field]).unwrap_or(0);
    if spec.str_at(&["completionMode"]) == "Indexed"
        && number("completions") > MANY_COMPLETIONS
        && number("parallelism") > MANY_PARALLEL
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(template::warnings(spec, &path.child("template")));
    warnings
}

/// Adds the labels of a job's pods to the template, and a selector for them, unless the user sets them.
fn generate_selector(job: &mut Value) {
    let (name, uid) = (Str::from(job.name()), Str::from(job.uid()));
    let Some(spec) = job.get_mut("spec") else { return };
    let labels = NAME_LABELS.map(|label| (label, &name)).into_iter().chain(UID_LABELS.map(|label| (label, &uid)));
    for (label, value) in labels {
        let path = ["template", "metadata", "labels", label];
        if spec.at(&path).is_none() {
            spec.set_at(&path, value);
        }
    }
    let path = ["selector", "matchLabels", UID_LABELS[1]];
    if spec.at(&path).is_none() {
        spec.set_at(&path, &uid);
    }
}

/// Copies the labels of the template to a job without labels. Upstream does so when it sets defaults, before it adds
/// the generated labels to the template. But there the job and the template share one map, and objects are defaulted
/// again when they are read. So the job's labels always include the generated ones.
fn label_like_template(job: &mut Value) {
    if job.entries_at(&["metadata", "labels"]).next().is_some() {
        return;
    }
    if let Some(labels) = job.at(&["spec", "template", "metadata", "labels"]).filter(|l| !l.is_empty()).cloned() {
        job.set_at(&["metadata", "labels"], labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, object};

    #[test]
    fn defaults() {
        let check = |spec: &str, expect: &str| {
            let mut job = object(&format!(r#"{{"spec":{spec}}}"#));
            JobStrategy.defaults(&mut job);
            job.get_mut("spec").expect("spec").remove("template");
            let mut expect = object(expect);
            for (field, value) in [("suspend", Value::Bool(false)), ("manualSelector", Value::Bool(false))] {
                expect.set_default(field, value);
            }
            assert_eq!(job["spec"], expect);
        };
        check(
            "{}",
            r#"{"completions":1,"parallelism":1,"backoffLimit":6,"completionMode":"NonIndexed","podReplacementPolicy":"TerminatingOrFailed"}"#,
        );
        check(
            r#"{"parallelism":3}"#,
            r#"{"parallelism":3,"backoffLimit":6,"completionMode":"NonIndexed","podReplacementPolicy":"TerminatingOrFailed"}"#,
        );
        check(
            r#"{"completions":3,"completionMode":"Indexed","backoffLimitPerIndex":1,"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"x","status":""}]}]}}"#,
            r#"{"completions":3,"parallelism":1,"backoffLimit":2147483647,"completionMode":"Indexed","backoffLimitPerIndex":1,"podReplacementPolicy":"Failed",
                "podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"x","status":"True"}]}]}}"#,
        );
    }

    #[test]
    fn selector_and_labels_are_generated() {
        let mut job = object(
            r#"{"metadata":{"name":"pi","uid":"u-1"},"spec":{"manualSelector":false,"template":{"metadata":{"labels":{"app":"x"}},"spec":{}}},"status":{"active":3}}"#,
        );
        JobStrategy.prepare_for_create(&context(), &mut job);
        let labels = object(
            r#"{"app":"x","job-name":"pi","batch.kubernetes.io/job-name":"pi","controller-uid":"u-1","batch.kubernetes.io/controller-uid":"u-1"}"#,
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(job["metadata"]["labels"], labels);
        assert_eq!(job["spec"]["selector"], object(r#"{"matchLabels":{"batch.kubernetes.io/controller-uid":"u-1"}}"#));
        assert_eq!(job["status"], Value::object());
        assert_eq!(job.generation(), 1);

        let mut job = object(
            r#"{"metadata":{"name":"pi","labels":{"a":"b"}},"spec":{"manualSelector":true,"selector":{"matchLabels":{"c":"d"}},"template":{"metadata":{"labels":{"c":"d"}}}}}"#,
        );
        JobStrategy.prepare_for_create(&context(), &mut job);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], object(r#"{"c":"d"}"#));
        assert_eq!(job["metadata"]["labels"], object(r#"{"a":"b"}"#));
    }
}
