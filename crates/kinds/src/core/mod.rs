//! The kinds of the core group.

use std::sync::Arc;

use pintle_registry::Behaviour;

/// Configuration and cluster objects: config maps, secrets, namespaces, nodes, service accounts, volumes, quotas, ….
pub(crate) mod cluster;
/// Pods and what holds a pod template: `pods`, `podtemplates`, `replicationcontrollers`.
pub(crate) mod pod;
/// Services and endpoints.
mod service;

pub use service::{NetworkError, ServiceNetwork, bootstrap_objects, services};

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    pod::behaviour(plural)
        .or_else(|| service::behaviour(plural))
        .or_else(|| cluster::behaviour(plural))
        .or_else(|| crate::events::core_behaviour(plural))
}
