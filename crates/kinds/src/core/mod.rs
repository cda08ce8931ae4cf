//! Strategies of the core group, a module for each resource.

mod configmap;
mod endpoints;
mod limitrange;
mod namespace;
pub(crate) mod node;
pub(crate) mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
pub(crate) mod pod;
mod podtemplate;
mod replicationcontroller;
mod resourcequota;
mod secret;
mod service;
mod serviceaccount;

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::Strategy;

pub use service::{DEFAULT_SERVICE_CIDR, NetworkError, ServiceNetwork, new_ip_address, service_strategy};

/// Returns the strategy of a resource of the core group.
pub(crate) fn strategy(plural: &str, gates: &Gates, network: &ServiceNetwork) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "configmaps" => Arc::new(configmap::ConfigMapStrategy),
        "endpoints" => Arc::new(endpoints::EndpointsStrategy),
        "events" => crate::events::core_strategy(),
        "limitranges" => Arc::new(limitrange::LimitRangeStrategy),
        "namespaces" => Arc::new(namespace::NamespaceStrategy),
        "nodes" => Arc::new(node::NodeStrategy),
        "persistentvolumeclaims" => Arc::new(persistentvolumeclaim::PersistentVolumeClaimStrategy),
        "persistentvolumes" => Arc::new(persistentvolume::PersistentVolumeStrategy),
        "pods" => Arc::new(pod::PodStrategy::new(gates)),
        "podtemplates" => Arc::new(podtemplate::PodTemplateStrategy),
        "replicationcontrollers" => Arc::new(replicationcontroller::ReplicationControllerStrategy),
        "resourcequotas" => Arc::new(resourcequota::ResourceQuotaStrategy),
        "secrets" => Arc::new(secret::SecretStrategy),
        "serviceaccounts" => Arc::new(serviceaccount::ServiceAccountStrategy),
        "services" => service_strategy(network.clone()),
        _ => return None,
    })
}
