//! Strategies of the group `scheduling.k8s.io`.

mod pod_group;
mod priorityclass;
mod workload;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use priorityclass::system_priority_classes;

/// The option of the rules about constraints of topology. Upstream enables it for objects that use them, too.
const TOPOLOGY_FEATURE: &str = "TopologyAwareWorkloadScheduling";

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "podgroups" => Some(Arc::new(pod_group::PodGroupStrategy)),
        "priorityclasses" => Some(Arc::new(priorityclass::PriorityClassStrategy)),
        "workloads" => Some(Arc::new(workload::WorkloadStrategy)),
        _ => None,
    }
}
