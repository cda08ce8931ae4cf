//! Time that a test moves, so that it need not wait.

use std::sync::Arc;
use std::time::Duration;

use pintle::{ManualClock, Timestamp};

/// How far time moves at once: further than a server waits for anything that a client may wait for.
const STEP: Duration = Duration::from_secs(4);

/// A clock that stands still until it is moved, for [`Options::clock`](pintle::Options::clock).
#[must_use]
pub fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)))
}

/// Lets something happen that takes the server time: moves the clock until it has.
pub async fn advance_clock_until<T>(clock: &ManualClock, what: impl Future<Output = T>) -> T {
    let mut what = std::pin::pin!(what);
    loop {
        // A request needs a moment to come to where it waits.
        match tokio::time::timeout(Duration::from_millis(20), &mut what).await {
            Ok(result) => return result,
            Err(_) => clock.advance(STEP),
        }
    }
}
