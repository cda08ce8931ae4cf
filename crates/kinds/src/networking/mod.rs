//! Strategies of the group `networking.k8s.io`, and the validation of addresses that they share with services and
//! endpoints.

pub(crate) mod address;
#[cfg(test)]
pub(crate) mod any_tree;
pub(crate) mod balancer;
mod ingress;
mod ingressclass;
mod ipaddress;
mod networkpolicy;
mod servicecidr;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "ingresses" => Arc::new(ingress::Ingress),
        "ingressclasses" => Arc::new(ingressclass::IngressClass),
        "ipaddresses" => Arc::new(ipaddress::IpAddress),
        "networkpolicies" => Arc::new(networkpolicy::NetworkPolicy),
        "servicecidrs" => Arc::new(servicecidr::ServiceCidr),
        _ => return None,
    })
}
