//! The kinds of the group `apiregistration.k8s.io`.

mod api_service;

use std::sync::Arc;

use pintle_registry::Behaviour;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    match plural {
        "apiservices" => Some(Arc::new(api_service::ApiService)),
        _ => None,
    }
}
