//! Strategies of the group `resource.k8s.io` (dynamic resource allocation).

mod access;
mod capacity;
pub(crate) mod claim;
mod claim_spec;
mod claim_status;
mod collections;
mod derived_attributes;
pub(crate) mod device_class;
pub(crate) mod device_taint_rule;
mod go_types;
mod identifiers;
mod node_operations;
mod node_resources;
mod partition_type;
pub(crate) mod pool_status_request;
mod selectors;
pub(crate) mod slice;
mod slice_validation;
pub(crate) mod v1beta1;

pub(crate) use self::identifiers::validate_pool_name;
