//! The strategies and table convertors of the built-in kinds: everything beyond the facts of the catalog. There is a
//! directory per API group and a file per kind, or a directory for kinds with many rules. `tables` contains the columns
//! for `kubectl get`. This crate does not know HTTP or storage.
//!
//! ```
//! use pintle_registry::Registry;
//! use pintle_value::{object, time::Time};
//!
//! let registry = Registry::new(pintle_kinds::resources(pintle_catalog::shared()));
//! assert!(registry.resource("apps", "v1", "deployments").is_some());
//!
//! let mut service = object! { "spec": object! {} };
//! pintle_kinds::strategy("", "v1", "services").defaults(&mut service);
//! assert_eq!(service.str_at(&["spec", "sessionAffinity"]), "None");
//!
//! // The columns of `kubectl get configmaps`.
//! let table = pintle_kinds::table("", "configmaps");
//! let names: Vec<&str> = table.columns().iter().map(|column| &*column.name).collect();
//! assert_eq!(names, ["Name", "Data", "Age"]);
//! let map = object! { "metadata": object! { "name": "a" }, "data": object! { "k": "v" } };
//! assert_eq!(table.cells(&map, Time::from_seconds(0))[..2], ["a".into(), 1.into()]);
//! ```

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod autoscaling;
mod batch;
mod builtin;
mod certificates;
mod coordination;
mod core;
mod declarative;
mod discovery;
mod events;
mod flowcontrol;
mod gated;
mod generic;
mod go_diff;
mod go_json;
mod labels;
mod lifecycle;
mod networking;
mod node;
mod pem;
mod policy;
mod rbac;
mod resource;
mod runtime_config;
pub mod scale;
mod scheduling;
mod semantic_version;
mod storage;
mod storagemigration;
mod strategies;
mod tables;
#[cfg(test)]
mod testing;
mod validation;
mod webhook;

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::{Strategy, TableConvertor};
use pintle_versions::Minor;

pub use self::core::pod::options::is_sidecar;
pub use self::core::pod::resources::{
    ResourceList, aggregate_container_resources, aggregate_resources, is_extended, is_native, is_pod_level,
    max_resource_list, resource_list,
};
pub use self::core::pod::{
    bind, check_binding, is_evicted_without_budget, mark_evicted, may_become_ready, qos_class, validate_toleration_list,
};
pub use apiregistration::{
    ApiServiceAvailability, ApiServiceManagement, ApiServicePriorities, RemoteApiService, api_service_name,
    api_services_resource, built_in_api_services, custom_api_service, is_available_api_service, is_local_api_service,
    set_availability,
};
pub use apiserverinternal::{RecordedStorageVersion, recorded_storage_versions, storage_versions_resource};
pub use builtin::{all_resources, all_resources_with, resources, resources_in, storage_version_hash, unserved_hubs};
pub use certificates::{RequestedSubject, requested_subject, signer_permissions};
pub use discovery::{SERVICE_NAME_LABEL, is_ready_endpoint};
pub use flowcontrol::{
    FLOW_CONTROL_AUTO_UPDATE, FlowControlObject, flow_control_auto_update, flow_control_priority_levels,
    flow_control_priority_levels_resource, flow_control_schemas, flow_control_schemas_resource,
};
pub use gated::gates_of_fields;
pub use policy::{budget_not_observed, budget_spares, count_disruption, is_covered_by};
pub use runtime_config::{EmulationOptions, RuntimeConfig};
pub use scheduling::system_priority_classes;

pub use self::apiextensions::{
    ApiApproval, CLEANUP_FINALIZER, CompiledRule, PathSchema, ResolvedFieldPath, RuleCost, RuledNode, SchemaStep,
    SchemaValidator, api_approval, custom_resource_definition_strategy, has_unreadable_bundle, resolve_field_path,
};
pub use self::core::{DEFAULT_SERVICE_CIDR, NetworkError, ServiceNetwork, new_ip_address, service_strategy};

/// Returns the strategy of a built-in resource at one version, in a cluster with the default configuration.
#[must_use]
pub fn strategy(group: &str, version: &str, plural: &str) -> Arc<dyn Strategy> {
    strategies::strategy_in(group, version, plural, &Gates::default(), &ServiceNetwork::default())
}

/// Returns the table convertor of a built-in resource at its storage version, in the default version of Kubernetes.
#[must_use]
pub fn table(group: &str, plural: &str) -> Arc<dyn TableConvertor> {
    tables::table_in(group, plural, Minor::DEFAULT)
}
