//! Strategies of the group `apiregistration.k8s.io`.

pub(crate) mod api_service;
mod local;

pub use self::local::{
    ApiServiceAvailability, ApiServiceManagement, ApiServicePriorities, RemoteApiService, api_service_name,
    api_services_resource, built_in_api_services, custom_api_service, is_available_api_service, is_local_api_service,
    set_availability,
};
