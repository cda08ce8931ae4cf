//! The strategy of Service. `validation` and `cluster_ips` validate a service, `dependent_fields` and
//! `families` set dependent fields, and `allocation` allocates addresses and node ports.

mod accessors;
mod addresses;
mod allocation;
mod bootstrap;
mod cluster_ips;
mod dependent_fields;
mod families;
#[cfg(test)]
mod lifecycle_tests;
mod network;
mod node_port_repair;
mod node_ports;
mod port_record;
mod strategy;
mod validation;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use addresses::new_ip_address;
pub use bootstrap::DEFAULT_SERVICE_CIDR;
pub use network::{NetworkError, ServiceNetwork};

/// Returns the strategy for services of a cluster with this network. It contains the allocator, so each cluster needs
/// its own.
#[must_use]
pub fn service_strategy(network: ServiceNetwork) -> Arc<dyn Strategy> {
    Arc::new(strategy::ServiceStrategy::new(network))
}
