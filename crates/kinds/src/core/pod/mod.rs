//! The strategy of Pod. The workload kinds of other groups use the exported
//! functions for pod templates.

pub(crate) mod annotations;
mod binding;
mod certificate;
pub(crate) mod containers;
pub(crate) mod defaults;
pub(crate) mod disabled;
pub(crate) mod env;
mod eviction;
pub(crate) mod file_paths;
#[cfg(test)]
mod full_pod_tests;
mod go_types;
pub(crate) mod image;
pub(crate) mod legacy_volumes;
pub(crate) mod mounts;
pub(crate) mod options;
mod overlapping_paths;
mod pod_defaults;
mod probes;
mod resize;
pub(crate) mod resources;
pub(crate) mod scheduling;
pub(crate) mod security;
pub(crate) mod spec;
mod status;
mod strategy;
mod trust_bundle;
mod update;
mod visitor;
pub(crate) mod volumes;
pub(crate) mod warnings;
pub(crate) mod windows;

use pintle_value::Value;

use crate::generic::keep_old;

pub use binding::{bind, check_binding};
pub(crate) use defaults::set_template_defaults;
pub(crate) use disabled::drop_disabled_template_fields;
pub(crate) use eviction::is_ready;
pub use eviction::{is_evicted_without_budget, mark_evicted, may_become_ready};
pub(crate) use options::PodOptions;
pub use resources::qos_class;
pub(crate) use resources::validate_container_resource_name;
pub use scheduling::validate_toleration_list;
pub(crate) use spec::validate_pod_template_spec;
pub(crate) use strategy::PodStrategy;
pub(crate) use warnings::warnings_for_pod_template;

/// Sets the generation of a new object to 1. An update increments it if the spec changed, and otherwise keeps it.
pub(super) fn set_generation(object: &mut Value, old: Option<&Value>) {
    if let Some(old) = old {
        keep_old(object, old, &["metadata", "generation"]);
    }
    crate::generic::set_generation(object, old, crate::generic::SPEC);
}

/// Restores the metadata that a subresource may not change (upstream: `ResetObjectMetaForStatus`).
fn restore_metadata(object: &mut Value, old: &Value) {
    for field in
        ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"]
    {
        keep_old(object, old, &["metadata", field]);
    }
}
