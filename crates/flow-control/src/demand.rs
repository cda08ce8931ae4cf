//! The demand for seats of a priority level (upstream: `seatDemandStats`).

/// The part of the smoothed demand that a period keeps. Half of a demand is forgotten within five minutes.
const SMOOTHING: f64 = 0.977;

/// The demand in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemandOfPeriod {
    /// The length of the period in seconds.
    pub seconds: f64,
    /// The average over time.
    pub average: f64,
    /// The standard deviation over time.
    pub deviation: f64,
    /// The highest demand.
    pub highest: usize,
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
        self.high_watermark = period.highest;
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

    #[test]
    fn the_smoothed_demand_rises_at_once_and_falls_slowly() {
        let mut demand = SeatDemand::default();
        let mut check = |seconds, average, deviation, smoothed: f64| {
            demand.update(&DemandOfPeriod { seconds, average, deviation, highest: 7 });
            assert_eq!(demand.high_watermark, 7);
            assert!((demand.smoothed - smoothed).abs() < 1e-9, "{demand:?}");
        };
        check(10.0, 8.0, 2.0, 10.0);
        check(10.0, 0.0, 0.0, 9.77);
        check(0.0, f64::NAN, f64::NAN, 9.77);
        check(10.0, 20.0, 0.0, 20.0);
    }
}
