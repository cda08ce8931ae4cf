//! Allocates addresses and node ports around the write of a service: before the commit, and releases them after it, or
//! instead of it if nothing was stored (upstream: `pkg/registry/core/service/storage/{storage,alloc}.go`). The ticket
//! between the two steps lists what was allocated and what is to be released.

use std::collections::BTreeMap;

use pintle_registry::{
    AllocationHooks, ApiError, BoxFuture, GroupResource, GroupVersionKind, ObjectClient, StrategyContext,
    WriteOperation,
};
use pintle_value::{Errors, FieldPath, Value};

use super::accessors::{
    NONE, allocates_node_ports, cluster_ips, families, health_check_node_port, is_headless, may_have_node_ports,
    needs_cluster_ip, needs_health_check, node_port, node_ports, ports, ports_mut, shown_cluster_ips,
};
use super::addresses::{self, AddressError};
use super::dependent_fields::{align_cluster_ips, keep_allocated};
use super::families::{prefers_dual_stack_still, settle};
use super::network::ServiceNetwork;
use super::node_ports::{NodePorts, PortOperation};
use crate::networking::address::parse_ip;
use crate::validation::strings;

/// Allocates the cluster IPs and node ports of a cluster's services.
#[derive(Debug)]
pub(super) struct Allocator {
    families: Vec<&'static str>,
    node_ports: NodePorts,
}

impl Allocator {
    pub(super) fn new(network: &ServiceNetwork) -> Self {
        Self { families: network.families(), node_ports: NodePorts::new(network.node_ports()) }
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
            self.node_ports.load(objects)?;
            let service = match &write {
                WriteOperation::Create(service) => &**service,
                WriteOperation::Update { object, .. } => &**object,
                WriteOperation::Delete(service) => service,
            };
            let mut claim = Claim {
                objects,
                namespace: service.namespace().to_owned(),
                name: service.name().to_owned(),
                dry_run: context.dry_run,
                taken: Vec::new(),
                freed: Vec::new(),
                ports: PortOperation::new(&self.node_ports, context.dry_run),
            };
            let outcome = match write {
                WriteOperation::Create(service) => self.begin_create(&mut claim, service).await,
                WriteOperation::Update { object, old } => self.begin_update(&mut claim, object, old).await,
                WriteOperation::Delete(service) => {
                    claim.free_all(service);
                    return Ok(claim.ticket(true));
                }
            };
            match outcome {
                Ok(()) => Ok(claim.ticket(false)),
                Err(error) => {
                    claim.undo().await;
                    Err(error)
                }
            }
        })
    }

    fn commit<'a>(&'a self, objects: &'a dyn ObjectClient, ticket: Value) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.give_back(objects, &ticket, "freed").await;
            // Upstream does not rely on the controller to remove the endpoints before a service of the same name is
            // created.
            if ticket.bool_at(&["deleted"]) {
                let endpoints = GroupResource::new("", "endpoints");
                let _ = objects.delete(&endpoints, ticket.str_at(&["namespace"]), ticket.str_at(&["name"])).await;
            }
        })
    }

    fn revert<'a>(&'a self, objects: &'a dyn ObjectClient, ticket: Value) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.give_back(objects, &ticket, "taken").await })
    }
}

impl Allocator {
    async fn give_back(&self, objects: &dyn ObjectClient, ticket: &Value, side: &str) {
        self.node_ports.release(ticket.items_at(&[side, "nodePorts"]).iter().filter_map(Value::as_int));
        for ip in strings(ticket, &[side, "clusterIPs"]) {
            addresses::release(objects, ticket.str_at(&["namespace"]), ticket.str_at(&["name"]), ip).await;
        }
    }

    async fn begin_create(&self, claim: &mut Claim<'_>, service: &mut Value) -> Result<(), ApiError> {
        align_cluster_ips(service, None);
        settle(service, None, &self.families).map_err(|errors| invalid(service, errors))?;
        claim.take_cluster_ips(service).await?;
        if may_have_node_ports(service) {
            claim.take_node_ports(service)?;
        }
        if needs_health_check(service) {
            claim.take_health_check_port(service)?;
        }
        Ok(())
    }

    async fn begin_update(&self, claim: &mut Claim<'_>, service: &mut Value, old: &Value) -> Result<(), ApiError> {
        keep_allocated(service, old);
        align_cluster_ips(service, Some(old));
        settle(service, Some(old), &self.families).map_err(|errors| invalid(service, errors))?;
        claim.change_cluster_ips(service, old).await?;
        if may_have_node_ports(old) && !may_have_node_ports(service) {
            claim.ports.freed.extend(node_ports(old));
        }
        if may_have_node_ports(service) {
            claim.change_node_ports(service, old)?;
        }
        match (needs_health_check(old), needs_health_check(service)) {
            (false, true) => claim.take_health_check_port(service)?,
            (true, false) => claim.ports.freed.push(health_check_node_port(old)),
            _ => {}
        }
        Ok(())
    }
}

/// The allocations and releases of one write.
struct Claim<'a> {
    objects: &'a dyn ObjectClient,
    /// The service's namespace.
    namespace: String,
    /// The service's name.
    name: String,
    dry_run: bool,
    /// The allocated addresses.
    taken: Vec<String>,
    /// The addresses to release once the write is stored.
    freed: Vec<String>,
    ports: PortOperation<'a>,
}

impl Claim<'_> {
    async fn undo(mut self) {
        for ip in self.taken.drain(..) {
            addresses::release(self.objects, &self.namespace, &self.name, &ip).await;
        }
    }

    fn ticket(self, deleted: bool) -> Value {
        let mut ticket = Value::object();
        if self.dry_run {
            return ticket;
        }
        ticket.set("namespace", self.namespace);
        ticket.set("name", self.name);
        ticket.set("deleted", deleted);
        let (ports_taken, ports_freed) = self.ports.claim();
        let sides = [("taken", self.taken, ports_taken), ("freed", self.freed, ports_freed)];
        for (side, ips, ports) in sides {
            ticket.set_at(&[side, "clusterIPs"], ips.into_iter().map(Value::from).collect::<Vec<_>>());
            ticket.set_at(&[side, "nodePorts"], ports.into_iter().map(Value::from).collect::<Vec<_>>());
        }
        ticket
    }

    /// Releases everything that a service has.
    fn free_all(&mut self, service: &Value) {
        if needs_cluster_ip(service) && !is_headless(service) {
            self.freed.extend(cluster_ips(service).into_iter().map(str::to_owned));
        }
        self.ports.freed.extend(node_ports(service));
        if needs_health_check(service) {
            self.ports.freed.push(health_check_node_port(service));
        }
    }

    /// Allocates an address for each family; a requested one if the service names it.
    async fn take_cluster_ips(&mut self, service: &mut Value) -> Result<(), ApiError> {
        if !needs_cluster_ip(service) || cluster_ips(service).first() == Some(&NONE) {
            return Ok(());
        }
        for i in 0..families(service).len() {
            self.take_cluster_ip(service, i).await?;
        }
        Ok(())
    }

    /// Allocates the address of the family at an index.
    async fn take_cluster_ip(&mut self, service: &mut Value, i: usize) -> Result<(), ApiError> {
        let wanted = cluster_ips(service).get(i).map_or_else(String::new, |ip| (*ip).to_owned());
        let ip = if wanted.is_empty() {
            let family = families(service).get(i).map_or_else(String::new, |family| (*family).to_owned());
            let ip = addresses::take_any(self.objects, service, &family, self.dry_run).await;
            ip.map_err(|error| no_address(service, error))?.to_string()
        } else {
            let ip = parse_ip(&wanted)
                .ok_or_else(|| ApiError::Internal(format!("failed to parse service IP {wanted:?}")))?;
            let outcome = addresses::take(self.objects, service, ip, self.dry_run).await;
            outcome.map_err(|error| wrong_address(service, &format!("failed to allocate IP {wanted}: {error}")))?;
            wanted
        };
        if !self.dry_run {
            self.taken.push(ip.clone());
        }
        set_cluster_ip(service, i, &ip);
        Ok(())
    }

    async fn change_cluster_ips(&mut self, service: &mut Value, old: &Value) -> Result<(), ApiError> {
        if prefers_dual_stack_still(service, old) {
            return Ok(());
        }
        if !needs_cluster_ip(old) && needs_cluster_ip(service) {
            return self.take_cluster_ips(service).await;
        }
        if cluster_ips(old).first() == Some(&NONE) {
            return Ok(());
        }
        if needs_cluster_ip(old) && !needs_cluster_ip(service) {
            self.freed.extend(cluster_ips(old).into_iter().map(str::to_owned));
            return Ok(());
        }
        match (families(old).len(), families(service).len()) {
            (1, 2) => self.take_cluster_ip(service, 1).await,
            (2, 1) => {
                self.freed.extend(cluster_ips(old).get(1).map(|ip| (*ip).to_owned()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Allocates node ports for a new service. Ports with the same number and different protocols share one.
    fn take_node_ports(&mut self, service: &mut Value) -> Result<(), ApiError> {
        let allocates = allocates_node_ports(service);
        let mut by_port: BTreeMap<i64, i64> = BTreeMap::new();
        for i in 0..ports(service).len() {
            let (number, named) = port_at(service, i);
            if named == 0 && !allocates {
                continue;
            }
            match by_port.get(&number) {
                Some(shared) if named == 0 => set_node_port(service, i, *shared),
                Some(shared) if named == *shared => {}
                Some(_) => self.take_node_port(service, i, named)?,
                None => {
                    let wish = ports(service).iter().filter(|p| p.int_at(&["port"]).unwrap_or(0) == number);
                    let wish = wish.map(node_port).find(|port| *port != 0);
                    let port = match wish {
                        Some(port) => {
                            self.take_node_port(service, i, port)?;
                            port
                        }
                        None => self.take_any_node_port()?,
                    };
                    set_node_port(service, i, port);
                    by_port.insert(number, port);
                }
            }
        }
        Ok(())
    }

    /// Allocates the node ports that an update adds and releases those that it removes.
    fn change_node_ports(&mut self, service: &mut Value, old: &Value) -> Result<(), ApiError> {
        let allocates = allocates_node_ports(service);
        let before = node_ports(old);
        let mut seen: Vec<(String, i64)> = Vec::new();
        for i in 0..ports(service).len() {
            let (_, mut port) = port_at(service, i);
            if port != 0 {
                let taken_here = seen.iter().any(|(_, other)| *other == port) && !before.contains(&port);
                if !before.contains(&port) && !taken_here {
                    self.take_node_port(service, i, port)?;
                }
            } else if allocates {
                port = self.take_any_node_port()?;
                set_node_port(service, i, port);
            } else {
                continue;
            }
            let protocol = ports(service).get(i).map_or("", |p| p.str_at(&["protocol"]));
            let entry = (protocol.to_owned(), port);
            if seen.contains(&entry) {
                // Upstream gives this error no reason.
                return Err(ApiError::Unclassified(format!("duplicate nodePort: {{{} {}}}", entry.0, entry.1)));
            }
            seen.push(entry);
        }
        let now = node_ports(service);
        self.ports.freed.extend(before.into_iter().filter(|port| !now.contains(port)));
        Ok(())
    }

    /// Allocates the node port that the port at an index requests.
    fn take_node_port(&mut self, service: &Value, i: usize, port: i64) -> Result<(), ApiError> {
        self.ports.take(port).map_err(|error| {
            let path = FieldPath::new("spec.ports");
            let mut errors = Errors::new();
            errors.invalid(&path.index(i).child("nodePort"), port, error.to_string());
            invalid(service, errors)
        })
    }

    fn take_any_node_port(&mut self) -> Result<i64, ApiError> {
        self.ports.take_any().map_err(|error| ApiError::Internal(format!("failed to allocate a nodePort: {error}")))
    }

    fn take_health_check_port(&mut self, service: &mut Value) -> Result<(), ApiError> {
        let wanted = health_check_node_port(service);
        if wanted != 0 {
            return self.ports.take(wanted).map_err(|error| {
                ApiError::Internal(format!("failed to allocate requested HealthCheck NodePort {wanted}: {error}"))
            });
        }
        let port = self
            .ports
            .take_any()
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
fn wrong_address(service: &Value, problem: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(&FieldPath::new("spec.clusterIPs"), shown_cluster_ips(service), problem);
    invalid(service, errors)
}

/// The error about a failed automatic allocation.
fn no_address(service: &Value, error: AddressError) -> ApiError {
    match error {
        AddressError::Full => ApiError::Internal(format!(
            "failed to allocate a serviceIP for Service {}: {error}",
            pintle_value::field::quote(service.name())
        )),
        other => wrong_address(service, &format!("failed to allocate IP: {other}")),
    }
}
