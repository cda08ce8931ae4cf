//! The plugin `LimitPodHardAntiAffinityTopology` (upstream: `plugin/pkg/admission/antiaffinity`): a pod may keep other
//! pods away from its node, but not from a whole zone.

use pintle_registry::ApiError;
use pintle_value::Value;

use crate::{AdmissionAttributes, Phase, SyncPlugin};

const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: [&str; 4] = ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

/// The admission plugin `LimitPodHardAntiAffinityTopology`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitPodHardAntiAffinityTopology;

impl SyncPlugin for LimitPodHardAntiAffinityTopology {
    const NAME: &'static str = "LimitPodHardAntiAffinityTopology";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "pods")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        let mut keys = pod.items_at(&REQUIRED).iter().map(|term| term.str_at(&["topologyKey"]));
        let Some(key) = keys.find(|key| *key != HOSTNAME) else { return Ok(()) };
        let why = format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
        );
        Err(attributes.forbidden(pod, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn required_terms_are_about_nodes() {
        let check = |anti_affinity: &str, expect: Result<(), &str>| {
            let pod = json(&format!(
                r#"{{"metadata":{{"name":"p"}},"spec":{{"affinity":{{"podAntiAffinity":{{{anti_affinity}}}}}}}}}"#
            ));
            Scenario::create("", "pods").check_validate(&LimitPodHardAntiAffinityTopology, &pod, expect);
        };
        check("", Ok(()));
        let required =
            |key: &str| format!(r#""requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"{key}"}}]"#);
        check(&required(HOSTNAME), Ok(()));
        check(
            &required("zone"),
            Err(
                "pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only \
                 key kubernetes.io/hostname is allowed",
            ),
        );
        let term = r#"[{"weight":1,"podAffinityTerm":{"topologyKey":"zone"}}]"#;
        check(&format!(r#""preferredDuringSchedulingIgnoredDuringExecution":{term}"#), Ok(()));
    }
}
