//! Work in seat-seconds (upstream: `util/flowcontrol/request.SeatSeconds`). The progress meter of a queue set has the
//! same unit.

use std::fmt;
use std::time::Duration;

/// The fixed-point units of one seat-second.
const SCALE: u64 = 100_000_000;
/// The nanoseconds of one unit at one seat.
const NANOSECONDS: i64 = 1_000_000_000 / SCALE as i64;

/// The numbers up to which upstream's floating-point numbers are exact. Beyond, the result is rounded as upstream does.
const EXACT: u64 = 1 << 53;

/// A number of seat-seconds in fixed-point representation. As in upstream, arithmetic wraps around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatSeconds(u64);

impl SeatSeconds {
    /// No work.
    pub const ZERO: Self = Self(0);
    /// The highest number.
    pub const MAX: Self = Self(u64::MAX);

    /// The work of `seats` seats in a number of nanoseconds, which may be negative.
    #[must_use]
    pub fn of_nanoseconds(seats: u64, nanoseconds: i64) -> Self {
        let work = (seats as i64).saturating_mul(nanoseconds);
        if work.unsigned_abs() > EXACT {
            return Self((seats as f64 * nanoseconds as f64 / NANOSECONDS as f64).round() as i64 as u64);
        }
        let half = if work < 0 { -NANOSECONDS / 2 } else { NANOSECONDS / 2 };
        Self((work.saturating_add(half) / NANOSECONDS) as u64)
    }

    /// The work of `seats` seats in a time.
    #[must_use]
    pub fn of(seats: u64, time: Duration) -> Self {
        if seats == 0 { Self::ZERO } else { Self::of_nanoseconds(seats, nanoseconds(time)) }
    }

    /// The work of a part of a number of seats in a number of nanoseconds.
    #[must_use]
    pub fn of_part(seats: f64, nanoseconds: u64) -> Self {
        Self((seats * nanoseconds as f64 / NANOSECONDS as f64).round() as u64)
    }

    /// The nearest number of seat-seconds. Negative numbers count as zero.
    #[must_use]
    pub fn from_f64(seat_seconds: f64) -> Self {
        Self((seat_seconds * SCALE as f64).round() as u64)
    }

    /// The number as a floating-point number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }

    /// The time in which `seats` seats do this work.
    #[must_use]
    pub fn time_at(self, seats: f64) -> Duration {
        Duration::from_nanos((self.0 as f64 / seats * NANOSECONDS as f64) as u64)
    }

    /// The fixed-point units, for an atomic sum.
    pub(crate) const fn units(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_units(units: u64) -> Self {
        Self(units)
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }

    pub(crate) const fn saturating_minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub(crate) const fn divided_by(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

/// Whole nanoseconds, at most 292 years.
pub(crate) fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Prints the number as upstream does: `1.50000000ss`.
impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:08}ss", self.0 / SCALE, self.0 % SCALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_rounded_and_printed_as_upstream_does() {
        let check = |seats: u64, nanoseconds: i64, expect: &str| {
            assert_eq!(SeatSeconds::of_nanoseconds(seats, nanoseconds).to_string(), expect);
        };
        check(1, 1_000_000_000, "1.00000000ss");
        check(2, 3_000_000, "0.00600000ss");
        check(1, 4, "0.00000000ss");
        check(1, 5, "0.00000001ss");
        check(1, -4, "0.00000000ss");
        check(1, -1_000_000_000, "184467440736.09551616ss");
        assert_eq!(SeatSeconds::of_part(2.5, 3_000_000).to_string(), "0.00750000ss");
        assert_eq!(SeatSeconds::from_f64(0.015), SeatSeconds::of(3, Duration::from_millis(5)));
        assert_eq!(SeatSeconds::from_f64(-1.0), SeatSeconds::ZERO);
        assert_eq!(SeatSeconds::of(3, Duration::from_millis(5)).time_at(2.0), Duration::from_micros(7500));
        assert_eq!(SeatSeconds::of(3, Duration::from_millis(5)).as_f64(), 0.015);
    }
}
