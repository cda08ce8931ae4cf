//! Strategies of the group `rbac.authorization.k8s.io`. They name the check of whether a user may grant the permissions
//! of a role; the server makes it.

pub(crate) mod binding;
pub(crate) mod role;

/// The name of the group, the default of role and subject references.
const GROUP: &str = "rbac.authorization.k8s.io";
