//! A manual clock, so that tests of timeouts do not wait.

use std::sync::Arc;
use std::time::Duration;

use pintle::{ManualClock, Timestamp};

/// How far the clock moves per step. It is longer than any delay of an answer.
const STEP: Duration = Duration::from_secs(4);

/// A clock that stands still until a test advances it, for [`Options::clock`](pintle::Options::clock).
#[must_use]
pub fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)))
}

/// Advances the clock step by step until the future is ready.
pub async fn advance_clock_until<T>(clock: &ManualClock, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        // The request needs some real time to reach the point where the server waits for the clock.
        match tokio::time::timeout(Duration::from_millis(20), &mut future).await {
            Ok(result) => return result,
            Err(_) => clock.advance(STEP),
        }
    }
}
