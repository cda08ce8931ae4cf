//! The pace of an open loop. A thread of its own tells when requests are due, since the runtime's timers are only as
//! exact as a millisecond, in which a fast server would have answered many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::Result;

/// How long the thread sleeps at least. What is due meanwhile is let go together.
const STEP: Duration = Duration::from_micros(100);
/// How far behind its pace a loop may be before the rest of its requests are given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets requests go when they are due, one by one.
pub(crate) struct Pacer {
    started: Instant,
    interval: Duration,
    total: u64,
    next: AtomicU64,
    due: Arc<Semaphore>,
}

impl Pacer {
    /// Begins: `rate` requests per second for `time`. `waiting` is how many may wait in [`Pacer::next`] at once.
    pub(crate) fn start(rate: f64, time: Duration, waiting: usize) -> Result<Self> {
        let total = (rate * time.as_secs_f64()).round() as u64;
        let interval = Duration::from_secs_f64(1.0 / rate);
        let due = Arc::new(Semaphore::new(0));
        let started = Instant::now();
        let gate = due.clone();
        thread::Builder::new().name("pacer".to_owned()).spawn(move || {
            let mut released = 0;
            while released < total {
                let elapsed = started.elapsed();
                let now_due = ((elapsed.as_secs_f64() * rate) as u64 + 1).min(total);
                gate.add_permits((now_due - released) as usize);
                released = now_due;
                let next = interval.mul_f64(released as f64);
                thread::sleep(next.saturating_sub(elapsed).max(STEP));
            }
            // Those who still wait learn that there is nothing left.
            gate.add_permits(waiting);
        })?;
        Ok(Self { started, interval, total, next: AtomicU64::new(0), due })
    }

    /// Waits until a request is due; its number and when that was. `None` when all were let go, or when the loop cannot
    /// keep up at all.
    pub(crate) async fn next(&self) -> Option<(u64, Instant)> {
        self.due.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.started + self.interval.mul_f64(number as f64);
        (number < self.total && due.elapsed() < PATIENCE).then_some((number, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_are_let_go_and_none_before_its_time() {
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
