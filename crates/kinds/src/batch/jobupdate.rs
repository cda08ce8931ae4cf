//! Validates updates of a job's spec (upstream: `ValidateJobSpecUpdate`). The parallelism is mutable, and so are the
//! completions of Indexed jobs together with it. While the job is suspended and has no pods, scheduling directives and
//! resources of the template are mutable too.

use pintle_gates::Feature;
use pintle_registry::StrategyContext;
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::jobspec::validate_spec_with_selector;
use super::jobstatus::is_true;
use super::policies::{FAILURE_POLICY, SUCCESS_POLICY};
use crate::generic::{keep_old, same_at, validate_immutable};
use crate::go_json::{self, GoType};

const PLAIN: GoType = GoType::NULLABLE;

/// The immutable fields beside selector and template, in upstream's order.
const IMMUTABLE: [(&str, &GoType); 5] = [
    ("completionMode", &PLAIN),
    ("podFailurePolicy", &FAILURE_POLICY),
    ("backoffLimitPerIndex", &PLAIN),
    ("managedBy", &PLAIN),
    ("successPolicy", &SUCCESS_POLICY),
];

/// Validates an update of a job's spec. Like upstream, validates the new spec once more.
pub(super) fn validate_change(context: &StrategyContext, job: &Value, old: &Value) -> Errors {
    let mut errors = validate_spec_with_selector(context, job, Some(old));
    let path = FieldPath::new("spec");
    validate_completions(&mut errors, job, old, &path);
    validate_immutable(
        &mut errors,
        job.at(&["spec", "selector"]),
        old.at(&["spec", "selector"]),
        &path.child("selector"),
    );
    validate_template(context, &mut errors, job, old, &path);
    for (field, shape) in IMMUTABLE {
        if !same_at(job, old, &["spec", field]) {
            let new = job.at(&["spec", field]);
            let shown = new.map_or_else(|| "null".to_owned(), |new| go_json::internal(Some(new), shape));
            let error = FieldError::invalid(&path.child(field), new.cloned(), IMMUTABLE_TEXT);
            errors.push(error.showing(shown));
        }
    }
    errors
}

fn validate_completions(errors: &mut Errors, job: &Value, old: &Value, path: &FieldPath<'_>) {
    let field = ["spec", "completions"];
    let path = path.child("completions");
    if job.str_at(&["spec", "completionMode"]) != "Indexed" {
        validate_immutable(errors, job.at(&field), old.at(&field), &path);
        return;
    }
    let Some(completions) = job.int_at(&field).filter(|_| !same_at(job, old, &field)) else { return };
    if job.int_at(&["spec", "parallelism"]) != Some(completions) {
        errors.invalid(&path, completions, "can only be modified in tandem with spec.parallelism");
    }
}

fn validate_template(context: &StrategyContext, errors: &mut Errors, job: &Value, old: &Value, path: &FieldPath<'_>) {
    let template = ["spec", "template"];
    let (directives, resources) = mutable_parts(context, old);
    if !directives && !resources {
        validate_immutable(errors, job.at(&template), old.at(&template), &path.child("template"));
        return;
    }
    let empty = Value::object();
    let new = job.at(&["spec", "template", "spec"]).unwrap_or(&empty);
    let mut old = old.at(&["spec", "template", "spec"]).cloned().unwrap_or(Value::object());
    if directives {
        allow_node_affinity(&mut old, new);
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            keep_old(&mut old, new, &[field]);
        }
    }
    if resources {
        for list in ["containers", "initContainers"] {
            allow_resources(&mut old, new, list);
        }
    }
    let template = path.child("template");
    validate_immutable(errors, Some(new), Some(&old), &template.child("spec"));
}

/// Returns whether the scheduling directives and the resources of a job's template may change: both while it is
/// suspended and has no pods. Without the feature for directives, they may change while a suspended job has never
/// started.
fn mutable_parts(context: &StrategyContext, job: &Value) -> (bool, bool) {
    let suspended = job.bool_at(&["spec", "suspend"]);
    let not_started = job.at(&["status", "startTime"]).is_none();
    let has_pods = job.int_at(&["status", "active"]).unwrap_or(0) != 0;
    let without_pods = suspended && (not_started || is_true(job, "Suspended")) && !has_pods;
    let is_enabled = |feature| context.gates.is_enabled(feature);
    let directives = match is_enabled(Feature::MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS) {
        true => without_pods,
        false => suspended && not_started,
    };
    (directives, without_pods && is_enabled(Feature::MUTABLE_POD_RESOURCES_FOR_SUSPENDED_JOBS))
}

fn allow_node_affinity(old: &mut Value, new: &Value) {
    let path = ["affinity", "nodeAffinity"];
    match (new.get("affinity"), old.get("affinity").is_some()) {
        (None, true) => {
            old.remove_at(&path);
            if old.get("affinity").is_some_and(Value::is_empty) {
                old.remove("affinity");
            }
        }
        (Some(_), _) => {
            old.set_default("affinity", Value::object());
            keep_old(old, new, &path);
        }
        (None, false) => {}
    }
}

fn allow_resources(old: &mut Value, new: &Value, list: &str) {
    let new = new.items_at(&[list]);
    let Some(old) = old.get_mut(list).and_then(Value::as_array_mut) else { return };
    if old.len() != new.len() {
        return;
    }
    for (old, new) in old.iter_mut().zip(new) {
        if same_at(old, new, &["name"]) {
            keep_old(old, new, &["resources"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, gated_context, messages, object};

    fn job(spec: &str, status: &str) -> Value {
        object(&format!(r#"{{"metadata":{{"name":"j"}},"spec":{spec},"status":{status}}}"#))
    }

    #[test]
    fn templates_change_only_while_suspended_without_pods() {
        let spec = |suspend: bool, change: &str| {
            format!(
                r#"{{"suspend":{suspend},"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]{change}}}}}}}"#
            )
        };
        let check = |suspend: bool, status: &str, change: &str, allowed: bool| {
            let old = job(&spec(suspend, ""), status);
            let new = job(&spec(suspend, change), status);
            let mut errors = Errors::new();
            validate_template(&context(), &mut errors, &new, &old, &FieldPath::new("spec"));
            assert_eq!(errors.is_empty(), allowed, "{change} {:?}", messages(&errors));
        };
        let selector = r#","nodeSelector":{"a":"b"}"#;
        check(true, "{}", selector, true);
        check(false, "{}", selector, false);
        check(true, r#"{"startTime":"x"}"#, selector, false);
        check(true, r#"{"startTime":"x","conditions":[{"type":"Suspended","status":"True"}]}"#, selector, true);
        check(true, r#"{"active":1}"#, selector, false);
        check(true, "{}", r#","affinity":{"nodeAffinity":{"x":1}}"#, true);
        check(true, "{}", r#","affinity":{"podAffinity":{"x":1}}"#, false);
        check(true, "{}", r#","hostNetwork":true"#, false);
        check(true, "{}", r#","containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]"#, true);
        check(true, "{}", r#","containers":[{"name":"c","image":"other"}]"#, false);
    }

    #[test]
    fn gates_decide_which_parts_are_mutable() {
        let check = |off: &[&str], status: &str, expect: (bool, bool)| {
            let off: Vec<_> = off.iter().map(|gate| (*gate, false)).collect();
            assert_eq!(mutable_parts(&gated_context(&off), &job(r#"{"suspend":true}"#, status)), expect, "{status}");
        };
        let (directives, resources) =
            ("MutableSchedulingDirectivesForSuspendedJobs", "MutablePodResourcesForSuspendedJobs");
        let ran = r#"{"startTime":"x","conditions":[{"type":"Suspended","status":"True"}]}"#;
        check(&[], ran, (true, true));
        check(&[directives], ran, (false, true));
        check(&[resources], ran, (true, false));
        check(&[directives, resources], "{}", (true, false));
        check(&[directives, resources], r#"{"active":1}"#, (true, false));
        check(&[], r#"{"active":1}"#, (false, false));
    }

    #[test]
    fn completions_of_indexed_jobs_change_only_with_parallelism() {
        let check = |old: &str, new: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            validate_completions(&mut errors, &job(new, "{}"), &job(old, "{}"), &FieldPath::new("spec"));
            assert_eq!(messages(&errors), expect);
        };
        check(
            r#"{"completions":1}"#,
            r#"{"completions":2}"#,
            &["spec.completions: Invalid value: 2: field is immutable"],
        );
        let indexed = r#"{"completionMode":"Indexed","completions":1,"parallelism":1}"#;
        check(indexed, r#"{"completionMode":"Indexed","completions":2,"parallelism":2}"#, &[]);
        check(
            indexed,
            r#"{"completionMode":"Indexed","completions":2,"parallelism":1}"#,
            &["spec.completions: Invalid value: 2: can only be modified in tandem with spec.parallelism"],
        );
    }
}
