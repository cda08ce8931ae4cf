//! The kinds of the group `apiextensions.k8s.io`.

mod definition;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "customresourcedefinitions" => Some(Arc::new(definition::Definition)),
        _ => None,
    }
}
