//! Strategies of the group `coordination.k8s.io`.

mod lease;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "leases" => Some(Arc::new(lease::LeaseStrategy)),
        _ => None,
    }
}
