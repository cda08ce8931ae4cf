//! Strategies of the group `coordination.k8s.io`.

mod lease;
mod lease_candidate;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "leases" => Some(Arc::new(lease::LeaseStrategy)),
        "leasecandidates" => Some(Arc::new(lease_candidate::LeaseCandidateStrategy)),
        _ => None,
    }
}
