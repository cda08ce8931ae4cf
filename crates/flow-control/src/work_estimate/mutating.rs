//! The estimate of a write (upstream: `request/mutating_work_estimator.go`).

use std::time::Duration;

use super::{BYTES_PER_SEAT, MAXIMUM_MUTATING_SEATS, MINIMUM_SEATS, WorkEstimate, limit_seats};
use crate::SeatSeconds;

/// The watches that one seat serves.
const WATCHES_PER_SEAT: u64 = 10;
/// The time in which a seat serves its watches after a write.
const TIME_OF_EVENT: Duration = Duration::from_millis(5);

/// The estimate of a create, update, patch or delete. `watches` is the number of watches that may get its event.
/// `max_seats` is the limit of the priority level, or zero. Requests for tokens of service accounts have no events;
/// their estimate is the default.
#[must_use]
pub fn mutating_estimate(watches: u64, max_seats: u64) -> WorkEstimate {
    if watches < WATCHES_PER_SEAT {
        return WorkEstimate::default();
    }
    let seats = watches.div_ceil(WATCHES_PER_SEAT);
    let work = SeatSeconds::of(seats, TIME_OF_EVENT);
    // A request that is narrow and long blocks fewer seats before it begins than a wide and short request.
    let final_seats = seats.min(limit_seats(max_seats, MAXIMUM_MUTATING_SEATS));
    WorkEstimate { final_seats, additional_latency: work.time_at(final_seats as f64), ..WorkEstimate::default() }
}

/// The seats of a write while it is executed, by the size of its body in bytes. In upstream it is always one seat.
#[must_use]
pub(crate) fn body_seats(bytes: u64, max_seats: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_SEAT).clamp(MINIMUM_SEATS, limit_seats(max_seats, MAXIMUM_MUTATING_SEATS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_take_seats() {
        let check = |bytes, max_seats, expect| assert_eq!(body_seats(bytes, max_seats), expect, "{bytes} {max_seats}");
        check(0, 0, 1);
        check(100_000, 0, 1);
        check(100_001, 0, 2);
        check(3 << 20, 0, 10);
        check(3 << 20, 4, 4);
        check(3 << 20, 1, 1);
    }

    #[test]
    fn watches_take_seats_after_the_write() {
        let check = |watches, max_seats, final_seats, milliseconds| {
            let additional_latency = Duration::from_millis(milliseconds);
            let expect = WorkEstimate { initial_seats: 1, final_seats, additional_latency };
            assert_eq!(mutating_estimate(watches, max_seats), expect, "{watches} {max_seats}");
        };
        check(0, 0, 0, 0);
        check(9, 0, 0, 0);
        check(10, 0, 1, 5);
        check(25, 0, 3, 5);
        check(99, 5, 5, 10);
        check(1000, 0, 10, 50);
        check(1000, 20, 10, 50);
    }
}
