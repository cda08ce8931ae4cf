//! Validates HorizontalPodAutoscalers (upstream: `pkg/apis/autoscaling/validation`). The validation of metrics is in
//! `metrics_validation`.

use pintle_gates::Feature;
use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldPath, Value};

use super::metrics_validation;
use crate::declarative::Rules;
use crate::generic::same_at;

static REFERENCE: Rules = Rules::own("autoscaling/v2", "CrossVersionObjectReference");

static STATUS: Rules = Rules::own("autoscaling/v2", "HorizontalPodAutoscalerStatus");
static BEHAVIOR: Rules = Rules::own("autoscaling/v2", "HorizontalPodAutoscalerBehavior");

/// Which API versions of references are tolerated.
#[derive(Clone, Copy)]
pub(super) struct ReferenceOptions {
    /// Tolerates the core group, which has no name.
    pub(super) core_group: bool,
    /// Tolerates any text.
    pub(super) any_version: bool,
}

/// Validates an autoscaler; `old` is the old object on update.
pub(super) fn validate(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &object["spec"];
    let old = old.and_then(|old| old.get("spec"));

    let min = spec.int_at(&["minReplicas"]);
    // Scaling to zero is a feature; objects that use it may keep it.
    let in_use = old.is_some_and(|old| old.int_at(&["minReplicas"]) == Some(0));
    let lowest = if in_use || context.gates.is_enabled(Feature::HPA_SCALE_TO_ZERO) { 0 } else { 1 };
    if let Some(min) = min.filter(|min| *min < lowest) {
        let text = format!("must be greater than or equal to {lowest}");
        errors.invalid(&path.child("minReplicas"), min, text);
    }
    let max = spec.int_at(&["maxReplicas"]).unwrap_or(0);
    let max_path = path.child("maxReplicas");
    if max == 0 {
        errors.required(&max_path, "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(&max_path, max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(&max_path, max, "must be greater than or equal to `minReplicas`");
    }

    let target = &spec["scaleTargetRef"];
    let target_path = path.child("scaleTargetRef");
    let unchanged = old.is_some_and(|old| {
        let same = |field| same_at(spec, old, &["scaleTargetRef", field]);
        same("apiVersion") && same("kind")
    });
    let core_group = !unchanged && target.str_at(&["kind"]) == "ReplicationController";
    let options = ReferenceOptions { core_group, any_version: unchanged };
    validate_reference(&mut errors, target, &target_path, options);

    metrics_validation::validate(&mut errors, spec, old, &path.child("metrics"));
    BEHAVIOR.validate_part(&mut errors, &spec["behavior"], &path.child("behavior"));
    errors
}

/// Validates a reference to an object.
pub(super) fn validate_reference(
    errors: &mut Errors,
    reference: &Value,
    path: &FieldPath<'_>,
    options: ReferenceOptions,
) {
    REFERENCE.validate_part(errors, reference, path);
    if let Some(message) = version_error(reference, options) {
        errors.invalid(&path.child("apiVersion"), reference.str_at(&["apiVersion"]), message);
    }
}

/// Returns the error message about the API version of a reference.
pub(super) fn version_error(reference: &Value, options: ReferenceOptions) -> Option<String> {
    if options.any_version {
        return None;
    }
    let text = reference.str_at(&["apiVersion"]);
    let parts: Vec<&str> = text.split('/').collect();
    let group = match parts.as_slice() {
        [group, _] => *group,
        [] | [_] => "",
        _ => return Some(format!("unexpected GroupVersion string: {text}")),
    };
    (group.is_empty() && !options.core_group).then(|| "apiVersion must specify API group".to_owned())
}

/// Validates an update of the status.
pub(super) fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    STATUS.validate_part(&mut errors, &object["status"], &path);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn hpa(change: &str) -> Value {
        let mut hpa = object(
            r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,
                "metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}"#,
        );
        for (field, value) in object(change).as_object().expect("object").iter() {
            hpa.set_at(&["spec", field], value.clone());
        }
        hpa
    }

    #[test]
    fn specs_are_validated() {
        let check =
            |change: &str, expect: &[&str]| assert_eq!(messages(&validate(&context(), &hpa(change), None)), expect);
        check("{}", &[]);
        check(
            r#"{"minReplicas":0,"maxReplicas":-1,"scaleTargetRef":{"kind":"a/b"}}"#,
            &[
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.scaleTargetRef.name: Required value",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ],
        );
        check(r#"{"scaleTargetRef":{"kind":"ReplicationController","name":"r","apiVersion":"v1"}}"#, &[]);
        check(
            r#"{"scaleTargetRef":{"kind":"X","name":"r","apiVersion":"a/b/c"},"maxReplicas":0}"#,
            &[
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ],
        );
        check(
            r#"{"behavior":{"scaleUp":{"stabilizationWindowSeconds":4000,"selectPolicy":"Any","policies":[{"type":"Some","value":0,"periodSeconds":2000}],"tolerance":"-1"}}}"#,
            &[
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
                "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"Any\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"Some\": supported values: \"Percent\", \"Pods\"",
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
                "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        );
    }

    #[test]
    fn errors_of_the_old_object_are_tolerated() {
        let invalid = r#"{"minReplicas":0,"scaleTargetRef":{"kind":"X","name":"r","apiVersion":"v1"},
            "metrics":[{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":"1"}}}]}"#;
        assert_eq!(validate(&context(), &hpa(invalid), None).count(), 2);
        assert_eq!(messages(&validate(&context(), &hpa(invalid), Some(&hpa(invalid)))), [""; 0]);
    }
}
