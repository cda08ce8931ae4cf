//! Strategies of the core group, a module for each resource.

pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod limitrange;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
pub(crate) mod pod;
pub(crate) mod podtemplate;
pub(crate) mod replicationcontroller;
pub(crate) mod resourcequota;
pub(crate) mod secret;
mod service;
pub(crate) mod serviceaccount;

pub use service::{DEFAULT_SERVICE_CIDR, NetworkError, ServiceNetwork, new_ip_address, service_strategy};
