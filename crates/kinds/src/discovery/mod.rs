//! Strategies of the group `discovery.k8s.io`.

mod endpointslice;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "endpointslices" => Some(Arc::new(endpointslice::EndpointSliceStrategy)),
        _ => None,
    }
}
