//! Histograms of a value over time (upstream: `component-base/metrics/prometheusextension.TimingHistogram`). A bucket
//! counts the nanoseconds during which the value was in it.

use std::time::Duration;

/// The time that a value has spent in each bucket. The owner passes the time, as a duration since any fixed moment.
#[derive(Clone, Debug)]
pub struct TimingHistogram {
    bounds: &'static [f64],
    /// The nanoseconds in each bucket, and beyond the last bound.
    nanoseconds: Box<[u64]>,
    /// The integral of the value over the time, in nanoseconds.
    sum: f64,
    value: f64,
    /// The bucket of the value.
    bucket: usize,
    /// The time up to which the value is counted.
    counted_to: Duration,
}

impl TimingHistogram {
    /// Begins to observe a value, which is zero until it is set. `bounds` are the upper bounds of the buckets, ascending.
    #[must_use]
    pub fn new(bounds: &'static [f64], now: Duration) -> Self {
        let nanoseconds = vec![0; bounds.len() + 1].into();
        let mut histogram = Self { bounds, nanoseconds, sum: 0.0, value: 0.0, bucket: 0, counted_to: now };
        histogram.bucket = histogram.bucket_of(0.0);
        histogram
    }

    fn bucket_of(&self, value: f64) -> usize {
        self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len())
    }

    /// Sets the value from now on.
    pub fn set(&mut self, value: f64, now: Duration) {
        if value != self.value {
            self.count(now);
            self.value = value;
            self.bucket = self.bucket_of(value);
        }
    }

    /// Counts the value up to `now`.
    fn count(&mut self, now: Duration) {
        let Some(elapsed) = now.checked_sub(self.counted_to) else { return };
        let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.nanoseconds.get_mut(self.bucket) {
            *bucket = bucket.saturating_add(elapsed);
        }
        self.sum += elapsed as f64 * self.value;
        self.counted_to = now;
    }

    /// The upper bounds of the buckets.
    pub(crate) fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// The nanoseconds up to each bound and up to infinity, and the integral of the value.
    pub(crate) fn cumulative(&self, now: Duration) -> (Vec<u64>, f64) {
        let mut counted = self.clone();
        counted.count(now);
        let mut total = 0;
        for bucket in &mut counted.nanoseconds {
            total += *bucket;
            *bucket = total;
        }
        (counted.nanoseconds.into(), counted.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_time_of_the_value() {
        let seconds = Duration::from_secs;
        let mut histogram = TimingHistogram::new(&[0.0, 0.5, 1.0], seconds(10));
        histogram.set(0.5, seconds(11));
        histogram.set(0.5, seconds(12));
        histogram.set(2.0, seconds(13));
        // The time never goes back.
        histogram.set(1.0, seconds(12));
        let expect = |counts: [u64; 4], sum: f64| (counts.map(|count| count * 1_000_000_000).to_vec(), sum * 1e9);
        assert_eq!(histogram.cumulative(seconds(17)), expect([1, 3, 7, 7], 5.0));
        assert_eq!(histogram.cumulative(seconds(18)), expect([1, 3, 8, 8], 6.0));
    }
}
