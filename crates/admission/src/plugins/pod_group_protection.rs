//! The plugin `PodGroupProtection` (upstream: `plugin/pkg/admission/scheduling/podgroupprotection`): gives new pod groups
//! and groups of pod groups a finalizer. A controller removes it when nothing belongs to the group any more.

use pintle_gates::{Feature, Gates};
use pintle_registry::ApiError;
use pintle_value::Value;
use pintle_value::metadata::{COMPOSITE_POD_GROUP_PROTECTION, POD_GROUP_PROTECTION};

use crate::finalizers::add_finalizer;
use crate::{AdmissionAttributes, Phase, SyncPlugin};

const GROUP: &str = "scheduling.k8s.io";
const COMPOSITES: &str = "compositepodgroups";

/// The admission plugin `PodGroupProtection`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodGroupProtection {
    enabled: bool,
    has_composites: bool,
}

impl PodGroupProtection {
    /// The plugin, which does nothing without the feature `GenericWorkload`.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self {
            enabled: gates.is_enabled(Feature::GENERIC_WORKLOAD),
            has_composites: gates.is_enabled(Feature::COMPOSITE_POD_GROUP),
        }
    }
}

impl SyncPlugin for PodGroupProtection {
    const NAME: &'static str = "PodGroupProtection";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled && attributes.creates(GROUP, "podgroups")
            || self.has_composites && attributes.creates(GROUP, COMPOSITES)
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        let is_composite = attributes.is_object_of(GROUP, COMPOSITES);
        add_finalizer(object, if is_composite { COMPOSITE_POD_GROUP_PROTECTION } else { POD_GROUP_PROTECTION });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, gates, gates_of, json};

    #[test]
    fn new_pod_groups_get_their_finalizer_once() {
        let plugin = PodGroupProtection::new(&gates(&["GenericWorkload"]));
        let group = |finalizers: &str| json(&format!(r#"{{"metadata":{{"name":"g"{finalizers}}}}}"#));
        let own = r#","finalizers":["scheduling.k8s.io/podgroup-protection"]"#;
        let create = Scenario::create("scheduling.k8s.io", "podgroups");
        create.check_mutate(&plugin, group(""), Ok(&group(own)));
        create.check_mutate(&plugin, group(own), Ok(&group(own)));
        create.check_mutate(&PodGroupProtection::new(&Gates::default()), group(""), Ok(&group("")));
        let update = Scenario { old: Some(group("")), ..Scenario::update("scheduling.k8s.io", "podgroups") };
        update.check_mutate(&plugin, group(""), Ok(&group("")));
        let workload = Scenario::create("scheduling.k8s.io", "workloads");
        workload.check_mutate(&plugin, group(""), Ok(&group("")));
    }

    #[test]
    fn groups_of_pod_groups_have_their_own_finalizer() {
        let group = |finalizers: &str| json(&format!(r#"{{"metadata":{{"name":"g"{finalizers}}}}}"#));
        let create = Scenario::create(GROUP, COMPOSITES);
        let all = ["GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"];
        let own = r#","finalizers":["scheduling.k8s.io/compositepodgroup-protection"]"#;
        create.check_mutate(&PodGroupProtection::new(&gates_of(37, &all)), group(""), Ok(&group(own)));
        create.check_mutate(&PodGroupProtection::new(&gates_of(37, &all[..1])), group(""), Ok(&group("")));
    }
}
