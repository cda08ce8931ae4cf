//! Strategies of the group `coordination.k8s.io`.

pub(crate) mod lease;
pub(crate) mod lease_candidate;
