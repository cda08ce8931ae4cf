//! The strategy for PodGroup, an instance of a workload's template (KEP-4671; upstream:
//! `pkg/registry/scheduling/podgroup` and the markers of its types).

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, Value};

use super::TOPOLOGY_FEATURE;
use crate::declarative::Rules;
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, is_enabled_or_used, reset_status};

static RULES: Rules = Rules::enforced("scheduling/v1alpha2", "PodGroup");

/// The strategy for PodGroup.
pub(crate) struct PodGroupStrategy;

impl Strategy for PodGroupStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(&context.gates, Part::PodGroup, spec, old.and_then(|old| old.get("spec")));
        }
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        validate(context, object, old)
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        has_option(gates, option, old)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// The option of a field is also enabled if the old object has the field.
fn has_option(gates: &Gates, option: &str, old: Option<&Value>) -> bool {
    is_enabled_or_used(gates, option, old, (TOPOLOGY_FEATURE, &["spec", "schedulingConstraints"]))
}

fn validate(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    RULES.validate_with(&context.gates, &|option| has_option(&context.gates, option, old), object, old)
}

static STATUS: StatusStrategy = StatusStrategy::new(|context, object, old| validate(context, object, Some(old)))
    .preserving(SPEC_AND_METADATA)
    .gated(Part::PodGroupStatus);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, check_validation_in, context, gated_context, messages, object};

    fn group(spec: &str) -> String {
        format!(r#"{{"spec":{{{spec}}}}}"#)
    }

    const POLICY: &str = r#""schedulingPolicy":{"gang":{"minCount":2}}"#;

    #[test]
    fn groups_name_their_template_and_have_one_policy() {
        let check = |spec: &str, expect: &[&str]| check_validation(&PodGroupStrategy, &group(spec), None, expect);
        check(POLICY, &[]);
        let reference = |workload: &str| format!(r#"{POLICY},"podGroupTemplateRef":{{"workload":{workload}}}"#);
        check(&reference(r#"{"workloadName":"w.x","podGroupTemplateName":"t"}"#), &[]);
        check(&reference("null"), &["spec.podGroupTemplateRef: Invalid value: \"\": must specify one of: `workload`"]);
        check(
            &reference(r#"{"podGroupTemplateName":"a.b"}"#),
            &[
                "spec.podGroupTemplateRef.workload.workloadName: Required value",
                "spec.podGroupTemplateRef.workload.podGroupTemplateName: Invalid value: \"a.b\": must not contain dots",
            ],
        );
        check(
            r#""schedulingPolicy":{"gang":{"minCount":0}}"#,
            &["spec.schedulingPolicy.gang.minCount: Required value"],
        );
    }

    #[test]
    fn the_spec_is_immutable() {
        let old = group(&format!(r#"{POLICY},"priority":1"#));
        let gates = [("GenericWorkload", true), ("GangScheduling", true), ("WorkloadAwarePreemption", true)];
        let check = |new: &str, expect: &[&str]| {
            check_validation_in(&gated_context(&gates), &PodGroupStrategy, new, Some(&old), expect);
        };
        check(&old, &[]);
        check(
            &group(r#""schedulingPolicy":{"basic":{}},"priority":2"#),
            &[
                "spec.schedulingPolicy: Invalid value: null: field is immutable",
                "spec.priority: Invalid value: null: field is immutable",
            ],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let full = r#"{"spec":{"disruptionMode":"Pod","resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#;
        let mut new = object(full);
        PodGroupStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{},"status":{}}"#));
        let status = PodGroupStrategy.subresource("status").expect("a status");
        let gates = [("GenericWorkload", true), ("DRAWorkloadResourceClaims", true)];
        for (context, old, expect) in [
            (context(), r#"{"spec":{}}"#, r#"{"spec":{},"status":{}}"#),
            (
                gated_context(&gates),
                r#"{"spec":{}}"#,
                r#"{"spec":{},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#,
            ),
            (
                self::context(),
                r#"{"spec":{"resourceClaims":[{"name":"c"}]}}"#,
                r#"{"spec":{"resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#,
            ),
        ] {
            let mut new = object(full);
            status.prepare_for_update(&context, &mut new, &object(old));
            assert_eq!(new, object(expect), "{old}");
        }
    }

    #[test]
    fn generated_claims_are_unique() {
        let status = PodGroupStrategy.subresource("status").expect("a status");
        let old = object("{}");
        let group =
            object(r#"{"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"x"},{"name":"c"}]}}"#);
        assert_eq!(
            messages(&status.validate_update(&context(), &group, &old)),
            [r#"status.resourceClaimStatuses[1]: Duplicate value: {"name":"c"}"#]
        );
    }
}
