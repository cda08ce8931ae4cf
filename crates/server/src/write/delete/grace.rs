//! Grace periods: the time between the delete of an object and its removal (upstream: `rest.BeforeDelete`,
//! `markAsDeleting`).

use pintle_registry::Resource;
use pintle_value::Value;
use pintle_value::time::{Duration, Time};

/// The change of an object's grace period by a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GracePeriod {
    /// The object is not deleted gracefully, or its grace period has ended.
    None,
    /// The object has a grace period, which this delete does not shorten.
    Unchanged,
    /// A grace period begins, in seconds.
    Start(i64),
    /// The grace period is shortened, in seconds.
    Shorten { from: i64, to: i64 },
}

impl GracePeriod {
    /// Determines the grace period of an object for a delete with these `gracePeriodSeconds`.
    pub(super) fn decide(hub: &Resource, old: &Value, requested: Option<i64>) -> Self {
        let Some(graceful_deletion) = hub.strategy.graceful_deletion() else { return GracePeriod::None };
        // A negative grace period means the minimum.
        let at_least_minimum = |seconds: i64| if seconds < 0 { 1 } else { seconds };
        let requested = requested.map(at_least_minimum);
        if !old.is_terminating() {
            return graceful_deletion.grace_period(old, requested).map_or(GracePeriod::None, GracePeriod::Start);
        }
        match (old.int_at(&["metadata", "deletionGracePeriodSeconds"]).map(at_least_minimum), requested) {
            (None | Some(0), _) => GracePeriod::None,
            (Some(from), Some(to)) if to < from => GracePeriod::Shorten { from, to },
            _ => GracePeriod::Unchanged,
        }
    }

    /// Marks an object as terminating. Returns the grace period in seconds.
    pub(super) fn mark_terminating(self, object: &mut Value, now: Time) -> i64 {
        let old_deadline = object.time_at(&["metadata", "deletionTimestamp"]);
        let generation = object.generation();
        if old_deadline.is_none() && generation > 0 {
            object.set_at(&["metadata", "generation"], generation + 1);
        }
        let (deadline, seconds) = match (self, old_deadline) {
            (GracePeriod::Start(seconds), _) => (now.plus(wrapping_seconds(seconds)), seconds),
            (GracePeriod::Shorten { from, to }, Some(old_deadline)) => {
                let deadline =
                    old_deadline.plus(Duration(wrapping_seconds(from).0.wrapping_neg())).plus(wrapping_seconds(to));
                // A deadline in the past becomes now. If the client requested a grace period, it becomes the minimum.
                if deadline < now { (now, to.min(1)) } else { (deadline, to) }
            }
            (_, Some(old_deadline)) => (old_deadline.min(now), 0),
            (_, None) => (now, 0),
        };
        object.set_at(&["metadata", "deletionTimestamp"], deadline.rfc3339());
        object.set_at(&["metadata", "deletionGracePeriodSeconds"], seconds);
        seconds
    }
}

/// A duration in seconds. As in Go, its 64 bits of nanoseconds wrap around.
fn wrapping_seconds(seconds: i64) -> Duration {
    Duration(seconds.wrapping_mul(1_000_000_000))
}
