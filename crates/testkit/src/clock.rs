//! The clock of a cluster, which a test can advance and stop.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pintle::Timestamp;
use tokio::sync::watch;

/// The maximum time until a thread of the store notices that the clock was advanced.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// The clock of a cluster: it sets timestamps, and decides when tokens, events, leases and watches expire, and when
/// bookmarks are sent. It runs like the system's clock until a test changes it. All clones show the same time.
///
/// Some times do not follow the clock: the validity of certificates, which is ten years, time limits of requests and
/// connections, and delays between retries.
#[derive(Clone)]
pub struct Clock(Arc<watch::Sender<ClockState>>);

#[derive(Clone, Copy, Debug)]
struct ClockState {
    /// The time of the clock at an instant.
    time: Duration,
    /// The instant at which the clock showed `time`. `None` while the clock stands still.
    since: Option<Instant>,
}

impl ClockState {
    /// The time since the Unix epoch.
    fn now(&self) -> Duration {
        self.time + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Clock {
    /// A clock that shows the system's time.
    pub(crate) fn new() -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Arc::new(watch::Sender::new(ClockState { time, since: Some(Instant::now()) })))
    }

    /// Another clock, which shows the same time.
    pub(crate) fn fork(&self) -> Self {
        Self(Arc::new(watch::Sender::new(*self.0.borrow())))
    }

    /// The time of the cluster.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.0.borrow().now()
    }

    /// Advances the clock. Due events, such as expiries, happen soon afterwards: a test waits for them.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|state| state.time += by);
    }

    /// Stops the clock. From then on only [`Clock::advance`] moves it.
    pub fn freeze(&self) {
        self.0.send_modify(|state| *state = ClockState { time: state.now(), since: None });
    }

    /// Resumes a stopped clock.
    pub fn resume(&self) {
        self.0.send_modify(|state| *state = ClockState { time: state.now(), since: Some(Instant::now()) });
    }
}

impl pintle::Clock for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.0.borrow().now().as_millis()).unwrap_or(u64::MAX))
    }

    fn until(&self, due: Timestamp) -> Duration {
        let now = pintle::Clock::now(self);
        Duration::from_millis(due.0.saturating_sub(now.0)).min(MAX_WAIT)
    }

    fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut state = self.0.subscribe();
        let due = state.borrow().now().saturating_add(duration);
        Box::pin(async move {
            loop {
                let found = *state.borrow_and_update();
                let left = due.saturating_sub(found.now());
                if left.is_zero() {
                    return;
                }
                let passed = async {
                    match found.since {
                        Some(_) => tokio::time::sleep(left).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = passed => {}
                    // A dropped clock does not change any more.
                    changed = state.changed() => if changed.is_err() { std::future::pending::<()>().await },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    async fn is_ready(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        tokio::select! {
            biased;
            () = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn sleeps_end_when_the_clock_is_advanced() {
        let clock = Clock::new();
        let (mut short, mut long) = (pintle::Clock::sleep(&clock, HOUR), pintle::Clock::sleep(&clock, HOUR * 3));
        assert!(!is_ready(&mut short).await && !is_ready(&mut long).await);
        clock.advance(HOUR * 2);
        assert!(is_ready(&mut short).await && !is_ready(&mut long).await);
        clock.freeze();
        assert!(!is_ready(&mut long).await);
        clock.advance(HOUR);
        assert!(is_ready(&mut long).await);
    }

    #[tokio::test]
    async fn a_clock_that_stands_still_keeps_its_time_until_it_is_resumed() {
        let clock = Clock::new();
        clock.freeze();
        let before = clock.now();
        let mut sleep = pintle::Clock::sleep(&clock, Duration::from_millis(1));
        // Real time passes.
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(clock.now(), before);
        assert!(!is_ready(&mut sleep).await);
        clock.resume();
        sleep.await;
        assert!(clock.now() >= before + Duration::from_millis(1));
    }
}
