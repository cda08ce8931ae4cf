//! Limits how many bytes of request bodies are held in memory at the same time. Only bytes that have arrived count, so
//! a client that announces a large body and does not send it takes nothing from others. Upstream has no such limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limit without a memory budget.
const MAX_LIMIT: usize = 256 << 20;
/// The limit with the smallest memory budget: enough for five bodies of the largest size.
const MIN_LIMIT: usize = 16 << 20;
/// The share of a memory budget that bodies may take. Decoded objects are about ten times as large as their bodies.
const MEMORY_SHARE: u64 = 32;
/// The part of a body, in bytes, that may also use the bytes that are reserved for small bodies.
const SMALL_BODY: usize = 64 << 10;
/// The share of the limit that is reserved for small bodies, so that slow large bodies do not stop them.
const RESERVED_SHARE: usize = 8;

/// The limit in bytes for a server with a memory budget.
#[must_use]
pub(crate) fn default_limit(memory_limit: Option<u64>) -> usize {
    let share = memory_limit.map_or(MAX_LIMIT, |limit| usize::try_from(limit / MEMORY_SHARE).unwrap_or(MAX_LIMIT));
    share.clamp(MIN_LIMIT, MAX_LIMIT)
}

/// The bodies that are held at present.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    limit: usize,
    held: AtomicUsize,
}

/// There is no room for more bytes of bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooManyBytes;

/// The bytes of one body, which are held until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBody {
    budget: Arc<BodyBudget>,
    bytes: usize,
}

impl BodyBudget {
    /// Creates a budget with this limit in bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0) })
    }

    /// The bytes that are held at present.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Begins a body of which nothing has arrived yet.
    pub(crate) fn begin(self: &Arc<Self>) -> HeldBody {
        HeldBody { budget: self.clone(), bytes: 0 }
    }
}

impl HeldBody {
    /// Counts bytes that have arrived.
    ///
    /// # Errors
    /// There is no room for the bytes. The body can only be refused. If bodies waited for room while they hold some,
    /// all of them could wait for each other.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), TooManyBytes> {
        let BodyBudget { limit, held } = &*self.budget;
        let is_small = self.bytes.saturating_add(bytes) <= SMALL_BODY;
        let limit = if is_small { *limit } else { limit - limit / RESERVED_SHARE };
        let add = |held: usize| held.checked_add(bytes).filter(|held| *held <= limit);
        held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| TooManyBytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let budget = BodyBudget::new(8 << 20);
        let mut large = budget.begin();
        for _ in 0..7 {
            assert!(large.add(1 << 20).is_ok());
        }
        let mut other = budget.begin();
        assert!(large.add(1).is_err() && other.add(SMALL_BODY + 1).is_err());
        let mut small: Vec<HeldBody> = (0..16).map(|_| budget.begin()).collect();
        assert!(small.iter_mut().all(|body| body.add(SMALL_BODY).is_ok()));
        assert!(other.add(1).is_err(), "nothing is left");
        small.pop();
        assert!(other.add(1).is_ok() && other.add(SMALL_BODY).is_err());
        drop((large, small));
        assert!(other.add(SMALL_BODY).is_ok());
        drop(other);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn the_limit_is_a_share_of_the_memory_budget_within_bounds() {
        let limits = [None, Some(0), Some(2 << 30), Some(u64::MAX)].map(default_limit);
        assert_eq!(limits, [MAX_LIMIT, MIN_LIMIT, 64 << 20, MAX_LIMIT]);
    }
}
