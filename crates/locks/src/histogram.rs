//! A histogram of times in nanoseconds. Each limit is about an eighth above the next lower limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of limits in each power of two, and its binary logarithm.
const STEPS: u64 = 8;
const STEPS_POWER: u32 = 3;
/// Longer times, above two minutes, count in the last bucket.
const BUCKETS: usize = 288;

#[derive(Debug)]
pub(crate) struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2();
    let step = (nanoseconds >> (power - STEPS_POWER)) & (STEPS - 1);
    usize::try_from(u64::from(power - STEPS_POWER + 1) * STEPS + step).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn limit(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (power, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << power) - 1
}

impl Histogram {
    pub(crate) fn record(&self, nanoseconds: u64) {
        self.0[bucket(nanoseconds)].fetch_add(1, Ordering::Relaxed);
    }

    /// The limits of the recorded times, with their counts.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(bucket, count)| (limit(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_at_most_an_eighth_above_the_times() {
        for nanoseconds in (0..5000).chain([1_000_000, 123_456_789, 60_000_000_000]) {
            let limit = limit(bucket(nanoseconds));
            assert!(limit >= nanoseconds && limit - nanoseconds <= nanoseconds / 8, "{nanoseconds} {limit}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
