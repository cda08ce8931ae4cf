//! The budget that the work of a thread is charged to.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Exhausted, Shared};

/// The number of steps between two looks at the clocks. A step takes some ten nanoseconds, so the looks are less than a
/// millisecond apart.
const STEPS_BETWEEN_LOOKS: u32 = 4096;

/// The budget of this thread. While a shared budget is entered, these numbers replace the numbers of the budget.
struct Current {
    budget: RefCell<Option<Arc<Shared>>>,
    /// The steps until the next look at the clocks. The number stays 0 once the budget is exhausted.
    steps: Cell<u32>,
    /// The bytes that the work holds, and the bytes that it keeps beside them ([`KeptMemory`]).
    held: Cell<usize>,
    kept: Cell<usize>,
    /// The bytes for which the thread need not ask the budget again.
    granted: Cell<usize>,
    /// The bytes that the present part of the work may hold ([`limit_memory`]).
    limit: Cell<usize>,
    /// The processor time of the thread at the last look.
    seen_time: Cell<Option<Duration>>,
}

thread_local! {
    static CURRENT: Current = const {
        Current {
            budget: RefCell::new(None),
            steps: Cell::new(STEPS_BETWEEN_LOOKS),
            held: Cell::new(0),
            kept: Cell::new(0),
            granted: Cell::new(usize::MAX),
            limit: Cell::new(usize::MAX),
            seen_time: Cell::new(None),
        }
    };
}

impl Current {
    /// Looks at the clocks and at the state of the budget.
    #[cold]
    fn look(&self) -> Result<(), Exhausted> {
        let budget = self.budget.borrow();
        let Some(budget) = &*budget else {
            self.steps.set(STEPS_BETWEEN_LOOKS);
            return Ok(());
        };
        let outcome = match budget.exhausted() {
            Some(why) => Err(why),
            None => {
                let now = thread_time();
                // The time between entering the budget and the first look is unknown, but short.
                let before = self.seen_time.replace(Some(now)).unwrap_or(now);
                budget.use_time(now.saturating_sub(before))
            }
        };
        match outcome {
            Ok(()) => self.steps.set(STEPS_BETWEEN_LOOKS),
            Err(why) => self.exhaust(budget, why),
        }
        outcome
    }

    fn exhaust(&self, budget: &Shared, why: Exhausted) {
        budget.set_exhausted(why);
        self.steps.set(0);
    }

    fn has_room_for(&self, held: usize) -> bool {
        held.saturating_add(self.kept.get()) <= self.granted.get().min(self.limit.get())
    }

    /// Makes room for work that would hold this many bytes.
    #[cold]
    fn grow(&self, held: usize) -> Result<(), Exhausted> {
        let needed = held.saturating_add(self.kept.get());
        if needed > self.limit.get() {
            return Err(Exhausted::Memory(self.limit.get()));
        }
        if let Some(budget) = &*self.budget.borrow() {
            self.granted.set(budget.grow(needed)?);
        }
        Ok(())
    }
}

/// The processor time of this thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// A budget is entered while this exists.
pub struct Entered {
    outer: Option<Arc<Shared>>,
    steps: u32,
    held: usize,
    kept: usize,
    granted: usize,
    limit: usize,
    seen_time: Option<Duration>,
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

pub(crate) fn enter(budget: Option<Arc<Shared>>) -> Entered {
    CURRENT.with(|current| {
        let is_exhausted = budget.as_ref().is_some_and(|budget| budget.exhausted().is_some());
        let steps = if is_exhausted { 0 } else { STEPS_BETWEEN_LOOKS };
        let (held, granted) = budget.as_ref().map_or((0, usize::MAX), |budget| {
            (budget.held.load(Ordering::Relaxed), budget.granted.load(Ordering::Relaxed))
        });
        Entered {
            outer: current.budget.replace(budget),
            steps: current.steps.replace(steps),
            held: current.held.replace(held),
            kept: current.kept.replace(0),
            granted: current.granted.replace(granted),
            limit: current.limit.replace(usize::MAX),
            seen_time: current.seen_time.take(),
        }
    })
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| {
            if let Some(budget) = current.budget.replace(self.outer.take()) {
                budget.held.store(current.held.get(), Ordering::Relaxed);
            }
            current.steps.set(self.steps);
            current.held.set(self.held);
            current.kept.set(self.kept);
            current.granted.set(self.granted);
            current.limit.set(self.limit);
            current.seen_time.set(self.seen_time);
        });
    }
}

/// Runs work of the server itself that belongs to no request, such as giving back what a failed request has reserved.
/// Such work runs to its end, whatever the state of the budget around it.
pub async fn unlimited<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _entered = enter(None);
        work.as_mut().poll(context)
    })
    .await
}

/// Counts one step of work. A step takes some ten nanoseconds.
///
/// # Errors
/// The budget of the thread is exhausted.
#[inline]
pub fn step() -> Result<(), Exhausted> {
    spend(1)
}

/// Counts this many steps of work.
///
/// # Errors
/// The budget of the thread is exhausted.
#[inline]
pub fn spend(steps: usize) -> Result<(), Exhausted> {
    CURRENT.with(|current| match (current.steps.get() as usize).checked_sub(steps) {
        Some(left) if left > 0 => {
            current.steps.set(left as u32);
            Ok(())
        }
        _ => current.look(),
    })
}

/// Fails if the budget of the thread is exhausted already. Does not look at the clocks.
///
/// # Errors
/// The budget of the thread is exhausted.
pub fn check() -> Result<(), Exhausted> {
    CURRENT.with(|current| match &*current.budget.borrow() {
        Some(budget) => budget.exhausted().map_or(Ok(()), Err),
        None => Ok(()),
    })
}

/// Charges memory that the work holds from now on, in bytes.
///
/// # Errors
/// The budget of the thread is exhausted.
#[inline]
pub fn charge(bytes: usize) -> Result<(), Exhausted> {
    CURRENT.with(|current| {
        let held = current.held.get().saturating_add(bytes);
        current.held.set(held);
        if current.has_room_for(held) {
            return Ok(());
        }
        current.grow(held).inspect_err(|why| {
            if let Some(budget) = &*current.budget.borrow() {
                current.exhaust(budget, *why);
            }
        })
    })
}

/// Charges memory if there is room for it. If there is no room, only the caller fails, not the whole request.
///
/// # Errors
/// There is no room.
#[inline]
pub fn try_charge(bytes: usize) -> Result<(), Exhausted> {
    CURRENT.with(|current| {
        let held = current.held.get().saturating_add(bytes);
        if !current.has_room_for(held) {
            current.grow(held)?;
        }
        current.held.set(held);
        Ok(())
    })
}

/// The memory that the work held at some moment.
#[derive(Clone, Copy, Debug)]
pub struct MemoryMark(usize);

/// The memory that the work holds now.
#[inline]
#[must_use]
pub fn mark() -> MemoryMark {
    MemoryMark(CURRENT.with(|current| current.held.get()))
}

impl MemoryMark {
    /// The bytes that were charged since the mark.
    #[inline]
    #[must_use]
    pub fn charged(self) -> usize {
        mark().0.saturating_sub(self.0)
    }

    /// Releases the bytes that were charged since the mark, except for this many bytes.
    #[inline]
    pub fn release_all_but(self, bytes: usize) {
        CURRENT.with(|current| current.held.set(current.held.get().min(self.0.saturating_add(bytes))));
    }
}

/// Memory that is held until this is dropped, whatever the marks around it release. It belongs to one thread, although
/// threads can share the structure that contains it.
#[derive(Debug, Default)]
pub struct KeptMemory(AtomicUsize);

impl KeptMemory {
    /// Keeps this many bytes more, which were charged before.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        CURRENT.with(|current| current.kept.set(current.kept.get().saturating_add(bytes)));
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        let bytes = *self.0.get_mut();
        CURRENT.with(|current| current.kept.set(current.kept.get().saturating_sub(bytes)));
    }
}

/// Runs a part of the work that may hold at most this many bytes more than the thread holds now. Its charges are
/// released when it ends.
pub fn limit_memory<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    /// Restores the limit and the charges of the work around it, after a panic as well.
    struct Outer {
        limit: usize,
        mark: MemoryMark,
    }
    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.with(|current| current.limit.set(self.limit));
            self.mark.release_all_but(0);
        }
    }
    let mark = mark();
    let _outer = CURRENT.with(|current| {
        let present = current.held.get().saturating_add(current.kept.get());
        let limit = current.limit.get();
        current.limit.set(limit.min(present.saturating_add(bytes)));
        Outer { limit, mark }
    });
    work()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{Budget, Limits, MemoryPool};

    fn limits(memory: usize) -> Limits {
        Limits { memory, processor_time: Duration::from_secs(3600) }
    }

    #[test]
    fn without_a_budget_work_is_not_limited() {
        assert!((0..100_000).all(|_| step().is_ok() && charge(1 << 40).is_ok()));
        assert!(spend(usize::MAX).is_ok() && check().is_ok());
    }

    #[test]
    fn an_exhausted_budget_stays_exhausted() {
        let budget = Budget::new(limits(100), None);
        {
            let _entered = budget.enter();
            assert!(charge(100).is_ok() && check().is_ok());
            assert_eq!(charge(1), Err(Exhausted::Memory(100)));
            assert!(step().is_err() && check().is_err());
        }
        assert_eq!(budget.exhausted(), Some(Exhausted::Memory(100)));
        assert!(step().is_ok(), "the budget was left");
        let _entered = budget.enter();
        assert!(step().is_err());
    }

    #[test]
    fn what_may_fail_alone_does_not_exhaust_the_budget() {
        let budget = Budget::new(limits(100), None);
        let _entered = budget.enter();
        let before = mark();
        assert!(try_charge(60).is_ok() && try_charge(60).is_err() && step().is_ok());
        assert_eq!(before.charged(), 60);
        before.release_all_but(10);
        assert!(try_charge(90).is_ok() && try_charge(1).is_err() && check().is_ok());
    }

    #[test]
    fn a_part_of_the_work_has_a_limit_of_its_own_and_releases_what_it_held() {
        let part = || limit_memory(50, || (try_charge(50).is_ok(), try_charge(1)));
        assert_eq!(part(), (true, Err(Exhausted::Memory(mark().0 + 50))));
        assert!(part().0 && charge(1000).is_ok());
        let kept = KeptMemory::default();
        limit_memory(50, || {
            limit_memory(100, || try_charge(40)).expect("there is room");
            kept.add(40);
            assert!(try_charge(11).is_err() && try_charge(10).is_ok());
        });
        limit_memory(50, || assert!(try_charge(51).is_err() && try_charge(50).is_ok()));
        drop(kept);
        assert_eq!(CURRENT.with(|current| current.kept.get()), 0);
    }

    #[test]
    fn work_ends_at_its_deadline_or_when_its_time_is_used_or_its_client_has_gone() {
        let run = |budget: &Budget| {
            let _entered = budget.enter();
            (0_u64..).find_map(|_| step().err())
        };
        let late = Budget::new(limits(1), None);
        late.set_deadline(Instant::now());
        assert_eq!(run(&late), Some(Exhausted::Deadline));
        let time = Duration::from_millis(2);
        let short = Limits { processor_time: time, ..limits(1) };
        assert_eq!(run(&Budget::new(short, None)), Some(Exhausted::ProcessorTime(time)));
        let budget = Budget::new(limits(1), None);
        budget.disconnect();
        assert_eq!(run(&budget), Some(Exhausted::Disconnected));
    }

    #[test]
    fn work_of_the_server_goes_on_with_an_exhausted_budget() {
        let budget = Budget::new(limits(0), None);
        let _entered = budget.enter();
        assert!(charge(1).is_err());
        let mut work = pin!(unlimited(async { charge(1).is_ok() && step().is_ok() && check().is_ok() }));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(work.as_mut().poll(&mut context), std::task::Poll::Ready(true));
        assert!(step().is_err());
    }

    #[derive(Debug)]
    struct Pool(AtomicUsize);

    impl MemoryPool for Pool {
        fn take(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn memory_comes_from_the_pool_and_goes_back_to_it() {
        const MIB: usize = 1 << 20;
        let pool = Arc::new(Pool(AtomicUsize::new(8 * MIB)));
        let left = || pool.0.load(Ordering::Relaxed) / MIB;
        let (first, second) =
            (Budget::new(limits(64 * MIB), Some(pool.clone())), { Budget::new(limits(64 * MIB), Some(pool.clone())) });
        {
            let _entered = first.enter();
            assert!(charge(2 * MIB).is_ok() && left() == 8, "a small request takes nothing");
            assert!(charge(1).is_ok() && left() == 6);
            assert!(charge(5 * MIB).is_ok() && left() == 2);
            assert!(pool.take(2 * MIB));
            first.add_taken(2 * MIB);
            assert!(charge(2 * MIB).is_ok() && left() == 0, "what was taken before is used");
            mark().release_all_but(0);
            pool.give_back(2 * MIB);
        }
        {
            let _entered = second.enter();
            assert!(charge(4 * MIB).is_ok() && left() == 0);
            assert_eq!(charge(1), Err(Exhausted::Pool));
        }
        drop(first);
        drop(second);
        assert_eq!(left(), 10);
    }
}
