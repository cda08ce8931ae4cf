//! The kinds of the group `scheduling.k8s.io`.

mod priorityclass;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub use priorityclass::system_priority_classes;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "priorityclasses" => Some(Arc::new(priorityclass::PriorityClass)),
        _ => None,
    }
}
