//! The lists of containers that a pod has.

use pintle_value::Value;

/// The lists of the containers that a pod is created with.
pub(crate) const LISTS: [&str; 2] = ["containers", "initContainers"];

/// All lists, in the order in which upstream visits them.
pub(crate) const ALL_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The containers of a pod's spec in some lists.
pub(crate) fn containers<'s>(spec: &'s Value, lists: &'static [&'static str]) -> impl Iterator<Item = &'s Value> {
    lists.iter().flat_map(|list| spec.items_at(&[list]))
}
