//! Strategies of the group `policy`.

mod eviction;
mod poddisruptionbudget;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use eviction::{budget_not_observed, budget_spares, count_disruption, is_covered_by};

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "poddisruptionbudgets" => Some(Arc::new(poddisruptionbudget::PodDisruptionBudgetStrategy)),
        _ => None,
    }
}
