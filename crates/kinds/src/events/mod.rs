//! Strategies for events. The core group and `events.k8s.io` serve the same objects, which are stored as core events.

mod convert;
mod event;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "events" => Some(Arc::new(event::EventStrategy { group: event::EventGroup::Events })),
        _ => None,
    }
}

/// Returns the strategy for events of the core group.
pub(crate) fn core_strategy() -> Arc<dyn Strategy> {
    Arc::new(event::EventStrategy { group: event::EventGroup::Core })
}
