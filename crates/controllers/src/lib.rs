//! The controllers that run inside the API server. They read the watch caches and write as the server; they know
//! neither HTTP nor the store. Of the servers that share a store, one runs the controllers. Controllers that
//! kube-controller-manager has, too, stand by while one is active.
//!
//! - the CRD controller
//! - the namespace controller and the garbage collector
//! - the controller of token secrets
//! - the aggregation of cluster roles
//! - the protection of storage objects in use
//! - the status of resource quotas
//! - type checks of admission policies
//! - the configuration of flow control
//! - the local APIServices, and the conditions of all APIServices
//! - the repair of the allocations of services
//! - the records of storage versions
//! - the reconciler of the objects that every cluster and every namespace has
//!
//! ```
//! // A server is known to the others by its lease, whose name derives from the host's name.
//! let name = pintle_controllers::server_name("host-1");
//! assert!(name.starts_with("apiserver-"));
//! assert_ne!(name, pintle_controllers::server_name("host-2"));
//!
//! // The service account `default` and the ConfigMap `kube-root-ca.crt`, which the reconciler keeps in every namespace.
//! assert_eq!(pintle_controllers::every_namespace_objects("-----BEGIN CERTIFICATE-----").len(), 2);
//! ```

mod allocation_repair;
mod api_services;
mod authentication_trust;
mod client;
mod cluster_role_aggregation;
mod controller_manager;
mod crds;
mod event_recorder;
mod every_namespace;
#[cfg(test)]
mod fake_cluster;
mod flow_control;
mod garbage_collector;
mod informer;
mod leader_election;
mod legacy_token_cleaner;
mod legacy_token_tracking;
mod namespaces;
mod object_reconciler;
mod objects;
mod policy_status;
mod remote;
mod resource_quota;
mod server_registration;
mod service_cidrs;
mod storage_protection;
mod storage_versions;
mod supervisor;
mod token_secrets;
mod work_queue;
mod work_queue_metrics;

use std::sync::Arc;

pub use api_services::{
    API_SERVICE_REGISTRATION_TASK, ApiServiceOutages, LOCAL_API_SERVICES_TASK, REMOTE_API_SERVICES_TASK,
    create_missing_api_services, run_api_services,
};
pub use authentication_trust::authentication_config_map;
pub use client::{CaughtUp, ClusterClient, DeleteRequest, ObjectRef, SERVER_MANAGER, UpdateFn};
pub use controller_manager::is_active as is_controller_manager_active;
pub use crds::{CRDS_PREFIX, CRDS_TASK, CrdController, CrdHost};
pub use every_namespace::every_namespace_objects;
pub use flow_control::{FLOW_CONTROL_OBJECTS_TASK, FLOW_CONTROL_STATUS_TASK};
pub use leader_election::{ELECTION_LEASE, ELECTION_TASK, LeaderElection, run_while_leading};
pub use legacy_token_tracking::legacy_token_tracking;
pub use object_reconciler::{DesiredObject, OBJECT_RECONCILER_TASK, ObjectReconciler};
pub use remote::{RemoteEvent, RemoteOperation, RemoteResource, RemoteResources};
pub use server_registration::{
    ENDPOINTS_TASK, LEASE_COLLECTOR_TASK, LEASE_TASK, SYSTEM_NAMESPACES, ServerIdentity, ServerRegistration,
    server_name,
};
pub use service_cidrs::DEFAULT_SERVICE_CIDR_TASK;
pub use storage_versions::{
    STORAGE_VERSION_UPDATER_TASK, StorageVersionManager, run_storage_version_collector, run_storage_version_updater,
};
pub use token_secrets::{IssueToken, TokenSecretContents};
pub use work_queue_metrics::WorkQueues;

use self::storage_protection::Protection;
use self::supervisor::supervise;

/// The name of the background task that repairs the addresses and node ports of services.
pub const ALLOCATION_REPAIR_TASK: &str = "service-allocation-repair";

/// Runs the controller that repairs the addresses and node ports of services until the cluster is gone.
pub fn run_allocation_repair(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    supervise(client, ALLOCATION_REPAIR_TASK, || false, allocation_repair::run)
}

/// Sets the condition of the ServiceCIDR of the server's ranges if it has none.
pub async fn prepare_default_service_cidr(client: &Arc<dyn ClusterClient>, ranges: &[String]) {
    service_cidrs::prepare_default(client, ranges).await;
}

/// Keeps the ServiceCIDR of the server's ranges until the cluster is gone.
pub fn run_default_service_cidr(
    client: &Arc<dyn ClusterClient>,
    ranges: Arc<[String]>,
) -> impl Future<Output = ()> + Send + use<> {
    let run = move |client| service_cidrs::run_default(client, ranges.clone());
    supervise(client, DEFAULT_SERVICE_CIDR_TASK, || false, run)
}

/// Runs the controller of the finalizer and the condition of ServiceCIDRs until the cluster is gone.
pub fn run_service_cidr_protection(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    supervise(client, service_cidrs::SERVICE_CIDR_CONTROLLER, || false, service_cidrs::run_protection)
}

/// Runs the controller that counts the usage of resource quotas until the cluster is gone.
pub fn run_resource_quotas(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    supervise(client, resource_quota::RESOURCE_QUOTA, || false, resource_quota::run)
}

/// Runs the controller that type checks validating admission policies until the cluster is gone.
pub fn run_policy_type_checks(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    supervise(client, policy_status::POLICY_STATUS_TASK, || false, policy_status::run)
}

/// Keeps the priority levels and flow schemas of the bootstrap configuration and the status of flow schemas until the
/// cluster is gone.
pub fn run_flow_control(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    let objects = flow_control::run_objects(client);
    let status = supervise(client, FLOW_CONTROL_STATUS_TASK, || false, flow_control::run_status);
    async move {
        tokio::join!(objects, status);
    }
}

/// Runs the following controllers until the cluster is gone, under the names of kube-controller-manager's health
/// checks:
///
/// - the namespace controller and the garbage collector
/// - the controllers of token secrets
/// - the aggregation of cluster roles
/// - the protection of storage objects and pod groups in use
pub fn run_controllers(
    client: &Arc<dyn ClusterClient>,
    token_secrets: TokenSecretContents,
) -> impl Future<Output = ()> + Send + use<> {
    let namespaces = supervise(client, "namespace-controller", || false, namespaces::run);
    let garbage_collector = supervise(client, "garbage-collector-controller", || false, garbage_collector::run);
    let run_tokens = move |client| token_secrets::run(client, token_secrets.clone());
    let tokens = supervise(client, "serviceaccount-token-controller", || false, run_tokens);
    let token_cleaner =
        supervise(client, legacy_token_cleaner::LEGACY_TOKEN_CLEANER, || false, legacy_token_cleaner::run);
    let aggregation =
        supervise(client, cluster_role_aggregation::CLUSTER_ROLE_AGGREGATION, || false, cluster_role_aggregation::run);
    let protect = |protection: &'static Protection| {
        supervise(client, protection.controller, || false, move |client| protection.run(client))
    };
    let claims = protect(&storage_protection::CLAIMS);
    let volumes = protect(&storage_protection::VOLUMES);
    let classes = protect(&storage_protection::VOLUME_ATTRIBUTES_CLASSES);
    let groups = &storage_protection::POD_GROUPS;
    let groups = groups.is_served(client).then(|| protect(groups));
    let groups = async { futures_util::future::OptionFuture::from(groups).await };
    let composites = &storage_protection::COMPOSITE_POD_GROUPS;
    let composites = composites.is_served(client).then(|| protect(composites));
    let composites = async { futures_util::future::OptionFuture::from(composites).await };
    async move {
        tokio::join!(
            namespaces,
            garbage_collector,
            tokens,
            token_cleaner,
            aggregation,
            claims,
            volumes,
            classes,
            groups,
            composites
        );
    }
}
