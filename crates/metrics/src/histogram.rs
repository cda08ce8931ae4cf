//! Histograms of durations and sizes with fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of a histogram's buckets, in seconds or in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    pub(crate) bounds: &'static [f64],
    /// The number of units of the internal sum in one unit of the bounds: nanoseconds in a second, or 1.
    pub(crate) scale: f64,
}

impl Buckets {
    /// Buckets of durations, by their upper bounds in seconds, ascending.
    #[must_use]
    pub const fn seconds(bounds: &'static [f64]) -> Self {
        Self { bounds, scale: 1e9 }
    }

    /// Buckets of sizes, by their upper bounds in bytes, ascending.
    #[must_use]
    pub const fn bytes(bounds: &'static [f64]) -> Self {
        Self { bounds, scale: 1.0 }
    }

    /// True if every bound is also a bound of `others`.
    #[must_use]
    pub fn is_part_of(self, others: Self) -> bool {
        self.bounds.iter().all(|bound| others.bounds.contains(bound))
    }
}

/// Counts values by bucket. An observation costs two atomic additions.
#[derive(Debug)]
pub struct Histogram {
    buckets: Buckets,
    /// The number of values in each bucket, and beyond the last bound. The count of the histogram is the sum of these
    /// numbers, so they agree in every exposition.
    counts: Box<[AtomicU64]>,
    /// The sum of the values, in nanoseconds or bytes.
    sum: AtomicU64,
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new(buckets: Buckets) -> Self {
        let counts = (0..=buckets.bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { buckets, counts, sum: AtomicU64::default() }
    }

    /// Adds a duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.add(duration.as_secs_f64(), nanos);
    }

    /// Adds a size in bytes.
    pub fn observe_bytes(&self, bytes: u64) {
        self.add(bytes as f64, bytes);
    }

    fn add(&self, value: f64, units: u64) {
        // Nearly all values are in one of the first buckets.
        let bounds = self.buckets.bounds;
        let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(units, Ordering::Relaxed);
    }

    /// The buckets.
    #[must_use]
    pub fn buckets(&self) -> Buckets {
        self.buckets
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The sum of the values, in seconds or bytes.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum.load(Ordering::Relaxed) as f64 / self.buckets.scale
    }

    /// The upper bound of each bucket and the number of values up to it. The last bound is infinity.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.buckets.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |total, (bound, count)| {
            *total += count.load(Ordering::Relaxed);
            Some((bound, *total))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_and_including_the_bound() {
        let histogram = Histogram::new(Buckets::seconds(&[0.001, 1.0]));
        for millis in [0, 1, 2, 1000, 1001] {
            histogram.observe(Duration::from_millis(millis));
        }
        let found: Vec<_> = histogram.cumulative().collect();
        assert_eq!(found, [(0.001, 2), (1.0, 4), (f64::INFINITY, 5)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 2.004));
    }

    #[test]
    fn sizes_are_summed_in_bytes() {
        let histogram = Histogram::new(Buckets::bytes(&[1000.0]));
        histogram.observe_bytes(1000);
        histogram.observe_bytes(5000);
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1000.0, 1), (f64::INFINITY, 2)]);
        assert_eq!(histogram.sum(), 6000.0);
    }
}
