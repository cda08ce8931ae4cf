//! Validates `spec.scheduling` of jobs (upstream: `pkg/registry/batch/job` and
//! `k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder`). The tags of its types validate the rest.

use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldPath, Value};

/// Validates how the pods of a job are scheduled; `old` is the old job on update. Templates of CronJobs are not
/// validated, only their jobs.
pub(super) fn validate(errors: &mut Errors, job: &Value, old: Option<&Value>) {
    let Some(scheduling) = scheduling(job) else { return };
    let spec = FieldPath::new("spec");
    let path = spec.child("scheduling");
    let policy = scheduling.get("schedulingPolicy").filter(|policy| !policy.is_null());

    // A job without a policy has the basic policy.
    let is_basic = policy.is_none_or(|policy| has(policy, "basic"));
    if is_basic && scheduling.get("disruptionMode").is_some_and(|mode| has(mode, "all")) {
        let text = "the disruptionMode `all` is not supported with the Basic scheduling policy";
        errors.invalid(&path.child("disruptionMode"), "", text);
    }

    // Adding and removing the policy violates the tags.
    let old = old.and_then(scheduling_policy);
    if let (Some(policy), Some(old)) = (policy, old)
        && ["basic", "gang"].iter().any(|variant| has(policy, variant) != has(old, variant))
    {
        errors.invalid(&path.child("schedulingPolicy"), Value::Null, IMMUTABLE_TEXT);
    }
}

fn scheduling(job: &Value) -> Option<&Value> {
    job.at(&["spec", "scheduling"]).filter(|scheduling| !scheduling.is_null())
}

fn scheduling_policy(job: &Value) -> Option<&Value> {
    scheduling(job)?.get("schedulingPolicy").filter(|policy| !policy.is_null())
}

fn has(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn job(scheduling: &str) -> Value {
        object(&format!(r#"{{"spec":{{"scheduling":{scheduling}}}}}"#))
    }

    #[test]
    fn policies_and_disruption_modes() {
        let check = |new: &str, old: Option<&str>, expect: &[&str]| {
            let mut errors = Errors::new();
            validate(&mut errors, &job(new), old.map(job).as_ref());
            assert_eq!(messages(&errors), expect);
        };
        let of_all = "spec.scheduling.disruptionMode: Invalid value: \"\": the disruptionMode `all` is not supported with \
                      the Basic scheduling policy";
        let changed = "spec.scheduling.schedulingPolicy: Invalid value: null: field is immutable";
        check(r#"{"disruptionMode":{"single":{}}}"#, None, &[]);
        check(r#"{"disruptionMode":{"all":{}}}"#, None, &[of_all]);
        check(r#"{"schedulingPolicy":{"basic":{}},"disruptionMode":{"all":{}}}"#, None, &[of_all]);
        check(r#"{"schedulingPolicy":{"gang":{}},"disruptionMode":{"all":{}}}"#, None, &[]);
        check(r#"{"schedulingPolicy":{},"disruptionMode":{"all":{}}}"#, None, &[]);

        let (basic, gang) = (r#"{"schedulingPolicy":{"basic":{}}}"#, r#"{"schedulingPolicy":{"gang":{"minCount":1}}}"#);
        check(basic, Some(basic), &[]);
        check(r#"{"schedulingPolicy":{"gang":{"minCount":2}}}"#, Some(gang), &[]);
        check(basic, Some(gang), &[changed]);
        check(gang, Some(basic), &[changed]);
        check(gang, Some("{}"), &[]);
        check("null", Some(gang), &[]);
    }
}
