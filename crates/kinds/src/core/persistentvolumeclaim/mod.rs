//! The strategy of PersistentVolumeClaim. `spec` validates the spec, which the templates in pods and StatefulSets contain,
//! too.

pub(crate) mod spec;
mod strategy;

pub(crate) use strategy::PersistentVolumeClaimStrategy;
