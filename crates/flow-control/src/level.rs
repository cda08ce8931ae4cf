//! A priority level: its queue set, its demand for seats, and the wakers of the requests that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use hashbrown::HashMap;
use pintle_locks::{Mutex, MutexGuard};
use pintle_value::Str;
use tokio::sync::Notify;

use crate::Moment;
use crate::demand::SeatDemand;
use crate::metrics::LevelGauges;
use crate::priority_level::{PriorityLevel, SeatLimits};
use crate::queue_set::{LimitResponse, QueueSet, RequestId};
use crate::retry_after::RetryAfter;

/// The time at which the next request that lingers gives its seats to a request that waits.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The time in nanoseconds, or the maximum if there is none.
    due: AtomicU64,
    pub(crate) changed: Notify,
}

impl Schedule {
    const NEVER: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self { due: AtomicU64::new(Self::NEVER), changed: Notify::new() }
    }

    fn bring_forward(&self, due: Moment) {
        let due = due.nanoseconds();
        if self.due.fetch_min(due, Ordering::Relaxed) > due {
            self.changed.notify_one();
        }
    }

    pub(crate) fn due(&self) -> Option<Moment> {
        let due = self.due.load(Ordering::Relaxed);
        (due != Self::NEVER).then_some(Moment::from_nanoseconds(due))
    }

    /// Forgets the time. The levels set it again when they are updated.
    pub(crate) fn reset(&self) {
        self.due.store(Self::NEVER, Ordering::Relaxed);
    }
}

/// A priority level.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) name: Str,
    state: Mutex<LevelState>,
    retry_after: Mutex<RetryAfter>,
    schedule: Arc<Schedule>,
}

#[derive(Debug)]
pub(crate) struct LevelState {
    pub(crate) queues: QueueSet,
    pub(crate) limit_response: LimitResponse,
    /// True if the object of the level was deleted. The level is removed when it has no requests.
    pub(crate) is_quiescing: bool,
    /// True if the level is no longer a part of the configuration. No request may begin.
    pub(crate) is_removed: bool,
    pub(crate) limits: SeatLimits,
    pub(crate) demand: SeatDemand,
    /// The seats that the level should have, from the last adjustment.
    pub(crate) target: f64,
    pub(crate) gauges: LevelGauges,
    pub(crate) wakers: HashMap<RequestId, Waker>,
}

impl Level {
    /// A level without requests.
    pub(crate) fn new(
        spec: &PriorityLevel,
        limits: SeatLimits,
        charges_actual_cost: bool,
        schedule: Arc<Schedule>,
        now: Moment,
    ) -> Self {
        let mut queues = QueueSet::new(spec.limit_response, limits.initial(), now);
        queues.charge_actual_cost(charges_actual_cost);
        queues.keep_seats_free(charges_actual_cost);
        let state = LevelState {
            queues,
            limit_response: spec.limit_response,
            is_quiescing: false,
            is_removed: false,
            limits,
            demand: SeatDemand::default(),
            target: 0.0,
            gauges: LevelGauges::new(now),
            wakers: HashMap::new(),
        };
        Self { name: spec.name.clone(), state: Mutex::new(state), retry_after: Mutex::default(), schedule }
    }

    /// Runs an operation on the state, then records the state in the gauges and wakes the requests that it has
    /// dispatched.
    pub(crate) fn update<T>(&self, now: Moment, operation: impl FnOnce(&mut LevelState) -> T) -> T {
        let mut state = self.state.lock();
        let result = operation(&mut state);
        state.record(now);
        if state.queues.waiting() > 0 || !state.wakers.is_empty() {
            self.wake(state);
        }
        result
    }

    /// Wakes the requests that were dispatched, and schedules the next release of seats.
    #[inline(never)]
    fn wake(&self, mut state: MutexGuard<'_, LevelState>) {
        let LevelState { queues, wakers, .. } = &mut *state;
        let dispatched: Vec<_> = queues.take_dispatched().filter_map(|id| wakers.remove(&id)).collect();
        let due = if queues.waiting() > 0 { queues.next_release() } else { None };
        drop(state);
        dispatched.into_iter().for_each(Waker::wake);
        if let Some(due) = due {
            self.schedule.bring_forward(due);
        }
    }

    /// Reads the state.
    pub(crate) fn read<T>(&self, operation: impl FnOnce(&LevelState) -> T) -> T {
        operation(&self.state.lock())
    }

    /// Changes a part of the state that no gauge shows.
    pub(crate) fn write<T>(&self, operation: impl FnOnce(&mut LevelState) -> T) -> T {
        operation(&mut self.state.lock())
    }

    /// Removes the level unless it has requests. Returns whether it is removed.
    pub(crate) fn remove_if_idle(&self) -> bool {
        self.write(|state| {
            state.is_removed = state.queues.is_idle();
            state.is_removed
        })
    }

    /// Counts a rejected request. Returns the value of `Retry-After`.
    pub(crate) fn record_rejected(&self, unix_seconds: u64) -> u64 {
        self.retry_after.lock().record(unix_seconds)
    }
}

impl LevelState {
    /// Records the state in the gauges.
    fn record(&mut self, now: Moment) {
        let Self { queues, gauges, wakers, .. } = self;
        gauges.waiting.set(queues.waiting(), now);
        gauges.executing.set(queues.executing(), now);
        gauges.seats.set(queues.seats_in_use(), now);
        gauges.demand.set(queues.seat_demand(), now);
        if wakers.is_empty() {
            queues.clear_dispatched();
        }
    }

    /// Sets the limit of seats and the limit response.
    pub(crate) fn apply_limit(&mut self, limit: usize, denominator: usize, now: Moment) {
        self.queues.configure(now, self.limit_response, limit);
        let capacity = self.queues.waiting_capacity();
        self.gauges.waiting.set_limit(capacity, now);
        self.gauges.executing.set_limit(denominator, now);
        self.gauges.seats.set_limit(denominator, now);
        self.gauges.demand.set_limit(denominator, now);
    }

    /// True if the level may be removed.
    pub(crate) fn is_useless(&self) -> bool {
        self.is_quiescing && self.queues.is_idle()
    }
}
