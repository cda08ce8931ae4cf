//! Strategies of the group `node.k8s.io`.

mod runtime_class;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "runtimeclasses" => Some(Arc::new(runtime_class::RuntimeClassStrategy)),
        _ => None,
    }
}
