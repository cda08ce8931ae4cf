//! Strategies of the group `policy`.

mod poddisruptionbudget;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "poddisruptionbudgets" => Some(Arc::new(poddisruptionbudget::PodDisruptionBudgetStrategy)),
        _ => None,
    }
}
