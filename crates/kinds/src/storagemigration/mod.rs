//! Strategies of the group `storagemigration.k8s.io`.

pub(crate) mod migration;
