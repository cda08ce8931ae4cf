//! Actual and estimated costs of evaluations, in cel-go's units and with the additions of Kubernetes. The cost limits
//! on the rules of a CRD use these units. So deviations of upstream from its own model are matched, too.

mod call;
mod ranges;
pub(crate) mod tracker;

pub use call::{AstNode, CallEstimate, EstimatedCall, SizeEstimator, UnknownSizes};
pub(crate) use ranges::regex_cost_estimate;
pub use ranges::{CostEstimate, SizeEstimate};

/// The cost of creating a list (upstream: `ListCreateBaseCost`).
pub(crate) const LIST_CREATE_BASE_COST: u64 = 10;
/// The cost of creating a map (upstream: `MapCreateBaseCost`).
pub(crate) const MAP_CREATE_BASE_COST: u64 = 30;
/// The cost of creating an object (upstream: `StructCreateBaseCost`).
pub(crate) const STRUCT_CREATE_BASE_COST: u64 = 40;
/// The cost of traversing one character or byte (upstream: `StringTraversalCostFactor`).
pub(crate) const STRING_TRAVERSAL_COST_FACTOR: f64 = 0.1;
/// The cost of one character of a regular expression, per traversal unit of the text (upstream:
/// `RegexStringLengthCostFactor`).
pub(crate) const REGEX_STRING_LENGTH_COST_FACTOR: f64 = 0.25;
