//! The plugin `PodTopologyLabels` (upstream: `plugin/pkg/admission/podtopologylabels`): pods get the topology labels of
//! their node. A binding gets the labels first; the pod takes them from the binding.

use pintle_gates::{Feature, Gates};
use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The labels that are copied.
const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The admission plugin `PodTopologyLabels`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodTopologyLabels {
    enabled: bool,
}

impl PodTopologyLabels {
    /// The plugin. It does nothing if its feature is disabled.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { enabled: gates.is_enabled(Feature::POD_TOPOLOGY_LABELS_ADMISSION) }
    }

    /// The node to which a pod or a binding assigns a pod; empty if there is none.
    fn node_name<'o>(attributes: &AdmissionAttributes<'_>, object: &'o Value) -> &'o str {
        match attributes.subresource {
            "" => object.str_at(&["spec", "nodeName"]),
            // Only the kind of the target is compared, because the scheduler sets no other field.
            "binding" if object.str_at(&["target", "kind"]) == "Node" => object.str_at(&["target", "name"]),
            _ => "",
        }
    }
}

impl SyncPlugin for PodTopologyLabels {
    const NAME: &'static str = "PodTopologyLabels";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled && attributes.operation == AdmissionOperation::Create && attributes.resource.is("", "pods")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        let node = Self::node_name(attributes, object);
        if node.is_empty() {
            return Ok(());
        }
        // A node that does not exist has no labels.
        let Some(node) = attributes.client.read(&GroupResource::new("", "nodes"), "", node)? else { return Ok(()) };
        for (key, value) in node.labels().filter(|(key, _)| LABELS.contains(key)) {
            object.set_at(&["metadata", "labels", key], value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{Scenario, json};

    fn check(enabled: bool, subresource: &'static str, object: &str, expect: &str) {
        let node = json(
            r#"{"kind":"Node","metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","other":"o",
                "topology.kubernetes.io/region":"r","topology.kubernetes.io/rack":"k"}}}"#,
        );
        let bare = json(r#"{"kind":"Node","metadata":{"name":"bare","labels":{"other":"o"}}}"#);
        let scenario = Scenario { stored: vec![node, bare], subresource, ..Scenario::create("", "pods") };
        let overrides = BTreeMap::from([(Feature::POD_TOPOLOGY_LABELS_ADMISSION.name().to_owned(), enabled)]);
        let plugin = PodTopologyLabels::new(&Gates::with_overrides(&overrides).expect("gates").0);
        scenario.check_mutate(&plugin, json(object), Ok(&json(expect)));
    }

    #[test]
    fn a_binding_gets_the_labels_of_its_node() {
        let binding = r#"{"metadata":{"name":"p","labels":{"topology.kubernetes.io/zone":"mine"}},
            "target":{"kind":"Node","name":"n"}}"#;
        check(
            true,
            "binding",
            binding,
            r#"{"metadata":{"name":"p","labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r"}},
                "target":{"kind":"Node","name":"n"}}"#,
        );
        check(false, "binding", binding, binding);
        for target in [r#""name":"n""#, r#""kind":"Node","name":"gone""#, r#""kind":"Node","name":"bare""#] {
            let binding = format!(r#"{{"metadata":{{"name":"p"}},"target":{{{target}}}}}"#);
            check(true, "binding", &binding, &binding);
        }
    }

    #[test]
    fn a_new_pod_with_a_node_gets_its_labels() {
        check(
            true,
            "",
            r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n"}}"#,
            r#"{"metadata":{"name":"p","labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r"}},
                "spec":{"nodeName":"n"}}"#,
        );
        let unassigned = r#"{"metadata":{"name":"p"},"spec":{}}"#;
        check(true, "", unassigned, unassigned);
        let eviction = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;
        check(true, "eviction", eviction, eviction);
    }
}
