//! Strategies of the group `scheduling.k8s.io`.

mod priorityclass;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use priorityclass::system_priority_classes;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "priorityclasses" => Some(Arc::new(priorityclass::PriorityClassStrategy)),
        _ => None,
    }
}
