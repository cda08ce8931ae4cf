//! Repairs the one-to-one relation between cluster IPs of services and IPAddress objects (upstream:
//! `pkg/registry/core/service/ipallocator/controller/repairip.go`). Each cluster IP has an IPAddress with its name, and
//! the IPAddress's parent is the service.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::Object;
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::ip::parse_sloppy;
use pintle_value::time::Duration as TimeDuration;
use pintle_value::{Str, Value};

use crate::event_recorder::{EventApi, EventRecorder, Warning};
use crate::objects::{versioned_tree, watch_cache_of};
use crate::service_cidrs::ranges::{all_service_cidrs, contains_address};
use crate::work_queue::ReconcileResult;
use crate::{ClusterClient, DeleteRequest, ObjectRef};

/// How long an IPAddress may exist before its service has the address: longer than any request takes.
const GRACE_PERIOD: i64 = 60;

const NETWORKING: &str = "networking.k8s.io";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const IP_FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
/// The value of the label `managed-by` of the addresses that the server allocates.
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// The actions in events.
const CLUSTER_IP_ALLOCATION: &str = "ClusterIPAllocation";
const ADDRESS_ALLOCATION: &str = "IPAddressAllocation";

pub(super) fn services() -> GroupResource {
    GroupResource::new("", "services")
}

pub(crate) fn ip_addresses() -> GroupResource {
    GroupResource::new(NETWORKING, "ipaddresses")
}

/// A stored object.
enum Lookup {
    Found(Value),
    Missing,
    /// The object cannot be read, so that nothing may be concluded from it.
    Unknown,
}

/// Looks an object up by its key.
fn look_up(client: &Arc<dyn ClusterClient>, resource: &GroupResource, key: &str) -> Lookup {
    let Some(watch_cache) = watch_cache_of(client, resource) else { return Lookup::Unknown };
    match watch_cache.read(key) {
        Ok(Some(object)) => versioned_tree(&object).map_or(Lookup::Unknown, Lookup::Found),
        Ok(None) => Lookup::Missing,
        Err(_) => Lookup::Unknown,
    }
}

/// The key of the service that an IPAddress belongs to, if it belongs to one.
pub(super) fn parent_key(address: &Value) -> Option<Str> {
    let parent = |field| address.str_at(&["spec", "parentRef", field]);
    let is_service = parent("group").is_empty() && parent("resource") == "services";
    is_service.then(|| service_key(parent("namespace"), parent("name")))
}

fn service_key(namespace: &str, name: &str) -> Str {
    format!("{namespace}/{name}").into()
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn cluster_ips(service: &Value) -> impl Iterator<Item = &str> {
    service.items_at(&["spec", "clusterIPs"]).iter().filter_map(Value::as_str)
}

/// True if the allocator has made an IPAddress.
fn is_managed(address: &Value) -> bool {
    address.label(MANAGED_BY) == Some(ALLOCATOR)
}

/// True if the allocator has made a stored IPAddress.
pub(crate) fn is_managed_address(address: &Object) -> bool {
    address.label(MANAGED_BY) == Some(ALLOCATOR)
}

/// True if an IPAddress has the labels that the allocator sets.
fn has_labels(address: &Value) -> bool {
    is_managed(address) && parse_sloppy(address.name()).map(family) == address.label(IP_FAMILY)
}

/// True if an address is in the range of a ServiceCIDR.
fn is_in_ranges(client: &Arc<dyn ClusterClient>, ip: IpAddr) -> bool {
    all_service_cidrs(client).iter().any(|service_cidr| contains_address(service_cidr, ip))
}

/// Repairs cluster IPs and IPAddress objects.
pub(super) struct AddressRepair {
    recorder: EventRecorder,
}

impl AddressRepair {
    pub(super) fn new() -> Self {
        Self { recorder: EventRecorder::new("ipallocator-repair-controller", EventApi::Events) }
    }

    async fn warn(
        &self,
        client: &Arc<dyn ClusterClient>,
        regarding: &Value,
        action: &'static str,
        reason: &'static str,
        message: String,
    ) {
        self.recorder.warn(client, regarding, Warning { reason: reason.into(), action, message }).await;
    }

    /// Checks that each cluster IP of a service has an IPAddress that belongs to the service.
    pub(super) async fn repair_service(
        &self,
        client: &Arc<dyn ClusterClient>,
        key: &str,
    ) -> Result<ReconcileResult, ApiError> {
        let Lookup::Found(service) = look_up(client, &services(), key) else { return Ok(ReconcileResult::Done) };
        if matches!(service.str_at(&["spec", "clusterIP"]), "" | "None") {
            return Ok(ReconcileResult::Done);
        }
        for text in cluster_ips(&service) {
            match parse_sloppy(text) {
                Some(ip) => self.repair_cluster_ip(client, &service, ip).await?,
                None => {
                    // As upstream, the message shows the result of parsing.
                    let message = "Cluster IP <nil> is not a valid IP; please recreate Service".to_owned();
                    self.warn(client, &service, "ClusterIPValidation", "ClusterIPNotValid", message).await;
                }
            }
        }
        Ok(ReconcileResult::Done)
    }

    async fn repair_cluster_ip(
        &self,
        client: &Arc<dyn ClusterClient>,
        service: &Value,
        ip: IpAddr,
    ) -> Result<(), ApiError> {
        let warn = |reason, message| self.warn(client, service, CLUSTER_IP_ALLOCATION, reason, message);
        let (family, namespace, name) = (family(ip), service.namespace(), service.name());
        if !is_in_ranges(client, ip) {
            let message = format!(
                "Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
            );
            warn("ClusterIPOutOfRange", message).await;
            return Ok(());
        }
        let address = match look_up(client, &ip_addresses(), &ip.to_string()) {
            Lookup::Found(address) => address,
            Lookup::Unknown => return Ok(()),
            Lookup::Missing => {
                if !has_lost_address(client, service, ip).await? {
                    return Ok(());
                }
                let message = format!("Cluster IP [{family}]: {ip} is not allocated; repairing");
                warn("ClusterIPNotAllocated", message).await;
                return create_address(client, service, ip).await;
            }
        };
        let wrong_reference = || {
            format!("the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing")
        };
        let Some(parent) = parent_key(&address) else {
            warn("ClusterIPNotAllocated", wrong_reference()).await;
            return recreate_address(client, service, ip, &address).await;
        };
        if parent != service_key(namespace, name) {
            match look_up(client, &services(), &parent) {
                Lookup::Missing => {
                    warn("ClusterIPNotAllocated", wrong_reference()).await;
                    return recreate_address(client, service, ip, &address).await;
                }
                Lookup::Found(other) if has_cluster_ip(&other, address.name()) => {
                    let message = format!(
                        "Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service"
                    );
                    warn("ClusterIPAlreadyAllocated", message).await;
                }
                Lookup::Found(_) | Lookup::Unknown => {}
            }
        }
        if has_labels(&address) { Ok(()) } else { recreate_address(client, service, ip, &address).await }
    }

    /// Checks that an IPAddress of the allocator belongs to a service that has the address.
    pub(super) async fn repair_address(
        &self,
        client: &Arc<dyn ClusterClient>,
        name: &str,
    ) -> Result<ReconcileResult, ApiError> {
        let Lookup::Found(address) = look_up(client, &ip_addresses(), name) else { return Ok(ReconcileResult::Done) };
        if !is_managed(&address) {
            return Ok(ReconcileResult::Done);
        }
        let parent = |field| address.str_at(&["spec", "parentRef", field]);
        let (namespace, service_name) = (parent("namespace"), parent("name"));
        let Some(service) = parent_key(&address) else {
            let message = format!(
                "IPAddress {name} appears to have been modified, not referencing a Service &ParentReference{{Group:{},Resource:{},Namespace:{namespace},Name:{service_name},}}: cleaning up",
                parent("group"),
                parent("resource"),
            );
            self.warn(client, &address, ADDRESS_ALLOCATION, "IPAddressNotAllocated", message).await;
            return delete_address(client, &address).await.map(|()| ReconcileResult::Done);
        };
        // The server stores the addresses of a new or updated service before the service. Upstream waits for new
        // services only, and takes the address of an update in progress away.
        client.clone().catch_up().await?;
        let subject = format!("IPAddress: {name} for Service {namespace}/{service_name}");
        let (reason, message) = match look_up(client, &services(), &service) {
            Lookup::Unknown => return Ok(ReconcileResult::Done),
            Lookup::Found(service) if has_cluster_ip(&service, name) => return Ok(ReconcileResult::Done),
            Lookup::Found(_) => ("IPAddressWrongReference", format!("{subject} has a wrong reference; cleaning up")),
            Lookup::Missing => ("IPAddressNotAllocated", format!("{subject} appears to have leaked: cleaning up")),
        };
        if let Some(remaining) = remaining_grace_period(client, &address) {
            return Ok(ReconcileResult::WaitFor(client.sleep(remaining)));
        }
        self.warn(client, &address, ADDRESS_ALLOCATION, reason, message).await;
        delete_address(client, &address).await.map(|()| ReconcileResult::Done)
    }
}

/// How long an IPAddress may still exist without a service that has the address.
fn remaining_grace_period(client: &Arc<dyn ClusterClient>, address: &Value) -> Option<Duration> {
    let created = address.time_at(&["metadata", "creationTimestamp"])?;
    let end = created.plus(TimeDuration::from_seconds(GRACE_PERIOD));
    let remaining = end.since(client.now());
    u64::try_from(remaining.0).ok().map(|nanos| Duration::from_nanos(nanos.max(1)))
}

/// True if an IPAddress of this name is for one of a service's cluster IPs, which may be written in another form.
fn has_cluster_ip(service: &Value, name: &str) -> bool {
    cluster_ips(service).any(|text| text == name || parse_sloppy(text).is_some_and(|ip| ip.to_string() == name))
}

/// True if a service has an address without an IPAddress, also after everything that was committed before the call.
async fn has_lost_address(client: &Arc<dyn ClusterClient>, service: &Value, ip: IpAddr) -> Result<bool, ApiError> {
    client.clone().catch_up().await?;
    let key = service_key(service.namespace(), service.name());
    // A deleted service loses its addresses after the deletion, so the service is looked up last.
    let is_missing = matches!(look_up(client, &ip_addresses(), &ip.to_string()), Lookup::Missing);
    let Lookup::Found(current) = look_up(client, &services(), &key) else { return Ok(false) };
    let has_address = cluster_ips(&current).any(|text| parse_sloppy(text) == Some(ip));
    Ok(is_missing && has_address && current.uid() == service.uid())
}

async fn create_address(client: &Arc<dyn ClusterClient>, service: &Value, ip: IpAddr) -> Result<(), ApiError> {
    client.clone().create(ip_addresses(), pintle_kinds::new_ip_address(service, ip)).await
}

async fn delete_address(client: &Arc<dyn ClusterClient>, address: &Value) -> Result<(), ApiError> {
    let target = ObjectRef { resource: ip_addresses(), namespace: String::new(), name: address.name().to_owned() };
    let revision = address.resource_version().parse().unwrap_or_default();
    let request = DeleteRequest { uid: address.uid().into(), revision, propagation: DeletionPropagation::Background };
    match client.clone().delete(target, request).await {
        Ok(()) | Err(ApiError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Replaces an IPAddress by an IPAddress that belongs to a service.
async fn recreate_address(
    client: &Arc<dyn ClusterClient>,
    service: &Value,
    ip: IpAddr,
    address: &Value,
) -> Result<(), ApiError> {
    delete_address(client, address).await?;
    create_address(client, service, ip).await
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn an_address_belongs_to_a_service_by_its_parent() {
        let address = |group: &str, resource: &str| {
            let parent = object! { "group": group, "resource": resource, "namespace": "ns", "name": "web" };
            object! { "spec": object! { "parentRef": parent } }
        };
        assert_eq!(parent_key(&address("", "services")), Some("ns/web".into()));
        assert_eq!(parent_key(&address("gateway.networking.k8s.io", "services")), None);
        assert_eq!(parent_key(&address("", "pods")), None);
    }

    #[test]
    fn labels_name_the_family_and_the_allocator() {
        let check = |name: &str, family: &str, allocator: &str, expect: bool| {
            let labels = object! { "ipaddress.kubernetes.io/ip-family": family,
            "ipaddress.kubernetes.io/managed-by": allocator };
            let address = object! { "metadata": object! { "name": name, "labels": labels } };
            assert_eq!(has_labels(&address), expect, "{name} {family} {allocator}");
        };
        check("10.0.0.1", "IPv4", ALLOCATOR, true);
        check("fd00::1", "IPv6", ALLOCATOR, true);
        check("10.0.0.1", "IPv6", ALLOCATOR, false);
        check("10.0.0.1", "IPv4", "other", false);
    }
}
