//! The seats that priority levels borrow from each other (upstream: `updateBorrowingLocked`).

use crate::allocation::{Allocation, AllocationItem, allocate};

/// The limits of a priority level and its demand, as the input of [`borrow_seats`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelDemand {
    /// True if the level has no limit. The other levels get the seats that it does not use.
    pub is_exempt: bool,
    /// The nominal limit.
    pub nominal: usize,
    /// The nominal limit, less the seats that may be lent.
    pub min: usize,
    /// The nominal limit and the seats that may be borrowed.
    pub max: usize,
    /// The present limit.
    pub current: usize,
    /// The highest demand of the last period.
    pub high_watermark: usize,
    /// The smoothed demand.
    pub smoothed: f64,
}

/// The new limits of priority levels.
#[derive(Clone, Debug, PartialEq)]
pub struct BorrowedSeats {
    /// The limit of each level.
    pub limits: Vec<usize>,
    /// The target of each level, for metrics.
    pub targets: Vec<f64>,
    /// The fraction of its target that each level gets, unless a bound applies.
    pub fair_fraction: f64,
}

impl LevelDemand {
    /// The lower bound of the new limit.
    fn min_current(&self) -> usize {
        let used = if self.is_exempt { self.high_watermark } else { self.nominal.min(self.high_watermark) };
        self.min.max(used)
    }

    fn item(&self) -> AllocationItem {
        let lower_bound = self.min_current() as f64;
        let target = lower_bound.max(self.smoothed);
        AllocationItem { target, lower_bound, upper_bound: self.max as f64 }
    }
}

/// Computes new limits. Exempt levels get their demand. If the other seats are not sufficient for the lower bounds, the
/// bounds are lowered by the same fraction.
#[must_use]
pub fn borrow_seats(levels: &[LevelDemand]) -> BorrowedSeats {
    let nominal: usize = levels.iter().map(|level| level.nominal).sum();
    let exempt: usize = levels.iter().filter(|level| level.is_exempt).map(LevelDemand::min_current).sum();
    let remaining = nominal.saturating_sub(exempt);
    let limited = || levels.iter().filter(|level| !level.is_exempt);
    let min: usize = limited().map(|level| level.min).sum();
    let min_current: usize = limited().map(LevelDemand::min_current).sum();
    let mut fair_fraction = 0.0;
    let limits_of_limited: Vec<f64> = if remaining <= min {
        limited().map(|level| level.min as f64).collect()
    } else if remaining <= min_current {
        let share = (remaining - min) as f64 / (min_current - min) as f64;
        let limit = |level: &LevelDemand| level.min as f64 + ((level.min_current() - level.min) as f64 * share).round();
        limited().map(limit).collect()
    } else {
        let items: Vec<_> = limited().map(LevelDemand::item).collect();
        match allocate(nominal, &items) {
            Ok(Allocation { seats, fair_fraction: fraction }) => {
                fair_fraction = fraction;
                seats
            }
            Err(error) => {
                tracing::error!(error, "Unable to derive new concurrency limits");
                limited().map(|level| level.current as f64).collect()
            }
        }
    };
    let mut limits_of_limited = limits_of_limited.into_iter();
    let limit = |level: &LevelDemand| match level.is_exempt {
        true => level.min_current(),
        false => limits_of_limited.next().map_or(level.current, |limit| limit.round() as usize),
    };
    BorrowedSeats {
        limits: levels.iter().map(limit).collect(),
        targets: levels.iter().map(|level| level.item().target).collect(),
        fair_fraction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level with its lendable and borrowable seats, its high watermark and its smoothed demand.
    fn level(nominal: usize, lendable: usize, borrowable: usize, high_watermark: usize, smoothed: f64) -> LevelDemand {
        let (min, max) = (nominal - lendable, nominal + borrowable);
        LevelDemand { is_exempt: false, nominal, min, max, current: nominal, high_watermark, smoothed }
    }

    fn check(levels: &[LevelDemand], limits: &[usize], fair_fraction: f64) {
        let found = borrow_seats(levels);
        assert_eq!(found.limits, limits, "{levels:?}");
        assert!((found.fair_fraction - fair_fraction).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn idle_levels_lend_their_seats() {
        check(&[level(10, 5, 100, 0, 0.0), level(10, 5, 100, 30, 25.0)], &[5, 15], 0.6);
        check(&[level(10, 5, 100, 0, 0.0), level(10, 5, 2, 30, 25.0)], &[8, 12], 1.6);
        check(&[level(10, 0, 100, 0, 0.0), level(10, 0, 100, 30, 25.0)], &[10, 10], 0.0);
    }

    #[test]
    fn exempt_levels_take_their_demand() {
        let exempt = |high_watermark| LevelDemand { is_exempt: true, ..level(0, 0, 20, high_watermark, 0.0) };
        check(&[exempt(3), level(10, 5, 20, 0, 0.0), level(10, 5, 20, 0, 0.0)], &[3, 10, 10], 2.0);
        check(&[exempt(5), level(10, 5, 20, 10, 10.0), level(10, 5, 20, 8, 8.0)], &[5, 8, 7], 0.0);
        check(&[exempt(15), level(10, 5, 20, 10, 10.0), level(10, 5, 20, 8, 8.0)], &[15, 5, 5], 0.0);
        assert_eq!(borrow_seats(&[exempt(15)]).targets, [15.0]);
    }
}
