//! Allocates addresses and node ports before the write of a service is committed (upstream:
//! `pkg/registry/core/service/storage/{storage,alloc}.go`). After the commit, addresses and ports that the service
//! gives up are released. If nothing was stored, the new ones are released instead. The ticket between the two steps
//! lists the allocations and the releases.

use std::collections::{BTreeMap, HashMap, HashSet};

use pintle_registry::{
    AllocationHooks, AllocationRepair, ApiError, BoxFuture, GroupResource, GroupVersionKind, ObjectClient,
    StrategyContext, WriteOperation,
};
use pintle_value::{Errors, FieldPath, Value};

use super::accessors::{
    NONE, allocates_node_ports, can_have_node_ports, cluster_ips, families, health_check_node_port, is_headless,
    needs_cluster_ip, needs_health_check, node_port, node_ports, ports, ports_mut, shown_cluster_ips,
};
use super::addresses::{self, AddressError};
use super::dependent_fields::{align_cluster_ips, copy_allocated};
use super::families::{is_unchanged_dual_stack, set_family_defaults};
use super::network::ServiceNetwork;
use super::node_ports::{NodePortAllocator, PortOperation};
use crate::networking::address::{AddressRules, parse_ip};
use crate::validation::strings_at;

/// Allocates the cluster IPs and node ports of a cluster's services.
#[derive(Debug)]
pub(super) struct Allocator {
    families: Vec<&'static str>,
    node_ports: NodePortAllocator,
}

impl Allocator {
    pub(super) fn new(network: &ServiceNetwork) -> Self {
        Self { families: network.families(), node_ports: NodePortAllocator::new(network.node_ports()) }
    }
}

impl AllocationHooks for Allocator {
    fn begin<'a>(
        &'a self,
        context: &'a StrategyContext,
        objects: &'a dyn ObjectClient,
        write: WriteOperation<'a>,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            self.node_ports.load(objects).await?;
            let service = match &write {
                WriteOperation::Create(service) => &**service,
                WriteOperation::Update { object, .. } => &**object,
                WriteOperation::Delete(service) => service,
            };
            let mut allocation = ServiceAllocation {
                objects,
                namespace: service.namespace().to_owned(),
                name: service.name().to_owned(),
                dry_run: context.dry_run,
                address_rules: AddressRules::of(&context.gates),
                allocated: Vec::new(),
                to_release: Vec::new(),
                ports: PortOperation::new(&self.node_ports, context.dry_run),
            };
            let outcome = match write {
                WriteOperation::Create(service) => self.begin_create(&mut allocation, service).await,
                WriteOperation::Update { object, old } => self.begin_update(&mut allocation, object, old).await,
                WriteOperation::Delete(service) => {
                    allocation.release_all(service);
                    return Ok(allocation.into_ticket(true));
                }
            };
            match outcome {
                Ok(()) => Ok(allocation.into_ticket(false)),
                Err(error) => {
                    allocation.release_allocated().await;
                    Err(error)
                }
            }
        })
    }

    fn commit<'a>(&'a self, objects: &'a dyn ObjectClient, ticket: Value) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.release_side(objects, &ticket, "released").await;
            // Upstream does not rely on the controller to remove the endpoints before a service of the same name is
            // created.
            if ticket.bool_at(&["deleted"]) {
                let endpoints = GroupResource::new("", "endpoints");
                let _ = objects.delete(&endpoints, ticket.str_at(&["namespace"]), ticket.str_at(&["name"])).await;
            }
        })
    }

    fn revert<'a>(&'a self, objects: &'a dyn ObjectClient, ticket: Value) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.release_side(objects, &ticket, "allocated").await })
    }

    fn sync<'a>(&'a self, objects: &'a dyn ObjectClient) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            self.node_ports.refresh(objects).await?;
            self.node_ports.sync(objects).await
        })
    }

    fn repair(&self, services: &mut dyn Iterator<Item = Value>) -> AllocationRepair {
        self.node_ports.repair(services)
    }
}

impl Allocator {
    async fn release_side(&self, objects: &dyn ObjectClient, ticket: &Value, side: &str) {
        let ports = ticket.items_at(&[side, "nodePorts"]);
        if !ports.is_empty() {
            self.node_ports.release(ports.iter().filter_map(Value::as_int));
            if let Err(error) = self.node_ports.sync(objects).await {
                tracing::warn!(%error, "Failed to record released node ports, will retry with the next ones");
            }
        }
        for ip in strings_at(ticket, &[side, "clusterIPs"]) {
            addresses::release(objects, ticket.str_at(&["namespace"]), ticket.str_at(&["name"]), ip).await;
        }
    }

    async fn begin_create(&self, allocation: &mut ServiceAllocation<'_>, service: &mut Value) -> Result<(), ApiError> {
        align_cluster_ips(service, None);
        set_family_defaults(allocation.address_rules, service, None, &self.families)
            .map_err(|errors| invalid(service, errors))?;
        allocation.allocate_cluster_ips(service).await?;
        allocation
            .change_ports(service, |allocation, service| {
                if can_have_node_ports(service) {
                    allocation.allocate_node_ports(service)?;
                }
                if needs_health_check(service) {
                    allocation.allocate_health_check_port(service)?;
                }
                Ok(())
            })
            .await
    }

    async fn begin_update(
        &self,
        allocation: &mut ServiceAllocation<'_>,
        service: &mut Value,
        old: &Value,
    ) -> Result<(), ApiError> {
        copy_allocated(service, old);
        align_cluster_ips(service, Some(old));
        set_family_defaults(allocation.address_rules, service, Some(old), &self.families)
            .map_err(|errors| invalid(service, errors))?;
        allocation.change_cluster_ips(service, old).await?;
        allocation
            .change_ports(service, |allocation, service| {
                if can_have_node_ports(old) && !can_have_node_ports(service) {
                    allocation.ports.to_release.extend(node_ports(old));
                }
                if can_have_node_ports(service) {
                    allocation.change_node_ports(service, old)?;
                }
                match (needs_health_check(old), needs_health_check(service)) {
                    (false, true) => allocation.allocate_health_check_port(service)?,
                    (true, false) => allocation.ports.to_release.push(health_check_node_port(old)),
                    _ => {}
                }
                Ok(())
            })
            .await
    }
}

/// The allocations and releases of one write.
struct ServiceAllocation<'a> {
    objects: &'a dyn ObjectClient,
    /// The service's namespace.
    namespace: String,
    /// The service's name.
    name: String,
    dry_run: bool,
    address_rules: AddressRules,
    /// The allocated addresses.
    allocated: Vec<String>,
    /// The addresses to release once the write is stored.
    to_release: Vec<String>,
    ports: PortOperation<'a>,
}

impl ServiceAllocation<'_> {
    async fn release_allocated(mut self) {
        self.ports.reset();
        for ip in self.allocated.drain(..) {
            addresses::release(self.objects, &self.namespace, &self.name, &ip).await;
        }
    }

    fn into_ticket(self, deleted: bool) -> Value {
        let mut ticket = Value::object();
        if self.dry_run {
            return ticket;
        }
        ticket.set("namespace", self.namespace);
        ticket.set("name", self.name);
        ticket.set("deleted", deleted);
        let (ports_taken, ports_freed) = self.ports.finish();
        let sides = [("allocated", self.allocated, ports_taken), ("released", self.to_release, ports_freed)];
        for (side, ips, ports) in sides {
            ticket.set_at(&[side, "clusterIPs"], ips.into_iter().map(Value::from).collect::<Vec<_>>());
            ticket.set_at(&[side, "nodePorts"], ports.into_iter().map(Value::from).collect::<Vec<_>>());
        }
        ticket
    }

    /// Releases all addresses and ports of a service.
    fn release_all(&mut self, service: &Value) {
        if needs_cluster_ip(service) && !is_headless(service) {
            self.to_release.extend(cluster_ips(service).into_iter().map(str::to_owned));
        }
        self.ports.to_release.extend(node_ports(service));
        if needs_health_check(service) {
            self.ports.to_release.push(health_check_node_port(service));
        }
    }

    /// Allocates an address for each family, or the address that the service requests.
    async fn allocate_cluster_ips(&mut self, service: &mut Value) -> Result<(), ApiError> {
        if !needs_cluster_ip(service) || cluster_ips(service).first() == Some(&NONE) {
            return Ok(());
        }
        for i in 0..families(service).len() {
            self.allocate_cluster_ip(service, i).await?;
        }
        Ok(())
    }

    /// Allocates the address of the family at an index.
    async fn allocate_cluster_ip(&mut self, service: &mut Value, i: usize) -> Result<(), ApiError> {
        let wanted = cluster_ips(service).get(i).map_or_else(String::new, |ip| (*ip).to_owned());
        let ip = if wanted.is_empty() {
            let family = families(service).get(i).map_or_else(String::new, |family| (*family).to_owned());
            let ip = addresses::allocate_next(self.objects, service, &family, self.dry_run).await;
            ip.map_err(|error| allocation_error(service, error))?.to_string()
        } else {
            let ip = parse_ip(&wanted)
                .ok_or_else(|| ApiError::Internal(format!("failed to parse service IP {wanted:?}")))?;
            let outcome = addresses::allocate(self.objects, service, ip, self.dry_run).await;
            outcome.map_err(|error| {
                requested_address_error(service, &format!("failed to allocate IP {wanted}: {error}"))
            })?;
            wanted
        };
        if !self.dry_run {
            self.allocated.push(ip.clone());
        }
        set_cluster_ip(service, i, &ip);
        Ok(())
    }

    async fn change_cluster_ips(&mut self, service: &mut Value, old: &Value) -> Result<(), ApiError> {
        if is_unchanged_dual_stack(service, old) {
            return Ok(());
        }
        if !needs_cluster_ip(old) && needs_cluster_ip(service) {
            return self.allocate_cluster_ips(service).await;
        }
        if cluster_ips(old).first() == Some(&NONE) {
            return Ok(());
        }
        if needs_cluster_ip(old) && !needs_cluster_ip(service) {
            self.to_release.extend(cluster_ips(old).into_iter().map(str::to_owned));
            return Ok(());
        }
        match (families(old).len(), families(service).len()) {
            (1, 2) => self.allocate_cluster_ip(service, 1).await,
            (2, 1) => {
                self.to_release.extend(cluster_ips(old).get(1).map(|ip| (*ip).to_owned()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Changes the ports of a service and records them. If another server has allocated one of them, or has released a
    /// port that was missing, the change is made again.
    async fn change_ports(
        &mut self,
        service: &mut Value,
        change: impl Fn(&mut Self, &mut Value) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let before = service.clone();
        let mut is_current = self.dry_run;
        loop {
            match change(self, service) {
                Ok(()) if self.ports.record(self.objects).await? => return Ok(()),
                Ok(()) => {}
                Err(error) if is_current || !self.ports.refresh(self.objects).await? => return Err(error),
                Err(_) => is_current = true,
            }
            self.ports.reset();
            service.clone_from(&before);
        }
    }

    /// Allocates node ports for a new service. Ports with the same number and different protocols share a node port.
    fn allocate_node_ports(&mut self, service: &mut Value) -> Result<(), ApiError> {
        let allocates = allocates_node_ports(service);
        let mut by_port: BTreeMap<i64, i64> = BTreeMap::new();
        // The first node port that is requested for each port number.
        let requests = ports(service).iter().rev().map(|port| (port.int_at(&["port"]).unwrap_or(0), node_port(port)));
        let requested: HashMap<i64, i64> = requests.filter(|(_, node_port)| *node_port != 0).collect();
        for i in 0..ports(service).len() {
            let (number, named) = port_at(service, i);
            if named == 0 && !allocates {
                continue;
            }
            match by_port.get(&number) {
                Some(shared) if named == 0 => set_node_port(service, i, *shared),
                Some(shared) if named == *shared => {}
                Some(_) => self.allocate_node_port(service, i, named)?,
                None => {
                    let port = match requested.get(&number).copied() {
                        Some(port) => {
                            self.allocate_node_port(service, i, port)?;
                            port
                        }
                        None => self.allocate_next_node_port()?,
                    };
                    set_node_port(service, i, port);
                    by_port.insert(number, port);
                }
            }
        }
        Ok(())
    }

    /// Allocates the node ports that an update adds, and releases the node ports that it removes.
    fn change_node_ports(&mut self, service: &mut Value, old: &Value) -> Result<(), ApiError> {
        let allocates = allocates_node_ports(service);
        let before: HashSet<i64> = node_ports(old).into_iter().collect();
        let (mut seen, mut seen_numbers) = (HashSet::new(), HashSet::new());
        for i in 0..ports(service).len() {
            let (_, mut port) = port_at(service, i);
            if port != 0 {
                if !before.contains(&port) && !seen_numbers.contains(&port) {
                    self.allocate_node_port(service, i, port)?;
                }
            } else if allocates {
                port = self.allocate_next_node_port()?;
                set_node_port(service, i, port);
            } else {
                continue;
            }
            let protocol = ports(service).get(i).map_or("", |p| p.str_at(&["protocol"]));
            if !seen.insert((protocol.to_owned(), port)) {
                // Upstream gives this error no reason.
                return Err(ApiError::Unclassified(format!("duplicate nodePort: {{{protocol} {port}}}")));
            }
            seen_numbers.insert(port);
        }
        let now: HashSet<i64> = node_ports(service).into_iter().collect();
        self.ports.to_release.extend(node_ports(old).into_iter().filter(|port| !now.contains(port)));
        Ok(())
    }

    /// Allocates the node port that the port at an index requests.
    fn allocate_node_port(&mut self, service: &Value, i: usize, port: i64) -> Result<(), ApiError> {
        self.ports.allocate(port).map_err(|error| {
            let path = FieldPath::new("spec.ports");
            let mut errors = Errors::new();
            errors.invalid(&path.index(i).child("nodePort"), port, error.to_string());
            invalid(service, errors)
        })
    }

    fn allocate_next_node_port(&mut self) -> Result<i64, ApiError> {
        self.ports
            .allocate_next()
            .map_err(|error| ApiError::Internal(format!("failed to allocate a nodePort: {error}")))
    }

    fn allocate_health_check_port(&mut self, service: &mut Value) -> Result<(), ApiError> {
        let wanted = health_check_node_port(service);
        if wanted != 0 {
            return self.ports.allocate(wanted).map_err(|error| {
                ApiError::Internal(format!("failed to allocate requested HealthCheck NodePort {wanted}: {error}"))
            });
        }
        let port = self
            .ports
            .allocate_next()
            .map_err(|error| ApiError::Internal(format!("failed to allocate a HealthCheck NodePort 0: {error}")))?;
        service.set_at(&["spec", "healthCheckNodePort"], port);
        Ok(())
    }
}

/// Returns the number and the node port of the port at an index.
fn port_at(service: &Value, i: usize) -> (i64, i64) {
    ports(service).get(i).map_or((0, 0), |port| (port.int_at(&["port"]).unwrap_or(0), node_port(port)))
}

fn set_node_port(service: &mut Value, i: usize, node_port: i64) {
    if let Some(port) = ports_mut(service).get_mut(i) {
        port.set("nodePort", node_port);
    }
}

fn set_cluster_ip(service: &mut Value, i: usize, ip: &str) {
    let mut ips: Vec<Value> = cluster_ips(service).into_iter().map(Value::from).collect();
    ips.truncate(ips.len().max(i + 1));
    while ips.len() <= i {
        ips.push(Value::from(""));
    }
    ips[i] = Value::from(ip);
    service.set_at(&["spec", "clusterIPs"], ips);
    if i == 0 {
        service.set_at(&["spec", "clusterIP"], ip);
    }
}

fn invalid(service: &Value, errors: Errors) -> ApiError {
    ApiError::Invalid { kind: GroupVersionKind::new("", "v1", "Service"), name: service.name().into(), errors }
}

/// The error about a requested address.
fn requested_address_error(service: &Value, problem: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(&FieldPath::new("spec.clusterIPs"), shown_cluster_ips(service), problem);
    invalid(service, errors)
}

/// The error about a failed automatic allocation.
fn allocation_error(service: &Value, error: AddressError) -> ApiError {
    match error {
        AddressError::Full => ApiError::Internal(format!("failed to allocate a serviceIP: {error}")),
        other => requested_address_error(service, &format!("failed to allocate IP: {other}")),
    }
}
