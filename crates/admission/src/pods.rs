//! Functions for plugins that read pods: the lists of containers, and the node of a pod that is updated.

use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;
use pintle_value::field::quote;

use crate::AdmissionAttributes;

/// The lists of the containers that a pod is created with.
pub(crate) const LISTS: [&str; 2] = ["containers", "initContainers"];

/// All lists, in the order in which upstream visits them.
pub(crate) const ALL_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The containers of a pod's spec in some lists.
pub(crate) fn containers<'s>(spec: &'s Value, lists: &'static [&'static str]) -> impl Iterator<Item = &'s Value> {
    lists.iter().flat_map(|list| spec.items_at(&[list]))
}

/// True if an update changes the spec of a pod that has a node. The generation grows with each change of the spec.
pub(crate) fn is_spec_update(attributes: &AdmissionAttributes<'_>, pod: &Value) -> bool {
    let generation = |pod: &Value| pod.int_at(&["metadata", "generation"]);
    let is_bound = !pod.str_at(&["spec", "nodeName"]).is_empty();
    is_bound && attributes.old.is_some_and(|old| generation(old) != generation(pod))
}

/// The node of a pod.
pub(crate) fn node_of(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<Value, ApiError> {
    let name = pod.str_at(&["spec", "nodeName"]);
    let node = attributes.client.get(&GroupResource::new("", "nodes"), "", name);
    let node =
        node.map_err(|error| attributes.forbidden(pod, format!("failed to get node {}: {error}", quote(name))))?;
    node.ok_or_else(|| attributes.forbidden(pod, format!("node {} not found", quote(name))))
}
