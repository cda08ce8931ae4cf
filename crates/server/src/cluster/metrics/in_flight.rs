//! The number of requests that are handled at the same time: the highest of the last second, as upstream reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The bits of a watermark that hold the number; the others hold the second.
const NUMBER_BITS: u32 = 32;

/// Requests in flight of one kind.
#[derive(Debug)]
pub(super) struct InFlightWatermark {
    started: Instant,
    current: AtomicU64,
    /// The highest number of the second in which the last request began.
    latest: AtomicU64,
    /// That of the second before in which a request began.
    previous: AtomicU64,
}

impl Default for InFlightWatermark {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            current: AtomicU64::default(),
            latest: AtomicU64::default(),
            previous: AtomicU64::default(),
        }
    }
}

impl InFlightWatermark {
    fn begin(&self, at: Instant) {
        let current = self.current.fetch_add(1, Ordering::Relaxed) + 1;
        let second = at.saturating_duration_since(self.started).as_secs();
        let before = self.latest.fetch_max(second << NUMBER_BITS | current, Ordering::Relaxed);
        if before >> NUMBER_BITS < second {
            self.previous.fetch_max(before, Ordering::Relaxed);
        }
    }

    /// The highest number of this second and the one before.
    pub(super) fn highest(&self) -> u64 {
        let second = self.started.elapsed().as_secs();
        let marks = [&self.latest, &self.previous].map(|mark| mark.load(Ordering::Relaxed));
        let recent = marks.into_iter().filter(|mark| (mark >> NUMBER_BITS) + 1 >= second);
        let highest = recent.map(|mark| mark & ((1 << NUMBER_BITS) - 1)).max().unwrap_or(0);
        highest.max(self.current.load(Ordering::Relaxed))
    }
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard(Arc<InFlightWatermark>);

impl InFlightGuard {
    /// Counts a request that has begun.
    pub(super) fn new(watermark: &Arc<InFlightWatermark>, at: Instant) -> Self {
        watermark.begin(at);
        Self(watermark.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.current.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_the_last_second_is_reported() {
        let watermark = Arc::new(InFlightWatermark::default());
        assert_eq!(watermark.highest(), 0);
        let now = Instant::now();
        let held: Vec<_> = (0..3).map(|_| InFlightGuard::new(&watermark, now)).collect();
        assert_eq!(watermark.highest(), 3);
        drop(held);
        assert!(watermark.highest() == 3 || now.elapsed().as_secs() > 0);
        let next = InFlightGuard::new(&watermark, now + std::time::Duration::from_secs(5));
        assert_eq!(watermark.previous.load(Ordering::Relaxed) & 0xff, 3);
        assert_eq!(watermark.latest.load(Ordering::Relaxed) & 0xff, 1);
        drop(next);
    }
}
