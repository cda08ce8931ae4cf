//! Strategies of the group `resource.k8s.io` (dynamic resource allocation).

mod access;
mod capacity;
mod claim;
mod claim_spec;
mod claim_status;
mod collections;
mod device_class;
mod go_types;
mod identifiers;
mod selectors;
mod slice;
mod slice_validation;
mod stored;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "deviceclasses" => Arc::new(device_class::DeviceClassStrategy),
        "resourceclaims" => Arc::new(claim::ResourceClaimStrategy),
        "resourceclaimtemplates" => Arc::new(claim::ResourceClaimTemplateStrategy),
        "resourceslices" => Arc::new(slice::ResourceSliceStrategy),
        _ => return None,
    })
}
