//! Strategies of the group `policy`.

mod eviction;
pub(crate) mod poddisruptionbudget;

pub use eviction::{budget_not_observed, budget_spares, count_disruption, is_covered_by};
