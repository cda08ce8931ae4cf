//! The work that a request is expected to be (upstream: `util/flowcontrol/request`). The caller passes the numbers of
//! objects and watches.
//!
//! - `list`: lists and the initial events of watches, by the size of the objects.
//! - `mutating`: writes, by the number of watches.

mod list;
mod mutating;

use std::time::Duration;

pub(crate) use list::maximum_list_estimate;
pub use list::{ListOptions, ObjectStats, list_estimate, watch_estimate};
pub(crate) use mutating::body_seats;
pub use mutating::mutating_estimate;

/// The seats that a request occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// The seats while the request is executed.
    pub initial_seats: u64,
    /// The seats after the request was executed.
    pub final_seats: u64,
    /// The time after the execution in which the seats are not given to other requests. The client does not wait for
    /// its end.
    pub additional_latency: Duration,
}

impl Default for WorkEstimate {
    fn default() -> Self {
        Self::seats(MINIMUM_SEATS)
    }
}

impl WorkEstimate {
    /// Some seats while the request is executed, and none afterwards.
    #[must_use]
    pub const fn seats(seats: u64) -> Self {
        Self { initial_seats: seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    /// The seats that the request occupies through both phases.
    #[must_use]
    pub fn max_seats(&self) -> u64 {
        self.initial_seats.max(self.final_seats)
    }

    /// The seats of the request in a sum of all requests, which cannot overflow.
    pub(crate) fn seats_in_use(&self) -> usize {
        self.max_seats().min(u64::from(u32::MAX)) as usize
    }
}

/// The bytes of objects that one seat stands for.
const BYTES_PER_SEAT: u64 = 100_000;
/// The minimum number of seats of any request.
pub const MINIMUM_SEATS: u64 = 1;
/// The maximum number of seats of a list.
pub const MAXIMUM_LIST_SEATS: u64 = 100;
/// The maximum number of seats of a write.
pub const MAXIMUM_MUTATING_SEATS: u64 = 10;

/// The maximum number of seats at a priority level. `max_seats` is the limit of the level, or zero without limit.
fn limit_seats(max_seats: u64, limit: u64) -> u64 {
    if max_seats == 0 { limit } else { max_seats.min(limit) }
}
