//! Strategies of subresources that write their parent object.

use pintle_value::{Errors, Value};

use super::{ClusterValidation, CostBudget, StrategyContext};

/// The rules of a subresource whose PUT and PATCH write the parent object.
pub trait SubresourceStrategy: Send + Sync {
    /// Resets the fields that this subresource may not change to their values in the old object (upstream:
    /// `PrepareForUpdate`).
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value);

    /// Validates the update (upstream: `ValidateUpdate`).
    fn validate_update(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// Runs the expensive validations; see [`Strategy::validate_expensive`](super::Strategy::validate_expensive).
    fn validate_expensive(&self, _: &Value, _old: &Value, _errors: &mut Errors, _: CostBudget) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    /// The part of the validation that depends on the cluster; see [`Strategy::cluster_validation`](super::Strategy::cluster_validation).
    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        None
    }

    /// Warnings for the client (upstream: `WarningsOnUpdate`).
    fn warnings(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The members of an object whose content most patches of this subresource neither change nor read. The objects in
    /// them are decoded on first use.
    fn seldom_used(&self) -> &'static [&'static str] {
        &[]
    }
}
