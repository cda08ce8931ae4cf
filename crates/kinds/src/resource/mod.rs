//! Strategies of the group `resource.k8s.io` (dynamic resource allocation).

mod access;
mod capacity;
mod claim;
mod claim_spec;
mod claim_status;
mod collections;
mod device_class;
mod device_taint_rule;
mod go_types;
mod identifiers;
mod pool_status_request;
mod selectors;
mod slice;
mod slice_validation;
mod v1beta1;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) use self::identifiers::validate_pool_name;
use self::v1beta1::ApiVersion;

pub(crate) fn strategy(version: &str, plural: &str) -> Option<Arc<dyn Strategy>> {
    let version = ApiVersion::named(version);
    Some(match plural {
        "deviceclasses" => Arc::new(device_class::DeviceClassStrategy),
        "devicetaintrules" => Arc::new(device_taint_rule::DeviceTaintRuleStrategy),
        "resourcepoolstatusrequests" => Arc::new(pool_status_request::ResourcePoolStatusRequestStrategy),
        "resourceclaims" => Arc::new(claim::ResourceClaimStrategy { version }),
        "resourceclaimtemplates" => Arc::new(claim::ResourceClaimTemplateStrategy { version }),
        "resourceslices" => Arc::new(slice::ResourceSliceStrategy { version }),
        _ => return None,
    })
}
