//! Strategies of the group `scheduling.k8s.io`.

pub(crate) mod composite_pod_group;
pub(crate) mod pod_group;
pub(crate) mod priorityclass;
mod template_tree;
pub(crate) mod workload;

use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldPath, Value, metadata};

pub use priorityclass::system_priority_classes;

/// The option of the rules about constraints of topology. Upstream enables it for objects that use them, too.
const TOPOLOGY_FEATURE: &str = "TopologyAwareWorkloadScheduling";
/// The option of the rules about preemption policies of pod groups.
const PREEMPTION_FEATURE: &str = "PodGroupPreemptionPolicy";
/// The option of the rules about groups of pod groups.
const COMPOSITE_FEATURE: &str = "CompositePodGroup";

/// Sets the default preemption policy of a pod group or a composite pod group.
fn set_default_preemption_policy(group: &mut Value) {
    if let Some(spec) = group.get_mut("spec") {
        spec.set_default("preemptionPolicy", "PreemptLowerPriority");
    }
}

/// Validates the conditions in the status of a pod group or a composite pod group.
fn validate_conditions(context: &StrategyContext, group: &Value) -> Errors {
    let path = FieldPath::new("status.conditions");
    metadata::validate_conditions(&group["status"]["conditions"], context.missing_fields(), &path)
}
