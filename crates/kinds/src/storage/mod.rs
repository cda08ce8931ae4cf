//! Strategies of the group `storage.k8s.io`.

pub(crate) mod attachment;
pub(crate) mod class;
pub(crate) mod csi;
pub(crate) mod csi_node;
