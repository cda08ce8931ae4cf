//! The kinds of the group `autoscaling`.

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(version: &str, plural: &str) -> Option<Arc<dyn Behaviour>> {
    let _ = (version, plural);
    None
}
