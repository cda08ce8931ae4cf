//! A number of requests or seats over time, in relation to a limit (upstream: `metrics.RatioedGauge` and
//! `fairqueuing.Integrator`).

use pintle_metrics::TimingHistogram;

use crate::Moment;
use crate::demand::DemandOfPeriod;

/// Numbers below this have their times in a table.
const TABLE: usize = 4096;

/// A gauge. A change only adds to the time of the old number; the histogram is computed when it is read.
#[derive(Debug)]
pub struct RatioGauge {
    value: usize,
    /// The time since which the number is not counted.
    since: Moment,
    /// The nanoseconds at each number that are not in the histogram.
    times: Vec<u64>,
    limit: f64,
    histogram: TimingHistogram,
    /// The highest number of the period.
    highest: usize,
    /// The sums of the period: nanoseconds, the integral of the number, the integral of its square.
    period: [u128; 3],
}

impl RatioGauge {
    /// A gauge of zero. `bounds` are the buckets of its relation to its limit.
    #[must_use]
    pub fn new(bounds: &'static [f64], now: Moment) -> Self {
        Self {
            value: 0,
            since: now,
            times: Vec::new(),
            limit: 1.0,
            histogram: TimingHistogram::new(bounds),
            highest: 0,
            period: [0; 3],
        }
    }

    /// Sets the number from now on.
    pub fn set(&mut self, value: usize, now: Moment) {
        if value != self.value {
            self.count(now);
            self.value = value;
            self.highest = self.highest.max(value);
        }
    }

    /// Adds to the number.
    pub(crate) fn add(&mut self, change: isize, now: Moment) {
        self.set(self.value.saturating_add_signed(change), now);
    }

    fn count(&mut self, now: Moment) {
        // Callers may read the clock before they wait for a lock, so the time may go back.
        let nanoseconds = now.nanoseconds_since(self.since);
        self.since = self.since.max(now);
        match self.times.get_mut(self.value) {
            Some(time) => *time += nanoseconds,
            None => self.count_high(nanoseconds),
        }
    }

    /// Counts the time of a number that is not in the table.
    #[cold]
    fn count_high(&mut self, nanoseconds: u64) {
        if self.value < TABLE {
            self.times.resize(self.value + 1, 0);
            self.times[self.value] = nanoseconds;
        } else {
            self.record(self.value, nanoseconds);
        }
    }

    fn record(&mut self, value: usize, nanoseconds: u64) {
        self.histogram.add(value as f64 / self.limit, nanoseconds);
        let (value, nanoseconds) = (value as u128, u128::from(nanoseconds));
        let integral = value.saturating_mul(nanoseconds);
        for (sum, term) in self.period.iter_mut().zip([nanoseconds, integral, value.saturating_mul(integral)]) {
            *sum = sum.saturating_add(term);
        }
    }

    /// Records the number up to now.
    fn flush(&mut self, now: Moment) {
        self.count(now);
        for value in 0..self.times.len() {
            let nanoseconds = std::mem::take(&mut self.times[value]);
            if nanoseconds > 0 {
                self.record(value, nanoseconds);
            }
        }
    }

    /// Sets the limit from now on.
    pub(crate) fn set_limit(&mut self, limit: usize, now: Moment) {
        // Without queues, no request can wait.
        let limit = limit.max(1);
        if limit as f64 != self.limit {
            self.flush(now);
            self.limit = limit as f64;
        }
    }

    /// The histogram up to now.
    pub(crate) fn histogram(&mut self, now: Moment) -> &TimingHistogram {
        self.flush(now);
        &self.histogram
    }

    /// Ends the period of the number and begins the next period.
    pub fn next_period(&mut self, now: Moment) -> DemandOfPeriod {
        self.flush(now);
        let [time, integral, integral_of_square] = std::mem::take(&mut self.period);
        let highest = std::mem::replace(&mut self.highest, self.value);
        let nanoseconds = time as f64;
        let average = integral as f64 / nanoseconds;
        // With whole numbers, the variance of a constant number is zero.
        let variance = match (integral_of_square.checked_mul(time), integral.checked_mul(integral)) {
            (Some(of_squares), Some(square)) => of_squares.saturating_sub(square) as f64 / (nanoseconds * nanoseconds),
            _ => (integral_of_square as f64 / nanoseconds - average * average).max(0.0),
        };
        DemandOfPeriod { seconds: nanoseconds / 1e9, average, deviation: variance.sqrt(), highest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Moment {
        Moment::from_nanoseconds(seconds * 1_000_000_000)
    }

    #[test]
    fn a_period_has_average_deviation_and_maximum() {
        let check = |scale: usize| {
            let mut gauge = RatioGauge::new(&[], seconds(5));
            gauge.set(4 * scale, seconds(10));
            gauge.set(scale, seconds(10));
            gauge.set(2 * scale, seconds(9));
            let mut check = |now, expect: [f64; 4]| {
                let period = gauge.next_period(seconds(now));
                let numbers = [period.average, period.deviation, period.highest as f64].map(|x| x / scale as f64);
                assert_eq!([period.seconds, numbers[0], numbers[1], numbers[2]], expect);
            };
            check(15, [10.0, 1.0, 1.0, 4.0]);
            check(17, [2.0, 2.0, 0.0, 2.0]);
        };
        check(1);
        check(10_000);
    }

    #[test]
    fn the_ratio_follows_the_limit() {
        let mut gauge = RatioGauge::new(&[0.5], seconds(0));
        gauge.set_limit(10, seconds(0));
        gauge.add(5, seconds(1));
        gauge.set_limit(5, seconds(3));
        gauge.add(-4, seconds(6));
        let text = format!("{:?}", gauge.histogram(seconds(10)));
        assert!(text.contains("nanoseconds: [7000000000, 3000000000], sum: 4800000000.0"), "{text}");
    }
}
