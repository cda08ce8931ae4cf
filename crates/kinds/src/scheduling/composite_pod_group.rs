//! The strategy for CompositePodGroup, a group of pod groups (KEP-5547; upstream:
//! `pkg/registry/scheduling/compositepodgroup`). The tags of its types have most of its rules.

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::Value;

use super::{PREEMPTION_FEATURE, set_default_preemption_policy, validate_conditions};
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, is_enabled_or_used, reset_status};

/// The strategy for CompositePodGroup.
pub(crate) struct CompositePodGroupStrategy {
    has_preemption_policy: bool,
}

impl CompositePodGroupStrategy {
    /// The strategy of a server with these feature gates.
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { has_preemption_policy: gates.is_enabled_by_name(PREEMPTION_FEATURE) }
    }
}

static STATUS: StatusStrategy =
    StatusStrategy::new(|context, object, _| validate_conditions(context, object)).preserving(SPEC_AND_METADATA);

impl Strategy for CompositePodGroupStrategy {
    fn defaults(&self, object: &mut Value) {
        if self.has_preemption_policy {
            set_default_preemption_policy(object);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(&context.gates, Part::CompositePodGroup, spec, old.and_then(|old| old.get("spec")));
        }
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        is_enabled_or_used(gates, option, old, (PREEMPTION_FEATURE, &["spec", "preemptionPolicy"]))
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context_of, messages, object};

    const FEATURES: [(&str, bool); 4] = [
        ("GenericWorkload", true),
        ("TopologyAwareWorkloadScheduling", true),
        ("CompositePodGroup", true),
        ("PodGroupPreemptionPolicy", true),
    ];

    #[test]
    fn the_preemption_policy_depends_on_its_feature() {
        let (on, off) = (context_of(37, &FEATURES), context_of(37, &FEATURES[..3]));
        let prepared = |context: &StrategyContext, old: Option<&str>| {
            let strategy = CompositePodGroupStrategy::new(&context.gates);
            let mut group = object(r#"{"spec":{"workloadRef":{}}}"#);
            strategy.defaults(&mut group);
            group.set_at(&["spec", "schedulingConstraints"], Value::object());
            let policy = group.at(&["spec", "preemptionPolicy"]).is_some();
            group.set_at(&["spec", "preemptionPolicy"], "Never");
            strategy.prepare_write(context, &mut group, old.map(object).as_ref());
            assert!(group.at(&["spec", "schedulingConstraints"]).is_some());
            (policy, group.at(&["spec", "preemptionPolicy"]).is_some())
        };
        assert_eq!(prepared(&on, None), (true, true));
        assert_eq!(prepared(&off, None), (false, false));
        assert_eq!(prepared(&off, Some(r#"{"spec":{"preemptionPolicy":"Never"}}"#)), (false, true));
        let strategy = CompositePodGroupStrategy::new(&off.gates);
        assert!(!strategy.has_option(&off.gates, PREEMPTION_FEATURE, None));
        let old = object(r#"{"spec":{"preemptionPolicy":"Never"}}"#);
        assert!(strategy.has_option(&off.gates, PREEMPTION_FEATURE, Some(&old)));
    }

    #[test]
    fn conditions_are_validated() {
        let group = object(
            r#"{"status":{"conditions":[{"type":"T","status":"True","reason":"","lastTransitionTime":"2026-01-01T00:00:00Z","message":""}]}}"#,
        );
        let strategy = CompositePodGroupStrategy::new(&context_of(37, &FEATURES).gates);
        let status = strategy.subresource("status").expect("a status");
        assert_eq!(
            messages(&status.validate_update(&context_of(37, &FEATURES), &group, &group)),
            ["status.conditions[0].reason: Required value"]
        );
    }
}
