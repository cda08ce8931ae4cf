//! The budget of a request. It limits the memory that the work may hold at once, the processor time, and the time until
//! its end. A request enters its budget on the thread that works for it. Code that may need much asks the budget of its
//! thread. Without a budget, work is not limited.
//!
//! Code can ask in two ways. [`charge`] and [`step`] are for work that belongs to the request. When the budget is
//! exhausted, it stays exhausted and all later calls fail. Loops that cannot return an error just end. **Invariant:** a
//! result that may have been cut short is used only after [`check`]. [`try_charge`] is for work that may fail alone,
//! such as the evaluation of an expression.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_budget::{Budget, Exhausted, Limits, charge, check};
//!
//! let budget = Budget::new(Limits { memory: 1 << 20, processor_time: Duration::from_secs(1) }, None);
//! let entered = budget.enter();
//! assert_eq!(charge(1000), Ok(()));
//! assert_eq!(charge(2 << 20), Err(Exhausted::Memory(1 << 20)));
//! // The budget stays exhausted, so the result of the work is not used.
//! assert_eq!(check(), Err(Exhausted::Memory(1 << 20)));
//!
//! // Work outside of a budget is not limited.
//! drop(entered);
//! assert_eq!(charge(2 << 20), Ok(()));
//! ```

mod thread;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use thread::{
    Entered, KeptMemory, MemoryMark, charge, check, limit_memory, mark, spend, step, thread_time, try_charge, unlimited,
};

/// The reason why work has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The work would hold more memory than the request may. The field is the limit in bytes.
    #[error("it needs more than {} MiB of memory", .0 >> 20)]
    Memory(usize),
    /// At the moment the process has no memory for the request beside other requests.
    #[error("other requests use the memory that it needs")]
    Pool,
    /// The work has used all the processor time of the request.
    #[error("it needs more than {} ms of processor time", .0.as_millis())]
    ProcessorTime(Duration),
    /// The deadline of the request has passed.
    #[error("its time is over")]
    Deadline,
    /// Nobody waits for the answer any more.
    #[error("its client has disconnected")]
    Disconnected,
}

/// The pool of the memory that all requests together may hold. Budgets take their memory from it.
pub trait MemoryPool: fmt::Debug + Send + Sync {
    /// Takes bytes. Returns false if the pool does not have them.
    fn take(&self, bytes: usize) -> bool;
    /// Returns bytes that were taken.
    fn give_back(&self, bytes: usize);
}

/// The limits of a budget.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The memory that the work may hold at once, in bytes.
    pub memory: usize,
    /// The processor time that the work may use.
    pub processor_time: Duration,
}

/// A budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

/// The number of bytes that a budget takes from the pool at a time. A request that needs less takes nothing.
const POOL_CHUNK: usize = 2 << 20;

/// The state of a budget.
#[derive(Debug)]
struct Shared {
    pool: Option<Arc<dyn MemoryPool>>,
    /// The maximum memory that the work may hold, in bytes.
    memory: AtomicUsize,
    /// The bytes that the work may hold without asking the pool again. They include the first bytes, which do not come
    /// from the pool.
    granted: AtomicUsize,
    /// The bytes that were taken from the pool.
    taken: AtomicUsize,
    /// The bytes that the work holds, as long as no thread works for the request.
    held: AtomicUsize,
    max_time: Duration,
    /// The processor time that was used, in nanoseconds.
    used_time: AtomicU64,
    deadline: OnceLock<Instant>,
    /// The number of an [`Exhausted`], or 0.
    exhausted: AtomicU8,
    is_disconnected: AtomicBool,
}

impl Budget {
    /// A budget with these limits, which takes memory from a pool if there is one.
    #[must_use]
    pub fn new(limits: Limits, pool: Option<Arc<dyn MemoryPool>>) -> Self {
        let granted = if pool.is_some() { POOL_CHUNK.min(limits.memory) } else { limits.memory };
        Self(Arc::new(Shared {
            pool,
            memory: AtomicUsize::new(limits.memory),
            granted: AtomicUsize::new(granted),
            taken: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            max_time: limits.processor_time,
            used_time: AtomicU64::new(0),
            deadline: OnceLock::new(),
            exhausted: AtomicU8::new(0),
            is_disconnected: AtomicBool::new(false),
        }))
    }

    /// Sets the time by which the work has to end. Only the first call counts.
    pub fn set_deadline(&self, deadline: Instant) {
        let _ = self.0.deadline.set(deadline);
    }

    /// Lets the work hold this many bytes more at once, because a large request needs more.
    pub fn allow_memory(&self, bytes: usize) {
        self.0.memory.fetch_add(bytes, Ordering::Relaxed);
        if self.0.pool.is_none() {
            self.0.granted.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Tells the budget that this many bytes were taken from the pool for it. The budget gives them back.
    pub fn add_taken(&self, bytes: usize) {
        self.0.taken.fetch_add(bytes, Ordering::Relaxed);
        self.0.granted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the work in progress, because nobody waits for it. Short work does not notice this, and ends by itself.
    pub fn disconnect(&self) {
        self.0.is_disconnected.store(true, Ordering::Relaxed);
    }

    /// The reason why the budget is exhausted, if it is.
    #[must_use]
    pub fn exhausted(&self) -> Option<Exhausted> {
        self.0.exhausted()
    }

    /// Enters the budget on this thread, until the guard is dropped.
    #[must_use]
    pub fn enter(&self) -> Entered {
        thread::enter(Some(self.0.clone()))
    }
}

impl Shared {
    fn exhausted(&self) -> Option<Exhausted> {
        Some(match self.exhausted.load(Ordering::Relaxed) {
            1 => Exhausted::Memory(self.memory.load(Ordering::Relaxed)),
            2 => Exhausted::Pool,
            3 => Exhausted::ProcessorTime(self.max_time),
            4 => Exhausted::Deadline,
            5 => Exhausted::Disconnected,
            _ => return None,
        })
    }

    fn set_exhausted(&self, why: Exhausted) {
        let number = match why {
            Exhausted::Memory(_) => 1,
            Exhausted::Pool => 2,
            Exhausted::ProcessorTime(_) => 3,
            Exhausted::Deadline => 4,
            Exhausted::Disconnected => 5,
        };
        // Only the first reason counts.
        let _ = self.exhausted.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Makes room for the work to hold this many bytes. Returns the number of bytes that it may hold now.
    fn grow(&self, held: usize) -> Result<usize, Exhausted> {
        let max = self.memory.load(Ordering::Relaxed);
        if held > max {
            return Err(Exhausted::Memory(max));
        }
        let granted = self.granted.load(Ordering::Relaxed);
        let missing = held.saturating_sub(granted).next_multiple_of(POOL_CHUNK);
        if missing == 0 {
            return Ok(granted);
        }
        if !self.pool.as_ref().is_none_or(|pool| pool.take(missing)) {
            return Err(Exhausted::Pool);
        }
        self.taken.fetch_add(missing, Ordering::Relaxed);
        Ok(self.granted.fetch_add(missing, Ordering::Relaxed).saturating_add(missing))
    }

    /// Records used processor time. Fails if the work has to end.
    fn use_time(&self, time: Duration) -> Result<(), Exhausted> {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let used = self.used_time.fetch_add(time, Ordering::Relaxed).saturating_add(time);
        if u128::from(used) > self.max_time.as_nanos() {
            return Err(Exhausted::ProcessorTime(self.max_time));
        }
        if self.deadline.get().is_some_and(|deadline| *deadline <= Instant::now()) {
            return Err(Exhausted::Deadline);
        }
        if self.is_disconnected.load(Ordering::Relaxed) { Err(Exhausted::Disconnected) } else { Ok(()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.give_back(*self.taken.get_mut());
        }
    }
}
