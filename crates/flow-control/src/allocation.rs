//! The fair allocation of seats to priority levels (upstream: `conc_alloc.go`).

/// The lowest target. A smaller target counts as this.
const MIN_TARGET: f64 = 0.001;
/// The tolerance of sums.
const EPSILON: f64 = 0.000_000_1;

/// A priority level that is given seats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllocationItem {
    /// The seats that the level could use.
    pub target: f64,
    /// The minimum number of seats.
    pub lower_bound: f64,
    /// The maximum number of seats.
    pub upper_bound: f64,
}

/// The result of an allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// The seats of each level.
    pub seats: Vec<f64>,
    /// The fraction of its target that each level gets, unless a bound applies.
    pub fair_fraction: f64,
}

/// Divides `sum` seats. Each level gets the same fraction of its target, within its bounds.
///
/// # Errors
/// There is no solution.
pub fn allocate(sum: usize, items: &[AllocationItem]) -> Result<Allocation, String> {
    let sum = sum as f64;
    let targets: Vec<f64> = items.iter().map(|item| item.target.max(MIN_TARGET)).collect();
    check(items)?;
    // The sum of no numbers is -0.0.
    let total = |value: fn(&AllocationItem) -> f64| items.iter().map(value).sum::<f64>() + 0.0;
    let (low, high) = (total(|item| item.lower_bound), total(|item| item.upper_bound));
    if low - sum > EPSILON {
        return Err(format!("lower bounds sum to {low}, which is higher than the required sum of {sum}"));
    }
    if sum - high > EPSILON {
        return Err(format!("upper bounds sum to {high}, which is lower than the required sum of {sum}"));
    }
    if sum == 0.0 {
        return Ok(Allocation { seats: vec![0.0; items.len()], fair_fraction: 0.0 });
    }
    let fractions = |bound: fn(&AllocationItem) -> f64| -> Vec<f64> {
        items.iter().zip(&targets).map(|(item, target)| bound(item) / target).collect()
    };
    let lower = fractions(|item| item.lower_bound);
    let upper = fractions(|item| item.upper_bound);
    let least = |fractions: &[f64]| fractions.iter().copied().fold(f64::from(f32::MAX), f64::min);
    let greatest = |fractions: &[f64]| fractions.iter().copied().fold(0.0, f64::max);
    // The bounds leave no choice.
    if low - sum > -EPSILON {
        return Ok(Allocation {
            seats: items.iter().map(|item| item.lower_bound).collect(),
            fair_fraction: least(&lower),
        });
    }
    if sum - high > -EPSILON {
        return Ok(Allocation {
            seats: items.iter().map(|item| item.upper_bound).collect(),
            fair_fraction: greatest(&upper),
        });
    }
    // No bound applies.
    let fraction = sum / targets.iter().sum::<f64>();
    if greatest(&lower) <= fraction && fraction <= least(&upper) {
        return Ok(Allocation {
            seats: targets.iter().map(|target| target * fraction).collect(),
            fair_fraction: fraction,
        });
    }
    let fair_fraction = bounded_fraction(sum, low, &targets, &lower, &upper)?;
    let bounded =
        |(item, target): (&AllocationItem, &f64)| item.lower_bound.max(item.upper_bound.min(fair_fraction * target));
    Ok(Allocation { seats: items.iter().zip(&targets).map(bounded).collect(), fair_fraction })
}

fn check(items: &[AllocationItem]) -> Result<(), String> {
    for (index, AllocationItem { target, lower_bound, upper_bound }) in items.iter().enumerate() {
        if *lower_bound < 0.0 {
            return Err(format!("lower bound {index} is {lower_bound} but negative lower bounds are not allowed"));
        }
        if target < lower_bound {
            return Err(format!("target {index} is {target}, which is below its lower bound of {lower_bound}"));
        }
        if upper_bound < lower_bound {
            return Err(format!(
                "upper bound {index} is {upper_bound} but should not be less than the lower bound {lower_bound}"
            ));
        }
    }
    Ok(())
}

/// Raises the fraction from bound to bound until the seats sum up. Between two bounds, the seats of the levels whose
/// lower bounds were passed and whose upper bounds were not grow with the fraction.
fn bounded_fraction(sum: f64, low: f64, targets: &[f64], lower: &[f64], upper: &[f64]) -> Result<f64, String> {
    let begins = lower.iter().zip(targets).map(|(fraction, target)| (*fraction, *target, 1));
    let ends = upper.iter().zip(targets).map(|(fraction, target)| (*fraction, -target, -1));
    let mut bounds: Vec<(f64, f64, i32)> = begins.chain(ends).collect();
    bounds.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
    let (mut reached, mut fraction) = (low, f64::NEG_INFINITY);
    let (mut growing_targets, mut growing) = (0.0, 0);
    for (bound, target, count) in bounds {
        if bound > fraction {
            if growing > 0 {
                let solution = fraction + (sum - reached) / growing_targets;
                if solution <= bound {
                    return Ok(solution);
                }
                reached += (bound - fraction) * growing_targets;
            }
            fraction = bound;
            if reached >= sum {
                return Ok(fraction);
            }
        }
        growing_targets += target;
        growing += count;
    }
    Err("impossible: ran out of bounds to consider in bound-constrained problem".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sum: usize, items: &[[f64; 3]], expect: Result<(&[f64], f64), &str>) {
        let items: Vec<_> = items
            .iter()
            .map(|[lower_bound, target, upper_bound]| AllocationItem {
                target: *target,
                lower_bound: *lower_bound,
                upper_bound: *upper_bound,
            })
            .collect();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        match (allocate(sum, &items), expect) {
            (Ok(found), Ok((seats, fraction))) => {
                let is_same = found.seats.iter().zip(seats).all(|(a, b)| near(*a, *b));
                assert!(is_same && near(found.fair_fraction, fraction), "{items:?}: {found:?}");
            }
            (found, expect) => assert_eq!(found.err().as_deref(), expect.err(), "{items:?}"),
        }
    }

    #[test]
    fn each_level_gets_the_same_fraction_within_its_bounds() {
        check(0, &[], Ok((&[], 0.0)));
        check(10, &[[0.0, 10.0, 20.0], [0.0, 30.0, 20.0]], Ok((&[2.5, 7.5], 0.25)));
        check(10, &[[4.0, 4.0, 20.0], [0.0, 16.0, 20.0]], Ok((&[4.0, 6.0], 0.375)));
        check(10, &[[0.0, 4.0, 5.0], [0.0, 4.0, 3.0], [0.0, 4.0, 20.0]], Ok((&[3.5, 3.0, 3.5], 0.875)));
        check(10, &[[3.0, 4.0, 5.0], [7.0, 9.0, 9.0]], Ok((&[3.0, 7.0], 0.75)));
        check(14, &[[3.0, 4.0, 5.0], [7.0, 9.0, 9.0]], Ok((&[5.0, 9.0], 1.25)));
        check(10, &[[0.0, 0.0, 10.0], [0.0, 0.0, 10.0]], Ok((&[5.0, 5.0], 5000.0)));
    }

    #[test]
    fn impossible_problems_are_errors() {
        check(
            10,
            &[[6.0, 6.0, 6.0], [6.0, 6.0, 6.0]],
            Err("lower bounds sum to 12, which is higher than the required sum of 10"),
        );
        check(
            10,
            &[[0.0, 4.0, 4.0], [0.0, 4.0, 4.0]],
            Err("upper bounds sum to 8, which is lower than the required sum of 10"),
        );
        check(10, &[[6.0, 5.0, 6.0]], Err("target 0 is 5, which is below its lower bound of 6"));
        check(10, &[[6.0, 7.0, 5.0]], Err("upper bound 0 is 5 but should not be less than the lower bound 6"));
    }
}
