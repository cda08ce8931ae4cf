//! The kinds of the group `apps`.

pub(crate) mod template;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    let _ = plural;
    None
}
