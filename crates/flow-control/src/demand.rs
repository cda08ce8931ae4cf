//! The demand for seats of a priority level over a period (upstream: `fairqueuing/integrator.go`, `seatDemandStats`).

use std::time::Duration;

/// The part of the smoothed demand that a period keeps. Half of a demand is forgotten within five minutes.
const SMOOTHING: f64 = 0.977;

/// Integrates a value over time. The owner passes the time, as a duration since any fixed moment.
#[derive(Clone, Debug)]
pub struct Integrator {
    value: f64,
    highest: f64,
    /// The time up to which the value is integrated.
    integrated_to: Duration,
    seconds: f64,
    integral: f64,
    integral_of_square: f64,
}

/// The integral of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemandOfPeriod {
    /// The length of the period in seconds.
    pub seconds: f64,
    /// The average over time.
    pub average: f64,
    /// The standard deviation over time.
    pub deviation: f64,
    /// The highest value.
    pub highest: f64,
}

impl Integrator {
    /// Begins a period. The value is zero until it is set.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self { value: 0.0, highest: 0.0, integrated_to: now, seconds: 0.0, integral: 0.0, integral_of_square: 0.0 }
    }

    /// Sets the value from now on.
    pub fn set(&mut self, value: f64, now: Duration) {
        if value != self.value {
            self.integrate(now);
            self.value = value;
            self.highest = self.highest.max(value);
        }
    }

    fn integrate(&mut self, now: Duration) {
        let Some(elapsed) = now.checked_sub(self.integrated_to) else { return };
        let seconds = elapsed.as_secs_f64();
        self.integrated_to = now;
        self.seconds += seconds;
        self.integral += self.value * seconds;
        self.integral_of_square += self.value * self.value * seconds;
    }

    /// Ends the period and begins the next period.
    pub fn next_period(&mut self, now: Duration) -> DemandOfPeriod {
        self.integrate(now);
        let average = self.integral / self.seconds;
        // Rounding may make the variance of a constant value negative.
        let variance = (self.integral_of_square / self.seconds - average * average).max(0.0);
        let period =
            DemandOfPeriod { seconds: self.seconds, average, deviation: variance.sqrt(), highest: self.highest };
        let begun = Self { value: self.value, highest: self.value, ..Self::new(self.integrated_to) };
        *self = begun;
        period
    }
}

/// The demand of the past periods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeatDemand {
    /// The average of the last period.
    pub average: f64,
    /// The standard deviation of the last period.
    pub deviation: f64,
    /// The highest demand of the last period.
    pub high_watermark: usize,
    /// The demand for which seats are allocated. It rises at once and falls slowly.
    pub smoothed: f64,
}

impl SeatDemand {
    /// Adds a period.
    pub fn update(&mut self, period: &DemandOfPeriod) {
        self.high_watermark = period.highest.round() as usize;
        if period.seconds <= 0.0 {
            return;
        }
        self.average = period.average;
        self.deviation = period.deviation;
        let envelope = period.average + period.deviation;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_period_has_average_deviation_and_maximum() {
        let mut integrator = Integrator::new(seconds(5));
        integrator.set(4.0, seconds(10));
        integrator.set(1.0, seconds(10));
        integrator.set(2.0, seconds(9));
        let check = |period: DemandOfPeriod, expect: [f64; 4]| {
            assert_eq!([period.seconds, period.average, period.deviation, period.highest], expect);
        };
        check(integrator.next_period(seconds(15)), [10.0, 1.0, 1.0, 4.0]);
        check(integrator.next_period(seconds(17)), [2.0, 2.0, 0.0, 2.0]);
    }

    #[test]
    fn the_smoothed_demand_rises_at_once_and_falls_slowly() {
        let mut demand = SeatDemand::default();
        let mut check = |seconds, average, deviation, smoothed: f64| {
            demand.update(&DemandOfPeriod { seconds, average, deviation, highest: 7.4 });
            assert_eq!(demand.high_watermark, 7);
            assert!((demand.smoothed - smoothed).abs() < 1e-9, "{demand:?}");
        };
        check(10.0, 8.0, 2.0, 10.0);
        check(10.0, 0.0, 0.0, 9.77);
        check(0.0, f64::NAN, f64::NAN, 9.77);
        check(10.0, 20.0, 0.0, 20.0);
    }
}
