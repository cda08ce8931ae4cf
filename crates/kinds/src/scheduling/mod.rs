//! Strategies of the group `scheduling.k8s.io`.

pub(crate) mod pod_group;
pub(crate) mod priorityclass;
pub(crate) mod workload;

pub use priorityclass::system_priority_classes;

/// The option of the rules about constraints of topology. Upstream enables it for objects that use them, too.
const TOPOLOGY_FEATURE: &str = "TopologyAwareWorkloadScheduling";
