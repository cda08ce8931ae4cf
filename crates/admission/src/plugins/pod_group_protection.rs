//! The plugin `PodGroupProtection` (upstream: `plugin/pkg/admission/scheduling/podgroupprotection`): gives new pod groups a
//! finalizer. A controller removes it when no pod belongs to the group any more.

use pintle_gates::{Feature, Gates};
use pintle_registry::ApiError;
use pintle_value::Value;
use pintle_value::metadata::POD_GROUP_PROTECTION;

use crate::finalizers::add_finalizer;
use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The admission plugin `PodGroupProtection`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodGroupProtection {
    enabled: bool,
}

impl PodGroupProtection {
    /// The plugin, which does nothing without the feature `GenericWorkload`.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { enabled: gates.is_enabled(Feature::GENERIC_WORKLOAD) }
    }
}

impl SyncPlugin for PodGroupProtection {
    const NAME: &'static str = "PodGroupProtection";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled && attributes.creates("scheduling.k8s.io", "podgroups")
    }

    fn mutate(&self, _: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        add_finalizer(object, POD_GROUP_PROTECTION);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, gates, json};

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
}
