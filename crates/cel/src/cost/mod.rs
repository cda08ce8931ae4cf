//! The fourth layer: what evaluations cost and may cost, in the units of cel-go and with the rules that Kubernetes
//! adds. The limits on the rules of a CustomResourceDefinition are in these units, so that every oddity counts.

pub(crate) mod charge;
mod estimate;
mod range;

pub(crate) use charge::traversal;
pub use estimate::{CallEstimate, CallSizes, Operand, Sizes, UnknownSizes};
pub(crate) use estimate::{estimate, regex as regex_estimate};
pub use range::{CostEstimate, SizeEstimate};

/// What making a list costs.
pub(crate) const LIST_COST: u64 = 10;
/// What making a map costs.
pub(crate) const MAP_COST: u64 = 30;
/// What making an object costs.
pub(crate) const STRUCT_COST: u64 = 40;
/// What looking at one character or byte costs.
pub(crate) const PER_CHARACTER: f64 = 0.1;
/// What one character of a regular expression costs, per unit that looking at the text costs.
pub(crate) const PER_PATTERN_CHARACTER: f64 = 0.25;
