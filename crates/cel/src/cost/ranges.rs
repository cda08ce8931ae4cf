//! Ranges of sizes and costs. Sums and products saturate.

use super::STRING_TRAVERSAL_COST_FACTOR;

/// The range of sizes that a value can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeEstimate {
    /// The lower bound.
    pub min: u64,
    /// The upper bound.
    pub max: u64,
}

/// The range of costs that a computation can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// The lower bound.
    pub min: u64,
    /// The upper bound.
    pub max: u64,
}

impl SizeEstimate {
    /// An unknown size.
    pub const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    /// A range of one size.
    #[must_use]
    pub const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of a computation that takes `cost` per unit of size.
    #[must_use]
    pub fn times_factor(self, factor: f64) -> CostEstimate {
        CostEstimate { min: multiply(self.min, factor), max: multiply(self.max, factor) }
    }

    /// The cost of a computation that runs once per unit of size.
    #[must_use]
    pub fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }

    /// The smallest range that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CostEstimate {
    /// A range of one cost.
    #[must_use]
    pub const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost multiplied by a factor.
    #[must_use]
    pub fn times_factor(self, factor: f64) -> Self {
        Self { min: multiply(self.min, factor), max: multiply(self.max, factor) }
    }

    /// The smallest range that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The cost of matching a regular expression against a text. The text counts as one character longer, so that the empty
/// text is not free.
pub(crate) fn regex_cost_estimate(text: SizeEstimate, pattern: CostEstimate) -> CostEstimate {
    text.plus(SizeEstimate::fixed(1)).times_factor(STRING_TRAVERSAL_COST_FACTOR).times(pattern)
}

fn multiply(value: u64, factor: f64) -> u64 {
    // The cast saturates.
    (value as f64 * factor).ceil() as u64
}
