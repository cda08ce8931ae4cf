//! The highest number of requests of the last second, as upstream reports it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The bits of a watermark that hold the number; the others hold the second.
const NUMBER_BITS: u32 = 32;

/// The number of requests at the same time, and its highest value of the last second.
#[derive(Debug)]
pub struct Watermark {
    started: Instant,
    current: AtomicU64,
    /// The highest number of the second in which the last request began.
    latest: AtomicU64,
    /// The highest number of the previous second in which a request began.
    previous: AtomicU64,
}

impl Default for Watermark {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            current: AtomicU64::default(),
            latest: AtomicU64::default(),
            previous: AtomicU64::default(),
        }
    }
}

impl Watermark {
    /// Counts a request that has begun.
    pub fn begin(&self, at: Instant) {
        let current = self.current.fetch_add(1, Ordering::Relaxed) + 1;
        let second = at.saturating_duration_since(self.started).as_secs();
        let mark = second << NUMBER_BITS | current;
        // Usually the second has already seen as many requests.
        if self.latest.load(Ordering::Relaxed) < mark {
            let before = self.latest.fetch_max(mark, Ordering::Relaxed);
            if before >> NUMBER_BITS < second {
                self.previous.fetch_max(before, Ordering::Relaxed);
            }
        }
    }

    /// Counts a request as ended.
    pub fn end(&self) {
        self.current.fetch_sub(1, Ordering::Relaxed);
    }

    /// The highest number of this second and the second before.
    #[must_use]
    pub fn highest(&self) -> u64 {
        let second = self.started.elapsed().as_secs();
        let marks = [&self.latest, &self.previous].map(|mark| mark.load(Ordering::Relaxed));
        let recent = marks.into_iter().filter(|mark| (mark >> NUMBER_BITS) + 1 >= second);
        let highest = recent.map(|mark| mark & ((1 << NUMBER_BITS) - 1)).max().unwrap_or(0);
        highest.max(self.current.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_the_last_second_is_reported() {
        let watermark = Watermark::default();
        assert_eq!(watermark.highest(), 0);
        let now = Instant::now();
        (0..3).for_each(|_| watermark.begin(now));
        assert_eq!(watermark.highest(), 3);
        (0..3).for_each(|_| watermark.end());
        assert!(watermark.highest() == 3 || now.elapsed().as_secs() > 0);
        watermark.begin(now + std::time::Duration::from_secs(5));
        let numbers = [&watermark.previous, &watermark.latest].map(|mark| mark.load(Ordering::Relaxed) as u32);
        assert_eq!(numbers, [3, 1]);
    }
}
