//! Iterates over the containers of a pod spec (upstream: `ContainerVisitor` of `pkg/api/pod/util.go`).

use pintle_value::{FieldPath, Value};

/// The lists of containers, in the order in which upstream visits them.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Calls `visit` for each container of a pod spec: init containers, containers, ephemeral containers.
pub(crate) fn visit_containers<'v>(
    spec: &'v Value,
    path: &FieldPath<'_>,
    mut visit: impl FnMut(&'v Value, &FieldPath<'_>),
) {
    for list in CONTAINER_LISTS {
        let list_path = path.child(list);
        for (i, container) in spec.items_at(&[list]).iter().enumerate() {
            visit(container, &list_path.index(i));
        }
    }
}

/// Iterates over all containers of a pod spec, in the order of [`visit_containers`].
pub(crate) fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|list| spec.items_at(&[list]))
}
