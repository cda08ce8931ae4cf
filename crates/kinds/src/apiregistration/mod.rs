//! Strategies of the group `apiregistration.k8s.io`.

mod api_service;
mod local;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use self::local::{
    ApiServiceManagement, api_service_name, api_services_resource, built_in_api_services, custom_api_service,
    has_own_availability, is_available_api_service, is_local_api_service, set_availability,
};

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "apiservices" => Some(Arc::new(api_service::ApiServiceStrategy)),
        _ => None,
    }
}
