//! The schedule of an open loop. A dedicated thread releases requests. The runtime's timers have a resolution of one
//! millisecond, in which a fast server answers many requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::Result;

/// The minimum sleep of the thread. Requests that become due during a sleep are released together.
const STEP: Duration = Duration::from_micros(100);
/// How far a loop may fall behind its schedule before the remaining requests are dropped.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Releases requests when they are due.
pub(crate) struct Pacer {
    started: Instant,
    interval: Duration,
    total: u64,
    next: AtomicU64,
    due: Arc<Semaphore>,
}

impl Pacer {
    /// Starts the schedule: `rate` requests per second for `time`. `waiting` is the maximum number of concurrent
    /// callers of [`Pacer::next`].
    pub(crate) fn start(rate: f64, time: Duration, waiting: usize) -> Result<Self> {
        let total = (rate * time.as_secs_f64()).round() as u64;
        let interval = Duration::from_secs_f64(1.0 / rate);
        let due = Arc::new(Semaphore::new(0));
        let started = Instant::now();
        let permits = due.clone();
        thread::Builder::new().name("pacer".to_owned()).spawn(move || {
            let mut released = 0;
            while released < total {
                let elapsed = started.elapsed();
                let now_due = ((elapsed.as_secs_f64() * rate) as u64 + 1).min(total);
                permits.add_permits((now_due - released) as usize);
                released = now_due;
                let next = interval.mul_f64(released as f64);
                thread::sleep(next.saturating_sub(elapsed).max(STEP));
            }
            // Waiting callers are woken, so that they see the end of the schedule.
            permits.add_permits(waiting);
        })?;
        Ok(Self { started, interval, total, next: AtomicU64::new(0), due })
    }

    /// Waits until a request is due. Returns its number and its scheduled time, or `None` if all requests were
    /// released or the loop is too far behind.
    pub(crate) async fn next(&self) -> Option<(u64, Instant)> {
        self.due.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.started + self.interval.mul_f64(number as f64);
        (number < self.total && due.elapsed() < TIMEOUT).then_some((number, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_are_released_and_none_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let pacer = Pacer::start(1000.0, Duration::from_millis(20), 1).unwrap();
            let mut numbers = Vec::new();
            while let Some((number, due)) = pacer.next().await {
                assert!(due <= Instant::now());
                numbers.push(number);
            }
            assert_eq!(numbers, (0..20).collect::<Vec<_>>());
        });
    }
}
