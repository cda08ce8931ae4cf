//! The kinds of the group `coordination.k8s.io`.

mod lease;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "leases" => Some(Arc::new(lease::Lease)),
        _ => None,
    }
}
