//! Refuses writes of resources whose storage version the server has not recorded yet (upstream:
//! `WithStorageVersionPrecondition` in apiserver's `pkg/endpoints/filters`).

use pintle_kinds::storage_versions_resource;
use pintle_registry::{ApiError, GroupResource};

use crate::context::RequestContext;

/// The user and the group of a server itself.
const SERVER_USER: &str = "system:apiserver";
const SERVER_GROUP: &str = "system:masters";

/// Checks whether a write has to wait for the record of its resource's storage version.
///
/// # Errors
/// The storage version of the write's resource is not recorded.
pub(super) fn check_recorded(request: &RequestContext) -> Result<(), ApiError> {
    let pending = request.cluster.lifecycle.storage_versions.as_ref().filter(|manager| !manager.is_completed());
    let Some(manager) = pending.filter(|_| has_to_wait(request)) else { return Ok(()) };
    let resource = GroupResource::new(request.info.group.as_str(), request.info.resource.as_str());
    manager.check_recorded(&resource).map_err(ApiError::Unavailable)
}

/// False for reads, and for the writes with which servers record storage versions.
fn has_to_wait(request: &RequestContext) -> bool {
    let info = &request.info;
    let is_resource = |group: &str, plural: &str| info.group == group && info.resource == plural;
    let recording = storage_versions_resource();
    let is_recording = is_resource(&recording.group, &recording.resource);
    let is_lease = is_resource("coordination.k8s.io", "leases") && info.namespace == "kube-system";
    let is_server = request.user.name == SERVER_USER && request.user.groups.iter().any(|group| group == SERVER_GROUP);
    let is_own_namespace = is_server && info.verb == "create" && is_resource("", "namespaces");
    !matches!(info.verb.as_str(), "get" | "list" | "watch") && !is_recording && !is_lease && !is_own_namespace
}
