//! Strategies of the group `discovery.k8s.io`.

pub(crate) mod endpointslice;

pub use self::endpointslice::{SERVICE_NAME_LABEL, is_ready_endpoint};
