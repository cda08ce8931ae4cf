//! The memory that writes may take while they are decoded, validated and encoded. Each write has a [`Budget`]. Beyond a
//! small part, a write takes its memory from a pool that all writes share. Upstream has no such limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_budget::{Budget, Exhausted, Limits, MemoryPool};
use pintle_registry::ApiError;
use tokio::sync::Semaphore;

/// The memory that a write may hold at once, in bytes, whatever its size.
const WRITE_MEMORY: usize = 64 << 20;
/// The additional memory that a write may hold for each byte of its body. An array of small numbers takes twelve times
/// as much as its text.
const MEMORY_PER_BODY_BYTE: usize = 16;
/// The memory that is reserved for each byte of a body before it is decoded. An object takes about ten times as much as
/// its text.
const RESERVED_PER_BODY_BYTE: usize = 10;
/// Maximum size of bodies for which nothing is reserved, in bytes.
const SMALL_BODY: usize = 64 << 10;
/// The processor time that a write may use: four seconds. It is a minute in programs with debug assertions, which are
/// ten times slower.
const PROCESSOR_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 4 });

/// The limits of the memory of all writes, in bytes: the limit without a memory budget of the process, and the smallest
/// limit.
const DEFAULT_LIMIT: usize = 1 << 30;
const MIN_LIMIT: usize = 128 << 20;
/// The share of the process's memory budget for writes: a quarter.
const MEMORY_SHARE: u64 = 4;
/// The unit in which memory is counted, in bytes.
const UNIT: usize = 4096;

/// The memory that writes share.
#[derive(Debug)]
pub(crate) struct WorkMemory {
    left: Semaphore,
    limit: usize,
    is_short: AtomicBool,
}

/// The process is short of memory, so no large write begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortOfMemory;

/// A number of bytes in units, rounded up.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl WorkMemory {
    /// The memory of writes in a process with this memory budget.
    pub(crate) fn new(memory_limit: Option<u64>) -> Arc<Self> {
        let share = |limit| usize::try_from(limit / MEMORY_SHARE).unwrap_or(DEFAULT_LIMIT);
        let limit = memory_limit.map_or(DEFAULT_LIMIT, share).clamp(MIN_LIMIT, DEFAULT_LIMIT);
        let left = Semaphore::new(units(limit) as usize);
        Arc::new(Self { left, limit, is_short: AtomicBool::new(false) })
    }

    /// The bytes that writes have taken.
    pub(crate) fn taken(&self) -> usize {
        self.limit.saturating_sub(self.left.available_permits() * UNIT)
    }

    /// Sets whether the process is short of memory.
    pub(crate) fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// The budget of a write.
    pub(crate) fn budget(self: &Arc<Self>) -> Budget {
        Budget::new(Limits { memory: WRITE_MEMORY, processor_time: PROCESSOR_TIME }, Some(self.clone()))
    }

    /// Increases the budget of a write by the memory for its body, and waits until there is memory to decode the body.
    ///
    /// # Errors
    /// The body is large and the process is short of memory.
    pub(crate) async fn reserve(&self, budget: &Budget, body: usize) -> Result<(), ShortOfMemory> {
        budget.allow_memory(body * MEMORY_PER_BODY_BYTE);
        if body <= SMALL_BODY {
            return Ok(());
        }
        if self.is_short.load(Ordering::Relaxed) {
            return Err(ShortOfMemory);
        }
        let reserved = units((body * RESERVED_PER_BODY_BYTE).min(self.limit));
        if let Ok(permit) = self.left.acquire_many(reserved).await {
            permit.forget();
            budget.add_taken(reserved as usize * UNIT);
        }
        Ok(())
    }
}

/// The error of a write that takes too long (upstream: `finisher.FinishRequest`). The reason is the reason of Go's
/// context.
pub(crate) fn write_timeout() -> ApiError {
    let message = "request did not complete within requested timeout - context deadline exceeded".to_owned();
    ApiError::Timeout { message, retry_after: 0 }
}

/// The error of a write whose budget is exhausted.
pub(crate) fn budget_error(why: Exhausted) -> ApiError {
    match why {
        Exhausted::Memory(_) | Exhausted::ProcessorTime(_) => {
            ApiError::TooLarge(format!("Request entity too large: {why}"))
        }
        Exhausted::Pool => short_of_memory(),
        Exhausted::Deadline | Exhausted::Disconnected => write_timeout(),
    }
}

/// The error of a large write for which there is no memory at the moment.
pub(crate) fn short_of_memory() -> ApiError {
    let message = "the server is short of memory and accepts no large requests".to_owned();
    ApiError::ShortOfMemory { message, retry_after: 1 }
}

impl MemoryPool for WorkMemory {
    fn take(&self, bytes: usize) -> bool {
        if self.is_short.load(Ordering::Relaxed) {
            return false;
        }
        self.left.try_acquire_many(units(bytes)).map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.add_permits(units(bytes) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn large_bodies_wait_for_memory_and_small_ones_do_not() {
        let memory = WorkMemory::new(Some(0));
        let mut context = Context::from_waker(Waker::noop());
        let mut reserve = |budget: &Budget, body| pin!(memory.reserve(budget, body)).as_mut().poll(&mut context);
        let large = MIN_LIMIT / RESERVED_PER_BODY_BYTE;
        let (first, second) = (memory.budget(), memory.budget());
        assert!(reserve(&first, large).is_ready());
        assert!(reserve(&second, SMALL_BODY + 1).is_pending() && reserve(&second, SMALL_BODY).is_ready());
        assert!(memory.taken() >= large * RESERVED_PER_BODY_BYTE - UNIT);
        drop(first);
        assert!(reserve(&second, SMALL_BODY + 1).is_ready());
        memory.set_short(true);
        assert!(matches!(reserve(&second, SMALL_BODY + 1), Poll::Ready(Err(ShortOfMemory))));
        assert!(reserve(&second, SMALL_BODY).is_ready() && !memory.take(1));
        drop(second);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn the_memory_of_writes_is_a_share_of_the_memory_budget_within_bounds() {
        let limits = [None, Some(0), Some(1 << 30), Some(u64::MAX)].map(|limit| WorkMemory::new(limit).limit);
        assert_eq!(limits, [DEFAULT_LIMIT, MIN_LIMIT, 256 << 20, DEFAULT_LIMIT]);
    }
}
