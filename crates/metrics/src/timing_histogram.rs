//! Histograms of a value over time (upstream: `component-base/metrics/prometheusextension.TimingHistogram`). A bucket
//! counts the nanoseconds during which the value was in it.

/// The time that a value has spent in each bucket.
#[derive(Clone, Debug)]
pub struct TimingHistogram {
    bounds: &'static [f64],
    /// The nanoseconds in each bucket, and beyond the last bound.
    nanoseconds: Box<[u64]>,
    /// The integral of the value over the time, in nanoseconds.
    sum: f64,
}

impl TimingHistogram {
    /// An empty histogram. `bounds` are the upper bounds of the buckets, ascending.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, nanoseconds: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// Adds the time that the value was `value`.
    pub fn add(&mut self, value: f64, nanoseconds: u64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        if let Some(bucket) = self.nanoseconds.get_mut(bucket) {
            *bucket = bucket.saturating_add(nanoseconds);
        }
        self.sum += nanoseconds as f64 * value;
    }

    /// The upper bounds of the buckets.
    pub(crate) fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// The integral of the value.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// The nanoseconds up to each bound and up to infinity.
    pub(crate) fn cumulative(&self) -> Vec<u64> {
        let up_to = self.nanoseconds.iter().scan(0_u64, |total, nanoseconds| {
            *total = total.saturating_add(*nanoseconds);
            Some(*total)
        });
        up_to.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_time_of_the_value() {
        let mut histogram = TimingHistogram::new(&[0.0, 0.5, 1.0]);
        for (value, nanoseconds) in [(0.0, 1), (0.5, 2), (2.0, 4), (1.0, 8)] {
            histogram.add(value, nanoseconds);
        }
        assert_eq!((histogram.cumulative(), histogram.sum()), (vec![1, 3, 11, 15], 17.0));
    }
}
