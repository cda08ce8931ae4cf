//! Strategies of the core group.

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::Strategy;

/// Cluster resources and configuration: config maps, secrets, namespaces, nodes, service accounts, volumes, quotas.
pub(crate) mod cluster;
/// `pods`, `podtemplates` and `replicationcontrollers`.
pub(crate) mod pod;
/// `service_strategy` and `endpoints`.
mod service;

pub use service::{DEFAULT_SERVICE_CIDR, NetworkError, ServiceNetwork, new_ip_address, service_strategy};

pub(crate) fn strategy(plural: &str, gates: &Gates, network: &ServiceNetwork) -> Option<Arc<dyn Strategy>> {
    pod::strategy(plural, gates)
        .or_else(|| service::strategy(plural, network))
        .or_else(|| cluster::strategy(plural))
        .or_else(|| crate::events::core_strategy(plural))
}
