//! The kinds of the group `node.k8s.io`.

mod runtime_class;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "runtimeclasses" => Some(Arc::new(runtime_class::RuntimeClass)),
        _ => None,
    }
}
