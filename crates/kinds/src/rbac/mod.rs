//! Strategies of the group `rbac.authorization.k8s.io`. They name the check of whether a user may grant the permissions
//! of a role; the server makes it.

mod binding;
mod role;

use std::sync::Arc;

use pintle_registry::Strategy;

/// The name of the group, the default of role and subject references.
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
