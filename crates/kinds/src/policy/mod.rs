//! The kinds of the group `policy`.

mod poddisruptionbudget;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "poddisruptionbudgets" => Some(Arc::new(poddisruptionbudget::PodDisruptionBudget)),
        _ => None,
    }
}
