//! The interface of cost estimators of functions (upstream: cel-go `checker/cost.go`).

use pintle_value::Str;

use super::{CostEstimate, SizeEstimate};
use crate::types::Type;

/// Estimates the sizes of variables and their fields (upstream: `EstimateSize` of cel-go's `CostEstimator`).
pub trait SizeEstimator {
    /// The size of the value at a path: the name of a variable, then field names. `@items` stands for the elements of a
    /// list, `@keys` and `@values` for the keys and values of a map. Returns `None` if the size is unknown.
    fn estimate_size(&self, path: &[Str], ty: &Type) -> Option<SizeEstimate>;
}

/// A [`SizeEstimator`] that knows no sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownSizes;

impl SizeEstimator for UnknownSizes {
    fn estimate_size(&self, _: &[Str], _: &Type) -> Option<SizeEstimate> {
        None
    }
}

/// The estimated cost of a call, and the estimated size of its result.
#[derive(Clone, Copy, Debug)]
pub struct CallEstimate {
    /// The cost of the call itself, without its arguments.
    pub cost: CostEstimate,
    /// The size of the result, if known.
    pub size: Option<SizeEstimate>,
}

impl CallEstimate {
    /// An estimate with a cost and an unknown result size.
    #[must_use]
    pub fn cost(cost: CostEstimate) -> Self {
        Self { cost, size: None }
    }

    /// An estimate with a cost and a result size.
    #[must_use]
    pub fn sized(cost: CostEstimate, size: SizeEstimate) -> Self {
        Self { cost, size: Some(size) }
    }
}

/// An argument or target of a call whose cost is estimated (upstream: `AstNode` of cel-go's `checker`).
#[derive(Clone, Debug)]
pub struct AstNode {
    /// The path of the value, empty if it is not part of a variable.
    pub path: Vec<Str>,
    /// The type.
    pub ty: Type,
    /// The value of an integer literal.
    pub int: Option<i64>,
    pub(crate) size: Option<SizeEstimate>,
}

/// A call whose cost is estimated.
pub struct EstimatedCall<'c> {
    /// The id of the overload.
    pub overload: &'c str,
    /// The target of a member call.
    pub target: Option<&'c AstNode>,
    /// The arguments.
    pub args: &'c [AstNode],
    pub(crate) sizes: &'c dyn SizeEstimator,
}

impl EstimatedCall<'_> {
    /// The size that the estimator has computed from the expression, for example the size of a literal.
    #[must_use]
    pub fn computed_size(&self, operand: &AstNode) -> Option<SizeEstimate> {
        operand.size
    }

    /// The size of an argument: computed from the expression, or else from the [`SizeEstimator`], or else unbounded.
    #[must_use]
    pub fn size(&self, operand: &AstNode) -> SizeEstimate {
        let known = operand.size.or_else(|| self.sizes.estimate_size(&operand.path, &operand.ty));
        known.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// A node that stands for the elements of an argument, if its type has parameters.
    #[must_use]
    pub fn elements(&self, operand: &AstNode) -> Option<AstNode> {
        let t = (*operand.ty.parameters().first()?).clone();
        let mut path = operand.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some(AstNode { path, ty: t, int: None, size: None })
    }
}
