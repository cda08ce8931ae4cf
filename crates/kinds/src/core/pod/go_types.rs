//! How error messages print the structs of a pod: with the Go names of upstream's internal version, and all fields in
//! the order of `pkg/apis/core/types.go`.

use crate::go_json::GoType;

/// A container's security context.
pub(super) const SECURITY_CONTEXT: GoType = GoType::Of("core/v1.SecurityContext");

/// A seccomp profile or an AppArmor profile.
pub(super) const PROFILE: GoType = GoType::Of("core/v1.SeccompProfile");

/// The terms of a node selector.
pub(super) const NODE_SELECTOR_TERMS: GoType = GoType::List(&GoType::Of("core/v1.NodeSelectorTerm"));
/// One term of a node selector.
pub(super) const NODE_SELECTOR_TERM: GoType = GoType::Of("core/v1.NodeSelectorTerm");

/// The addresses of a pod or of its host.
pub(super) const ADDRESSES: GoType = GoType::List(&GoType::Of("core/v1.PodIP"));

/// The overhead of a resource claim with resources of the node.
pub(super) const OVERHEAD: GoType = GoType::Of("core/v1.NodeAllocatableOverheadResources");
