//! Events, which the core group and `events.k8s.io` show as two views of one object, stored as the core one.

mod convert;
mod event;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "events" => Some(Arc::new(event::Event { view: event::View::Events })),
        _ => None,
    }
}

/// The behaviour of the core group's events.
pub(crate) fn core_behaviour(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "events" => Some(Arc::new(event::Event { view: event::View::Core })),
        _ => None,
    }
}
