//! Measures how CPU time grows with the size of an input.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};

/// The factor between the two compared sizes.
pub(crate) const FACTOR: usize = 4;
/// The maximum factor between their CPU times. n log n is about 4.5, a square 16.
const MAX_RATIO: f64 = 8.0;
/// The number of measurements. The best result counts.
const ATTEMPTS: usize = 3;

/// Tests of this program measure one after another.
static MEASURING: Mutex<()> = Mutex::new(());

/// Waits until no other test measures.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    MEASURING.lock()
}

/// The CPU time of this thread.
pub(crate) fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

/// The CPU time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).expect("a time since the start")
}

/// Times of the same work on inputs of two sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    small: Duration,
    large: Duration,
}

impl Growth {
    /// Combines the two times.
    pub(crate) fn of(small: Duration, large: Duration) -> Self {
        Self { small, large }
    }

    /// The factor by which the time grows. A time below the resolution of a measurement does not count as growth.
    fn ratio(self) -> f64 {
        const NOISE: f64 = 0.001;
        self.large.as_secs_f64() / self.small.as_secs_f64().max(NOISE)
    }

    pub(crate) fn is_near_linear(self) -> bool {
        self.ratio() <= MAX_RATIO
    }

    /// A message about growth that is too fast.
    pub(crate) fn problem(self, subject: &str) -> String {
        let Self { small, large } = self;
        format!("{subject}: {small:.1?} becomes {large:.1?}, a factor of {:.1}", self.ratio())
    }
}

/// Compares the work on inputs of two sizes. If the work grows too fast, it is measured again, and the best result
/// counts. Returns a message if no result is near linear.
pub(crate) fn check(subject: &str, mut measure: impl FnMut() -> Growth) -> Option<String> {
    let mut best: Option<Growth> = None;
    for _ in 0..ATTEMPTS {
        let growth = measure();
        if growth.is_near_linear() {
            return None;
        }
        if best.is_none_or(|best| growth.ratio() < best.ratio()) {
            best = Some(growth);
        }
    }
    best.map(|best| best.problem(subject))
}

/// Fails if there are problems.
#[track_caller]
pub(crate) fn report(problems: &[String]) {
    assert!(problems.is_empty(), "the work grows faster than n log n:\n{}", problems.join("\n"));
}
