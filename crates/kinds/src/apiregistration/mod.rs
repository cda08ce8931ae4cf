//! Strategies of the group `apiregistration.k8s.io`.

mod api_service;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "apiservices" => Some(Arc::new(api_service::ApiServiceStrategy)),
        _ => None,
    }
}
