//! The clock of the store and of everything above it: lease expiry, history retention and watch timeouts. All of them
//! use the `Clock` trait, so that tests control the time.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time after this duration.
    #[must_use]
    pub fn after(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// The future of [`Clock::sleep`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current time. It may step backwards; the store tolerates that.
    fn now(&self) -> Timestamp;

    /// How long a thread may sleep before it must check whether `due` has come.
    fn until(&self, due: Timestamp) -> Duration {
        Duration::from_millis(due.0.saturating_sub(self.now().0))
    }

    /// Completes when this much time has passed since the call, independent of steps of the wall clock.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that only moves when a test advances it.
#[derive(Debug)]
pub struct ManualClock(watch::Sender<u64>);

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn new(start: Timestamp) -> ManualClock {
        ManualClock(watch::Sender::new(start.0))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = Timestamp(*now).after(by).0);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(*self.0.borrow())
    }

    /// The real time does not predict when a test advances this clock, so the thread checks again soon.
    fn until(&self, due: Timestamp) -> Duration {
        if due <= self.now() { Duration::ZERO } else { Duration::from_millis(1) }
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let due = self.now().after(duration).0;
        let mut now = self.0.subscribe();
        Box::pin(async move {
            // Nobody can advance a dropped clock, so the sleep never ends.
            if now.wait_for(|now| *now >= due).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleep_completes_when_the_clock_is_advanced_past_its_deadline() {
        let clock = ManualClock::new(Timestamp(5));
        let mut short = clock.sleep(Duration::from_secs(1));
        let mut long = clock.sleep(Duration::from_secs(60));
        let ended = async |sleep: &mut Sleep| {
            tokio::select! {
                biased;
                () = sleep => true,
                () = std::future::ready(()) => false,
            }
        };
        assert!(!ended(&mut short).await);
        clock.advance(Duration::from_secs(59));
        assert!(ended(&mut short).await && !ended(&mut long).await);
        clock.advance(Duration::from_secs(1));
        assert!(ended(&mut long).await && ended(&mut clock.sleep(Duration::ZERO)).await);
    }
}
