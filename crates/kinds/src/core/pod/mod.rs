//! Pods and what holds a pod template. The rules of a pod template are shared with the workload kinds of other groups,
//! which call the functions exported here.

mod defaults;
mod image;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) use defaults::{pod_spec_defaults, template_defaults};

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    let _ = plural;
    None
}
