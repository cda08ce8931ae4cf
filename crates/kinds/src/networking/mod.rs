//! Strategies of the group `networking.k8s.io`, and the validation of addresses that they share with services and
//! endpoints.

pub(crate) mod address;
mod ingress;
mod ingressclass;
mod ipaddress;
pub(crate) mod load_balancer;
#[cfg(test)]
pub(crate) mod malformed_objects;
mod networkpolicy;
mod servicecidr;
mod stored;

use std::sync::Arc;

use pintle_registry::Strategy;

use crate::declarative::Rules;

/// The rules of a reference to an object in the same namespace, or without one.
static REFERENCE: Rules = Rules::own("networking/v1", "TypedLocalObjectReference");

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "ingresses" => Arc::new(ingress::IngressStrategy),
        "ingressclasses" => Arc::new(ingressclass::IngressClassStrategy),
        "ipaddresses" => Arc::new(ipaddress::IpAddressStrategy),
        "networkpolicies" => Arc::new(networkpolicy::NetworkPolicyStrategy),
        "servicecidrs" => Arc::new(servicecidr::ServiceCidrStrategy),
        _ => return None,
    })
}
