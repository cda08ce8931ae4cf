//! The time of flow control, without a clock.

use std::time::Duration;

/// A time, in nanoseconds since any fixed moment: for a controller, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The fixed moment.
    pub const START: Self = Self(0);

    /// The time of a number of nanoseconds.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// The number of nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> u64 {
        self.0
    }

    /// The time after a duration.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let Self(nanoseconds) = Self::from(duration);
        Self(self.0.saturating_add(nanoseconds))
    }

    /// The duration since another time; zero since a later time.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanoseconds_since(earlier))
    }

    pub(crate) const fn nanoseconds_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<Duration> for Moment {
    fn from(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }
}
