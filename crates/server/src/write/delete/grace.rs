//! Grace periods: how much time an object has before it goes (upstream: `rest.BeforeDelete`, `markAsDeleting`).

use pintle_registry::Resource;
use pintle_value::Value;
use pintle_value::time::{Duration, Time};

/// How much time an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// It is not deleted gracefully, or not any longer.
    None,
    /// It has a period that this delete does not shorten.
    Pending,
    /// It gets a period, in seconds.
    Starts(i64),
    /// Its period becomes shorter.
    Shrinks { from: i64, to: i64 },
}

impl Grace {
    /// The time of an object of which a delete asks for so many seconds, if it says how many.
    pub(super) fn settle(hub: &Resource, old: &Value, asked: Option<i64>) -> Self {
        let Some(graceful_deletion) = hub.strategy.graceful_deletion() else { return Grace::None };
        // A negative period means the least there is that is not at once.
        let least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
        let asked = asked.map(least);
        if !old.is_terminating() {
            return graceful_deletion.grace_period(old, asked).map_or(Grace::None, Grace::Starts);
        }
        match (old.int_at(&["metadata", "deletionGracePeriodSeconds"]).map(least), asked) {
            (None | Some(0), _) => Grace::None,
            (Some(from), Some(to)) if to < from => Grace::Shrinks { from, to },
            _ => Grace::Pending,
        }
    }

    /// Marks an object as terminating; gives the seconds that it has from now on.
    pub(super) fn mark(self, object: &mut Value, now: Time) -> i64 {
        let running = object.time_at(&["metadata", "deletionTimestamp"]);
        let generation = object.generation();
        if running.is_none() && generation > 0 {
            object.set_at(&["metadata", "generation"], generation + 1);
        }
        let (end, seconds) = match (self, running) {
            (Grace::Starts(seconds), _) => (now.plus(lasting(seconds)), seconds),
            (Grace::Shrinks { from, to }, Some(running)) => {
                let end = running.plus(Duration(lasting(from).0.wrapping_neg())).plus(lasting(to));
                // An end that has passed is now, and who asked for grace gets the least there is.
                if end < now { (now, to.min(1)) } else { (end, to) }
            }
            (_, Some(running)) => (running.min(now), 0),
            (_, None) => (now, 0),
        };
        object.set_at(&["metadata", "deletionTimestamp"], end.rfc3339());
        object.set_at(&["metadata", "deletionGracePeriodSeconds"], seconds);
        seconds
    }
}

/// So many seconds. Go counts nanoseconds, and begins anew where 64 bits of them end.
fn lasting(seconds: i64) -> Duration {
    Duration(seconds.wrapping_mul(1_000_000_000))
}
