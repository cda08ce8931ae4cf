//! The plugin `NodeDeclaredFeatureValidator` (KEP-5328; upstream: `plugin/pkg/admission/nodedeclaredfeatures`): refuses an
//! update of a pod that needs a feature which its node does not declare.

use pintle_gates::{Feature, Gates};
use pintle_kinds::is_sidecar;
use pintle_registry::ApiError;
use pintle_value::Value;
use pintle_value::field::quote;

use crate::pods::{is_spec_update, node_of};
use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// Whether an update from one spec of a pod to another needs a feature.
type IsNeeded = fn(&Value, &Value) -> bool;

/// The features that updates can need, sorted (upstream: `component-helpers/nodedeclaredfeatures/features`).
const FEATURES: [(&str, IsNeeded); 3] = [
    ("InPlacePodLevelResourcesVerticalScaling", |old, new| old.get("resources") != new.get("resources")),
    ("InPlacePodVerticalScalingInitContainers", |old, new| {
        let containers = old.items_at(&["initContainers"]).iter().zip(new.items_at(&["initContainers"]));
        containers.filter(|(old, _)| !is_sidecar(old)).any(|(old, new)| old.get("resources") != new.get("resources"))
    }),
    ("InPlacePodVerticalScalingMemoryBackedVolumes", resizes_volume_in_memory),
];

/// True if an update changes the size of a volume in memory. Validation refuses all other changes of volumes.
fn resizes_volume_in_memory(old: &Value, new: &Value) -> bool {
    let (old, new) = (old.items_at(&["volumes"]), new.items_at(&["volumes"]));
    let size = |volume: &Value| volume.at(&["emptyDir", "sizeLimit"]).cloned();
    old.len() == new.len()
        && old.iter().zip(new).any(|(old, new)| {
            old.str_at(&["name"]) == new.str_at(&["name"])
                && new.str_at(&["emptyDir", "medium"]) == "Memory"
                && size(old).zip(size(new)).is_some_and(|(old, new)| old != new)
        })
}

/// The admission plugin `NodeDeclaredFeatureValidator`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeDeclaredFeatureValidator {
    enabled: bool,
}

impl NodeDeclaredFeatureValidator {
    /// The plugin. It does nothing if nodes do not declare features.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { enabled: gates.is_enabled(Feature::NODE_DECLARED_FEATURES) }
    }
}

impl SyncPlugin for NodeDeclaredFeatureValidator {
    const NAME: &'static str = "NodeDeclaredFeatureValidator";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled
            && attributes.operation == AdmissionOperation::Update
            && attributes.resource.is("", "pods")
            && matches!(attributes.subresource, "" | "resize")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        let Some(old) = attributes.old.filter(|_| is_spec_update(attributes, pod)) else { return Ok(()) };
        let needed = FEATURES.iter().filter(|(_, is_needed)| is_needed(&old["spec"], &pod["spec"]));
        let mut needed: Vec<&str> = needed.map(|(feature, _)| *feature).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let node = node_of(attributes, pod)?;
        let declared = node.items_at(&["status", "declaredFeatures"]);
        needed.retain(|feature| !declared.iter().any(|declared| declared.as_str() == Some(feature)));
        if needed.is_empty() {
            return Ok(());
        }
        let (features, name) = (needed.join(", "), quote(node.name()));
        let why = format!("pod update requires features {features} which are not available on node {name}");
        Err(attributes.forbidden(pod, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    const CPU: &str = r#""resources":{"requests":{"cpu":"1"}}"#;

    /// Checks an update of a pod's spec on a node with this list of features.
    fn check(enabled: bool, subresource: &'static str, declared: &str, old: &str, new: &str, expect: Result<(), &str>) {
        let plugin = NodeDeclaredFeatureValidator { enabled };
        let node = json(&format!(
            r#"{{"kind":"Node","metadata":{{"name":"node"}},"status":{{"declaredFeatures":[{declared}]}}}}"#
        ));
        let pod = |generation: u8, spec: &str| {
            json(&format!(
                r#"{{"metadata":{{"name":"p","generation":{generation}}},"spec":{{"nodeName":"node",{spec}}}}}"#
            ))
        };
        let scenario =
            Scenario { subresource, stored: vec![node], old: Some(pod(1, old)), ..Scenario::update("", "pods") };
        scenario.check_validate(&plugin, &pod(2, new), expect);
    }

    #[test]
    fn the_node_must_declare_what_an_update_needs() {
        let whole = format!(r#"{CPU},"initContainers":[{{"name":"i",{CPU}}}]"#);
        let bare = r#""initContainers":[{"name":"i"}]"#;
        let refused = |features: &str| {
            format!(
                "pods \"p\" is forbidden: pod update requires features {features} which are not available on node \
                 \"node\""
            )
        };
        let (pods, containers) = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers");
        let declared = |name: &str| format!("\"{name}\"");
        for subresource in ["", "resize"] {
            check(true, subresource, "", bare, &whole, Err(&refused(&format!("{pods}, {containers}"))));
            check(true, subresource, &declared(pods), bare, &whole, Err(&refused(containers)));
            check(true, subresource, &declared(containers), bare, &whole, Err(&refused(pods)));
            let both = [declared(pods), declared(containers)].join(",");
            check(true, subresource, &both, bare, &whole, Ok(()));
        }
        check(false, "", "", bare, &whole, Ok(()));
        check(true, "status", "", bare, &whole, Ok(()));
        check(true, "", "", &whole, &whole, Ok(()));
        // Sidecars could be resized before.
        let sidecar = |fields: &str| format!(r#""initContainers":[{{"name":"i","restartPolicy":"Always"{fields}}}]"#);
        check(true, "", "", &sidecar(""), &sidecar(&format!(",{CPU}")), Ok(()));
    }

    #[test]
    fn the_node_must_resize_volumes_in_memory() {
        let volume = |medium: &str, size: &str| {
            format!(r#""volumes":[{{"name":"v","emptyDir":{{"medium":"{medium}","sizeLimit":"{size}"}}}}]"#)
        };
        let feature = "InPlacePodVerticalScalingMemoryBackedVolumes";
        let refused = format!(
            "pods \"p\" is forbidden: pod update requires features {feature} which are not available on node \"node\""
        );
        let (old, new) = (volume("Memory", "1Mi"), volume("Memory", "2Mi"));
        check(true, "resize", "", &old, &new, Err(&refused));
        check(true, "resize", &format!("\"{feature}\""), &old, &new, Ok(()));
        check(true, "resize", "", &old, &old, Ok(()));
        check(true, "resize", "", &volume("", "1Mi"), &volume("", "2Mi"), Ok(()));
    }
}
