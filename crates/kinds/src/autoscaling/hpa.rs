//! The strategy for HorizontalPodAutoscaler, which is stored as `autoscaling/v2` and converted for `v1` (upstream:
//! `pkg/apis/autoscaling/v1` and `v2`, `pkg/registry/autoscaling/horizontalpodautoscaler`).

use pintle_gates::{Change, Feature, Gates};
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, Value, object};

use super::{annotations, hpa_validation, v1};
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC, StatusStrategy, reset_status, set_generation};

static STATUS: StatusStrategy = StatusStrategy::new(hpa_validation::validate_status);

/// The default target CPU utilization.
pub(super) const DEFAULT_CPU_UTILIZATION: i64 = 80;

/// A served version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HpaVersion {
    /// `autoscaling/v1`, which has fields only for CPU and stores the rest in annotations.
    V1,
    /// `autoscaling/v2`, the storage version.
    V2,
}

impl HpaVersion {
    /// The version with a name.
    pub(crate) fn named(version: &str) -> Self {
        if version == "v1" { HpaVersion::V1 } else { HpaVersion::V2 }
    }
}

/// The strategy for HorizontalPodAutoscaler at one version.
pub(crate) struct HorizontalPodAutoscalerStrategy {
    version: HpaVersion,
    /// Whether conditions name the generation that they are about.
    conditions_have_generations: bool,
}

impl HorizontalPodAutoscalerStrategy {
    /// The strategy at a version.
    pub(crate) fn new(version: HpaVersion, gates: &Gates) -> Self {
        Self { version, conditions_have_generations: gates.has(Change::AUTOSCALER_CONDITIONS_HAVE_GENERATIONS) }
    }
}

impl Strategy for HorizontalPodAutoscalerStrategy {
    fn defaults(&self, object: &mut Value) {
        match self.version {
            HpaVersion::V1 => {
                if let Some(spec) = object.get_mut("spec") {
                    spec.set_default("minReplicas", 1);
                }
            }
            HpaVersion::V2 => {
                annotations::drop_all(object);
                defaults(object);
            }
        }
    }

    fn convert_to_hub(&self, object: &mut Value) {
        if self.version == HpaVersion::V1 {
            v1::to_hub(object, self.conditions_have_generations);
        }
    }

    fn convert_from_hub(&self, object: &mut Value) {
        if self.version == HpaVersion::V1 {
            v1::from_hub(object);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, object! { "desiredReplicas": 0, "currentMetrics": Value::Null });
        drop_disabled(&context.gates, Part::Autoscaler, object, old);
        if context.gates.is_enabled(Feature::HPA_GENERATION) {
            set_generation(object, old, SPEC);
        }
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        hpa_validation::validate(context, object, old)
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        // Autoscalers that scale to zero may keep it.
        let is_used = || old.is_some_and(|old| old.int_at(&["spec", "minReplicas"]) == Some(0));
        gates.is_enabled_by_name(option) || (option == "HPAScaleToZero" && is_used())
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

/// The default metric of an autoscaler.
pub(super) fn cpu_metric(utilization: i64) -> Value {
    let target = object! { "type": "Utilization", "averageUtilization": utilization };
    object! { "type": "Resource", "resource": object! { "name": "cpu", "target": target } }
}

/// Sets the defaults of `v2`.
fn defaults(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    spec.set_default("minReplicas", 1);
    if spec.items_at(&["metrics"]).is_empty() {
        spec.set("metrics", vec![cpu_metric(DEFAULT_CPU_UTILIZATION)]);
    }
    if let Some(behavior) = spec.get_mut("behavior") {
        set_behavior_defaults(behavior);
    }
}

/// Sets the rules of both directions if either is set.
fn set_behavior_defaults(behavior: &mut Value) {
    let policy = |kind: &str, value: i64| object! { "type": kind, "value": value, "periodSeconds": 15 };
    behavior.set_default("scaleUp", Value::object());
    if let Some(up) = behavior.get_mut("scaleUp") {
        up.set_default("stabilizationWindowSeconds", 0);
        up.set_default("selectPolicy", "Max");
        up.set_default("policies", vec![policy("Pods", 4), policy("Percent", 100)]);
    }
    behavior.set_default("scaleDown", Value::object());
    if let Some(down) = behavior.get_mut("scaleDown") {
        // The default stabilization window for scaling down is a flag of the controller.
        down.set_default("selectPolicy", "Max");
        down.set_default("policies", vec![policy("Percent", 100)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, context_in, context_of, object};
    use pintle_versions::Minor;

    const V2: HorizontalPodAutoscalerStrategy =
        HorizontalPodAutoscalerStrategy { version: HpaVersion::V2, conditions_have_generations: true };

    #[test]
    fn specs_have_generations() {
        let hpa = |max: i64, generation: i64| {
            let metadata = if generation == 0 {
                Value::object()
            } else {
                object! { "generation": generation }
            };
            object! { "metadata": metadata, "spec": object! { "maxReplicas": max }, "status": Value::object() }
        };
        let check = |context: &StrategyContext, max: i64, old: Option<Value>, expect: i64| {
            // An update begins with the generation of the old object.
            let mut new = hpa(max, old.as_ref().map_or(0, Value::generation));
            V2.prepare_write(context, &mut new, old.as_ref());
            assert_eq!(new.generation(), expect);
        };
        let since = context_in(Minor::new(37));
        check(&since, 1, None, 1);
        check(&since, 1, Some(hpa(1, 4)), 4);
        check(&since, 2, Some(hpa(1, 4)), 5);
        // An object of an older version gets its first generation with its first change.
        check(&since, 1, Some(hpa(1, 0)), 0);
        check(&since, 2, Some(hpa(1, 0)), 1);
        for without in [context_in(Minor::new(36)), context_of(37, &[("HPAGeneration", false)])] {
            check(&without, 1, None, 0);
            check(&without, 2, Some(hpa(1, 4)), 4);
        }
    }

    #[test]
    fn defaults() {
        let check = |spec: &str, expect: &str| {
            let mut hpa = object(&format!(r#"{{"spec":{spec}}}"#));
            V2.defaults(&mut hpa);
            assert_eq!(hpa["spec"], object(expect));
        };
        let cpu = r#"[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]"#;
        check(r#"{"maxReplicas":3}"#, &format!(r#"{{"maxReplicas":3,"minReplicas":1,"metrics":{cpu}}}"#));
        check(
            r#"{"minReplicas":2,"maxReplicas":3,"behavior":{"scaleDown":{"stabilizationWindowSeconds":60}}}"#,
            &format!(
                r#"{{"minReplicas":2,"maxReplicas":3,"metrics":{cpu},"behavior":{{
                    "scaleUp":{{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[{{"type":"Pods","value":4,"periodSeconds":15}},{{"type":"Percent","value":100,"periodSeconds":15}}]}},
                    "scaleDown":{{"stabilizationWindowSeconds":60,"selectPolicy":"Max","policies":[{{"type":"Percent","value":100,"periodSeconds":15}}]}}}}}}"#
            ),
        );
    }

    #[test]
    fn annotations_of_the_other_version_are_dropped() {
        let mut hpa = object(
            r#"{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/conditions":"[]"}},"spec":{},"status":{"x":1}}"#,
        );
        V2.defaults(&mut hpa);
        V2.prepare_for_create(&context(), &mut hpa);
        assert_eq!(hpa["metadata"], Value::object());
        assert_eq!(hpa["status"], object(r#"{"desiredReplicas":0,"currentMetrics":null}"#));
    }
}
