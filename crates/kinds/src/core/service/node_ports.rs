//! Allocates node ports. They are recorded in the store, so that servers that share it do not give a port to two
//! services (upstream: `pkg/registry/core/service/portallocator`, `allocator/storage`). A port is claimed in memory
//! when a write requests it. Before the service is stored, one change records all ports that writes claim and release
//! at the moment. A port is released only when a write that drops it is stored. A leaked port does less harm than a
//! port that is allocated twice.

use pintle_locks::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use pintle_registry::{ApiError, GroupResource, ObjectClient};

use super::accessors::{health_check_node_port, needs_health_check, node_ports};
use super::addresses::random_bits;
use super::port_record;

/// The name of the record of node ports.
const RECORD: &str = "servicenodeports";

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

/// The state of all node ports.
#[derive(Debug, Default)]
pub(super) struct PortState {
    is_loaded: bool,
    /// The revision of the record; `None` if there is none yet.
    revision: Option<u64>,
    /// The ports of the record.
    recorded: BTreeSet<u16>,
    /// Allocated ports that are not in the record yet.
    claimed: BTreeSet<u16>,
    /// Ports of the record that are free.
    released: BTreeSet<u16>,
    /// Ports that were claimed here, but that another server has recorded first.
    lost: BTreeSet<u16>,
}

impl PortState {
    /// True if the port is allocated.
    pub(super) fn is_allocated(&self, port: u16) -> bool {
        self.claimed.contains(&port) || (self.recorded.contains(&port) && !self.released.contains(&port))
    }

    /// All allocated ports; `None` until they are loaded.
    pub(super) fn allocated(&self) -> Option<BTreeSet<u16>> {
        let kept = self.recorded.difference(&self.released);
        self.is_loaded.then(|| kept.chain(&self.claimed).copied().collect())
    }

    /// Claims a port. Returns false if it is allocated.
    pub(super) fn claim(&mut self, port: u16) -> bool {
        let is_free = !self.is_allocated(port);
        if is_free {
            self.released.remove(&port);
            self.claimed.insert(port);
        }
        is_free
    }

    /// Releases a port, if it is allocated.
    pub(super) fn release(&mut self, port: u16) {
        self.claimed.remove(&port);
        // A sync may record the port at this moment.
        self.released.insert(port);
    }

    /// Takes over the record from the store.
    fn update(&mut self, recorded: BTreeSet<u16>, revision: u64) {
        let by_others = recorded.difference(&self.recorded).copied().collect();
        let lost: Vec<u16> = self.claimed.intersection(&by_others).copied().collect();
        for port in lost {
            self.claimed.remove(&port);
            self.lost.insert(port);
        }
        // A port that another server has recorded belongs to that server.
        self.released.retain(|port| !by_others.contains(port));
        (self.recorded, self.revision, self.is_loaded) = (recorded, Some(revision), true);
    }
}

/// The node port allocator of a cluster.
#[derive(Debug)]
pub(super) struct NodePortAllocator {
    pub(super) range: RangeInclusive<u16>,
    state: Mutex<PortState>,
    /// Held while the record is read and written.
    syncing: tokio::sync::Mutex<()>,
    /// The ports that seem to be leaked, each with the number of repairs until it is released.
    pub(super) leaks: Mutex<BTreeMap<u16, u32>>,
}

impl NodePortAllocator {
    /// Creates an allocator for a range, without loading the allocated ports.
    pub(super) fn new(range: RangeInclusive<u16>) -> Self {
        Self { range, state: Mutex::default(), syncing: tokio::sync::Mutex::default(), leaks: Mutex::default() }
    }

    /// An allocator with a record.
    #[cfg(test)]
    pub(super) fn with_recorded(range: RangeInclusive<u16>, recorded: BTreeSet<u16>) -> Self {
        let allocator = Self::new(range);
        allocator.state().update(recorded, 1);
        allocator
    }

    pub(super) fn state(&self) -> MutexGuard<'_, PortState> {
        self.state.lock()
    }

    /// Loads the allocated ports on the first call.
    ///
    /// # Errors
    /// The record or the services cannot be read.
    pub(super) async fn load(&self, objects: &dyn ObjectClient) -> Result<(), ApiError> {
        if self.state().is_loaded {
            return Ok(());
        }
        let _syncing = self.syncing.lock().await;
        if self.state().is_loaded { Ok(()) } else { self.read(objects).await }
    }

    /// Reads the record again. Returns true if another server has changed it.
    ///
    /// # Errors
    /// The record or the services cannot be read.
    pub(super) async fn refresh(&self, objects: &dyn ObjectClient) -> Result<bool, ApiError> {
        let _syncing = self.syncing.lock().await;
        let before = self.state().revision;
        self.read(objects).await?;
        Ok(self.state().revision != before)
    }

    async fn read(&self, objects: &dyn ObjectClient) -> Result<(), ApiError> {
        let record = objects.range_allocation(RECORD).await?;
        let revision = record.as_ref().map(|(_, revision)| *revision);
        if let Some(recorded) = record.and_then(|(record, _)| port_record::decode(&record, &self.range))
            && let Some(revision) = revision
        {
            self.state().update(recorded, revision);
            return Ok(());
        }
        if self.state().is_loaded && revision.is_none() {
            // Nothing was recorded yet, or the record was deleted: all ports are recorded again.
            let mut state = self.state();
            let kept: Vec<u16> = state.recorded.difference(&state.released).copied().collect();
            state.claimed.extend(kept);
            (state.recorded, state.revision) = (BTreeSet::new(), None);
            return Ok(());
        }
        // There is no record of this range: it is made from the services.
        let services = objects.list(&GroupResource::new("", "services"), "")?;
        let mut state = self.state();
        for service in &services {
            let health_check = needs_health_check(service).then(|| health_check_node_port(service));
            let found = node_ports(service).into_iter().chain(health_check);
            state.claimed.extend(found.filter_map(|port| self.in_range(port)));
        }
        (state.recorded, state.revision, state.is_loaded) = (BTreeSet::new(), revision, true);
        Ok(())
    }

    /// Records the ports that are claimed and released, here and by other writes at the moment.
    ///
    /// # Errors
    /// The store fails. The ports are recorded the next time.
    pub(super) async fn sync(&self, objects: &dyn ObjectClient) -> Result<(), ApiError> {
        self.load(objects).await?;
        let _syncing = self.syncing.lock().await;
        loop {
            let (revision, claimed, released, wanted) = {
                let mut state = self.state();
                state.released = state.released.intersection(&state.recorded).copied().collect();
                if state.claimed.is_empty() && state.released.is_empty() {
                    return Ok(());
                }
                let wanted: BTreeSet<u16> = state.allocated().unwrap_or_default();
                (state.revision, state.claimed.clone(), state.released.clone(), wanted)
            };
            let record = port_record::encode(&wanted, &self.range);
            match objects.set_range_allocation(RECORD, record, revision).await? {
                Some(revision) => {
                    let mut state = self.state();
                    state.claimed.retain(|port| !claimed.contains(port));
                    // A port that was released while it was recorded stays released.
                    let released_now: BTreeSet<u16> = state.released.difference(&released).copied().collect();
                    state.released = released_now;
                    (state.recorded, state.revision) = (wanted, Some(revision));
                    return Ok(());
                }
                None => self.read(objects).await?,
            }
        }
    }

    pub(super) fn in_range(&self, port: i64) -> Option<u16> {
        u16::try_from(port).ok().filter(|port| self.range.contains(port))
    }

    /// Returns true if the port is allocated.
    fn is_allocated(&self, port: i64) -> bool {
        self.in_range(port).is_some_and(|port| self.state().is_allocated(port))
    }

    fn allocate(&self, port: i64) -> Result<(), NodePortError> {
        let port = self.in_range(port).ok_or(NodePortError::OutOfRange(*self.range.start(), *self.range.end()))?;
        if self.state().claim(port) { Ok(()) } else { Err(NodePortError::Allocated) }
    }

    /// Allocates any port, preferably one above the part that is reserved for manual allocation.
    fn allocate_next(&self) -> Result<i64, NodePortError> {
        let mut state = self.state();
        let (start, end) = (*self.range.start(), *self.range.end());
        let size = usize::from(end - start) + 1;
        let reserved = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        let dynamic = start + u16::try_from(reserved).unwrap_or(0);
        let parts = [dynamic..=end, start..=dynamic.saturating_sub(1)];
        for part in parts.into_iter().take(if reserved > 0 { 2 } else { 1 }) {
            let length = usize::from(part.end() - part.start()) + 1;
            let offset = usize::try_from(random_bits() % length as u64).unwrap_or(0);
            let free = part.clone().skip(offset).chain(part.take(offset)).find(|port| !state.is_allocated(*port));
            if let Some(port) = free {
                state.claim(port);
                return Ok(i64::from(port));
            }
        }
        Err(NodePortError::Full)
    }

    /// Releases ports, which [`sync`](Self::sync) records. Ignores ports that are not allocated.
    pub(super) fn release(&self, ports: impl IntoIterator<Item = i64>) {
        let mut state = self.state();
        ports.into_iter().filter_map(|port| self.in_range(port)).for_each(|port| state.release(port));
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
    pub(super) allocated: BTreeSet<i64>,
    /// The ports to release once the write is stored.
    pub(super) to_release: Vec<i64>,
}

impl<'a> PortOperation<'a> {
    /// Creates an operation without allocations.
    pub(super) fn new(ports: &'a NodePortAllocator, dry_run: bool) -> Self {
        Self { ports, dry_run, allocated: BTreeSet::new(), to_release: Vec::new() }
    }

    /// Allocates the port that a service requests. Like upstream, a dry run does not check that the port is in the
    /// range.
    pub(super) fn allocate(&mut self, port: i64) -> Result<(), NodePortError> {
        if !self.dry_run {
            self.ports.allocate(port)?;
        } else if self.ports.is_allocated(port) || self.allocated.contains(&port) {
            return Err(NodePortError::Allocated);
        }
        self.allocated.insert(port);
        Ok(())
    }

    /// Allocates any port. Like upstream, a dry run returns numbers beyond the usual range.
    pub(super) fn allocate_next(&mut self) -> Result<i64, NodePortError> {
        let port = if self.dry_run {
            self.allocated.last().map_or(32769, |port| port.saturating_add(1))
        } else {
            self.ports.allocate_next()?
        };
        self.allocated.insert(port);
        Ok(port)
    }

    /// Records the allocated ports. Returns false if another server has one of them.
    ///
    /// # Errors
    /// The store fails.
    pub(super) async fn record(&self, objects: &dyn ObjectClient) -> Result<bool, ApiError> {
        if self.dry_run || self.allocated.is_empty() {
            return Ok(true);
        }
        self.ports.sync(objects).await?;
        let state = self.ports.state();
        Ok(!self.allocated.iter().filter_map(|port| self.ports.in_range(*port)).any(|port| state.lost.contains(&port)))
    }

    /// Reads again which ports other servers have allocated and released. Returns true if they have changed any.
    ///
    /// # Errors
    /// The store fails.
    pub(super) async fn refresh(&self, objects: &dyn ObjectClient) -> Result<bool, ApiError> {
        self.ports.refresh(objects).await
    }

    /// Drops the operation's allocations and releases.
    pub(super) fn reset(&mut self) {
        self.to_release.clear();
        let mut state = self.ports.state();
        let allocated = std::mem::take(&mut self.allocated).into_iter().filter(|_| !self.dry_run);
        for port in allocated.filter_map(|port| self.ports.in_range(port)) {
            // A lost port belongs to another server.
            if !state.lost.remove(&port) {
                state.release(port);
            }
        }
    }

    /// Ends the operation. Returns the allocated ports and the ports to release, for which the caller is responsible
    /// from then on.
    pub(super) fn finish(mut self) -> (Vec<i64>, Vec<i64>) {
        (std::mem::take(&mut self.allocated).into_iter().collect(), std::mem::take(&mut self.to_release))
    }
}

impl Drop for PortOperation<'_> {
    fn drop(&mut self) {
        self.reset();
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
        assert_eq!(ports.state().claimed.len(), 1);
    }

    #[test]
    fn ports_that_another_server_has_recorded_are_lost() {
        let mut state = PortState::default();
        state.update([30000, 30001].into(), 5);
        assert!(!state.claim(30001));
        assert!(state.claim(30002) && state.claim(30003));
        state.release(30000);
        assert_eq!(state.allocated(), Some([30001, 30002, 30003].into()));
        // Another server takes a claimed port and releases a recorded one.
        state.update([30000, 30002].into(), 6);
        assert_eq!((&state.lost, &state.claimed), (&[30002].into(), &[30003].into()));
        assert_eq!(state.allocated(), Some([30002, 30003].into()));
        // A free port may be claimed again before its release is recorded.
        assert!(state.claim(30000));
        assert_eq!(state.allocated(), Some([30000, 30002, 30003].into()));
    }
}
