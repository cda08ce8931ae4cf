//! Allocates node ports. The allocator is in memory and reads the stored services once. A port is allocated as soon as
//! a write requests it, and released only when a write that drops it is stored: a leaked port does less harm than one
//! that is allocated twice (upstream: `pkg/registry/core/service/portallocator`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pintle_registry::{ApiError, GroupResource, ObjectClient};

use super::accessors::{health_check_node_port, needs_health_check, node_ports};
use super::addresses::random_bits;

/// Why a node port cannot be allocated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodePortError {
    /// The port is already allocated.
    #[error("provided port is already allocated")]
    Allocated,
    /// The port is outside of the node port range.
    #[error("provided port is not in the valid range. The range of valid ports is {0}-{1}")]
    OutOfRange(u16, u16),
    /// All ports are allocated.
    #[error("range is full")]
    Full,
}

/// The node port allocator of a cluster.
#[derive(Debug)]
pub(super) struct NodePortAllocator {
    pub(super) range: RangeInclusive<u16>,
    /// The allocated ports; `None` until the stored services are loaded.
    allocated_ports: Mutex<Option<BTreeSet<u16>>>,
    /// The ports that seem to be leaked, and in how many more repairs they have to.
    pub(super) leaks: Mutex<BTreeMap<u16, u32>>,
}

impl NodePortAllocator {
    /// Creates an allocator for a range, without loading the allocated ports.
    pub(super) fn new(range: RangeInclusive<u16>) -> Self {
        Self { range, allocated_ports: Mutex::new(None), leaks: Mutex::default() }
    }

    pub(super) fn allocated_ports(&self) -> MutexGuard<'_, Option<BTreeSet<u16>>> {
        self.allocated_ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the allocated ports from the stored services on the first call.
    pub(super) fn load(&self, objects: &dyn ObjectClient) -> Result<(), ApiError> {
        let mut allocated_ports = self.allocated_ports();
        if allocated_ports.is_none() {
            let services = objects.list(&GroupResource::new("", "services"), "")?;
            let mut found = BTreeSet::new();
            for service in &services {
                let health_check = needs_health_check(service).then(|| health_check_node_port(service));
                found
                    .extend(node_ports(service).into_iter().chain(health_check).filter_map(|port| self.in_range(port)));
            }
            *allocated_ports = Some(found);
        }
        Ok(())
    }

    pub(super) fn in_range(&self, port: i64) -> Option<u16> {
        u16::try_from(port).ok().filter(|port| self.range.contains(port))
    }

    /// Returns true if the port is allocated.
    fn is_allocated(&self, port: i64) -> bool {
        self.in_range(port).is_some_and(|port| {
            self.allocated_ports().as_ref().is_some_and(|allocated_ports| allocated_ports.contains(&port))
        })
    }

    fn allocate(&self, port: i64) -> Result<(), NodePortError> {
        let port = self.in_range(port).ok_or(NodePortError::OutOfRange(*self.range.start(), *self.range.end()))?;
        if self.allocated_ports().get_or_insert_default().insert(port) { Ok(()) } else { Err(NodePortError::Allocated) }
    }

    /// Allocates any port, preferably one above the part that is reserved for manual allocation.
    fn allocate_next(&self) -> Result<i64, NodePortError> {
        let mut allocated_ports = self.allocated_ports();
        let allocated_ports = allocated_ports.get_or_insert_default();
        let (start, end) = (*self.range.start(), *self.range.end());
        let size = usize::from(end - start) + 1;
        let reserved = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        let dynamic = start + u16::try_from(reserved).unwrap_or(0);
        let parts = [dynamic..=end, start..=dynamic.saturating_sub(1)];
        for part in parts.into_iter().take(if reserved > 0 { 2 } else { 1 }) {
            let length = usize::from(part.end() - part.start()) + 1;
            let offset = usize::try_from(random_bits() % length as u64).unwrap_or(0);
            let free = part.clone().skip(offset).chain(part.take(offset)).find(|port| !allocated_ports.contains(port));
            if let Some(port) = free {
                allocated_ports.insert(port);
                return Ok(i64::from(port));
            }
        }
        Err(NodePortError::Full)
    }

    /// Releases ports. Ignores ports that are not allocated.
    pub(super) fn release(&self, ports: impl IntoIterator<Item = i64>) {
        let mut allocated_ports = self.allocated_ports();
        for port in ports {
            if let (Some(allocated_ports), Some(port)) = (allocated_ports.as_mut(), self.in_range(port)) {
                allocated_ports.remove(&port);
            }
        }
    }
}

/// The node ports that one write allocates and releases. Ports are allocated immediately and released when the write is
/// stored. Dropping an unclaimed operation releases the ports that it allocated, so that an abandoned request leaks
/// nothing.
#[derive(Debug)]
pub(super) struct PortOperation<'a> {
    ports: &'a NodePortAllocator,
    dry_run: bool,
    /// The allocated ports.
    pub(super) allocated: Vec<i64>,
    /// The ports to release once the write is stored.
    pub(super) to_release: Vec<i64>,
}

impl<'a> PortOperation<'a> {
    /// Creates an operation without allocations.
    pub(super) fn new(ports: &'a NodePortAllocator, dry_run: bool) -> Self {
        Self { ports, dry_run, allocated: Vec::new(), to_release: Vec::new() }
    }

    /// Allocates the port that a service requests. Like upstream, a dry run does not check that it is in the range.
    pub(super) fn allocate(&mut self, port: i64) -> Result<(), NodePortError> {
        if !self.dry_run {
            self.ports.allocate(port)?;
        } else if self.ports.is_allocated(port) || self.allocated.contains(&port) {
            return Err(NodePortError::Allocated);
        }
        self.allocated.push(port);
        Ok(())
    }

    /// Allocates any port. Like upstream, a dry run returns numbers beyond the usual range.
    pub(super) fn allocate_next(&mut self) -> Result<i64, NodePortError> {
        let port = if self.dry_run {
            self.allocated.iter().max().map_or(32769, |port| port.saturating_add(1))
        } else {
            self.ports.allocate_next()?
        };
        self.allocated.push(port);
        Ok(port)
    }

    /// Ends the operation. Returns the allocated ports and the ports to release, for which the caller is responsible
    /// from then on.
    pub(super) fn finish(mut self) -> (Vec<i64>, Vec<i64>) {
        (std::mem::take(&mut self.allocated), std::mem::take(&mut self.to_release))
    }
}

impl Drop for PortOperation<'_> {
    fn drop(&mut self) {
        if !self.dry_run {
            self.ports.release(self.allocated.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_port_is_allocated_only_once() {
        let ports = NodePortAllocator::new(30000..=32767);
        let mut operation = PortOperation::new(&ports, false);
        assert_eq!(operation.allocate(30001), Ok(()));
        assert_eq!(operation.allocate(30001), Err(NodePortError::Allocated));
        let text = operation.allocate(80).map_err(|e| e.to_string());
        assert_eq!(
            text,
            Err("provided port is not in the valid range. The range of valid ports is 30000-32767".to_owned())
        );
        let any = operation.allocate_next();
        assert!(any.is_ok_and(|port| (30086..=32767).contains(&port)));
        drop(operation);
        assert_eq!(PortOperation::new(&ports, false).allocate(30001), Ok(()));
    }

    #[test]
    fn the_static_range_is_used_last() {
        let ports = NodePortAllocator::new(30000..=30031);
        let mut operation = PortOperation::new(&ports, false);
        let allocated: Vec<i64> = (0..32).map_while(|_| operation.allocate_next().ok()).collect();
        assert!(allocated[..16].iter().all(|port| *port >= 30016));
        assert!(allocated[16..].iter().all(|port| *port < 30016));
        assert_eq!(allocated.iter().collect::<BTreeSet<_>>().len(), 32);
        assert_eq!(operation.allocate_next(), Err(NodePortError::Full));
    }

    #[test]
    fn a_dry_run_allocates_no_port() {
        let ports = NodePortAllocator::new(30000..=32767);
        let mut other = PortOperation::new(&ports, false);
        assert_eq!(other.allocate(30005), Ok(()));
        assert_eq!(other.finish(), (vec![30005], vec![]));
        let mut operation = PortOperation::new(&ports, true);
        assert_eq!(operation.allocate(30005), Err(NodePortError::Allocated));
        assert_eq!(operation.allocate_next(), Ok(32769));
        assert_eq!(operation.allocate_next(), Ok(32770));
        drop(operation);
        assert_eq!(ports.allocated_ports().as_ref().map(BTreeSet::len), Some(1));
    }
}
