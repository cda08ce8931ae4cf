//! The kinds of the group `discovery.k8s.io`.

mod endpointslice;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "endpointslices" => Some(Arc::new(endpointslice::EndpointSlice)),
        _ => None,
    }
}
