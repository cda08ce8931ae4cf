//! Strategies of the group `networking.k8s.io`, and the validation of addresses that they share with services and
//! endpoints.

pub(crate) mod address;
pub(crate) mod ingress;
pub(crate) mod ingressclass;
pub(crate) mod ipaddress;
pub(crate) mod load_balancer;
#[cfg(test)]
pub(crate) mod malformed_objects_tests;
pub(crate) mod networkpolicy;
pub(crate) mod servicecidr;
mod stored;

use crate::declarative::Rules;

/// The rules of a reference to an object in the same namespace, or without one.
static REFERENCE: Rules = Rules::own("networking/v1", "TypedLocalObjectReference");
