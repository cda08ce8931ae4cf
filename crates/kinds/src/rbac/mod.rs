//! The kinds of the group `rbac.authorization.k8s.io`. Whether a user may give away what a role grants is decided by the
//! authorizer's escalation check, not here.

mod binding;
mod role;

use std::sync::Arc;

use pintle_registry::Strategy;

/// The group's name, which references to roles and to users carry.
const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "roles" => Arc::new(role::ROLE),
        "clusterroles" => Arc::new(role::CLUSTER_ROLE),
        "rolebindings" => Arc::new(binding::ROLE_BINDING),
        "clusterrolebindings" => Arc::new(binding::CLUSTER_ROLE_BINDING),
        _ => return None,
    })
}
