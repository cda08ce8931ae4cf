//! Ranges of sizes and costs. Sums and products stay at the largest number instead of overflowing.

/// How large a value may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// What something may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

impl SizeEstimate {
    /// Anything.
    pub const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    /// Exactly this.
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

    /// What something costs that costs this much per unit of size.
    #[must_use]
    pub fn per_unit(self, cost: f64) -> CostEstimate {
        CostEstimate { min: factor(self.min, cost), max: factor(self.max, cost) }
    }

    /// What something costs that is done once per unit of size.
    #[must_use]
    pub fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }

    /// The range that both are in.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CostEstimate {
    /// Exactly this.
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

    /// The cost times a number.
    #[must_use]
    pub fn per_unit(self, cost: f64) -> Self {
        Self { min: factor(self.min, cost), max: factor(self.max, cost) }
    }

    /// The range that both are in.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

fn factor(x: u64, y: f64) -> u64 {
    // Casting a double that is too large gives the largest integer.
    (x as f64 * y).ceil() as u64
}
