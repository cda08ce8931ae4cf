//! Time as the store sees it: only expiry and the history window ask for it, and both ask a `Clock`, so that tests
//! decide what time it is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now. May step backwards; the store copes.
    fn now(&self) -> Timestamp;

    /// How long a thread may sleep before it should look whether `due` has come.
    fn until(&self, due: Timestamp) -> Duration {
        Duration::from_millis(due.0.saturating_sub(self.now().0))
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that stands still until it is moved, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> ManualClock {
        ManualClock(AtomicU64::new(start.0))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Real time says nothing about when this clock will be moved: look again soon.
    fn until(&self, due: Timestamp) -> Duration {
        if due <= self.now() { Duration::ZERO } else { Duration::from_millis(1) }
    }
}
