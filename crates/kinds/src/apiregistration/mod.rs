//! Strategies of the group `apiregistration.k8s.io`, and readers of its objects.

pub(crate) mod api_service;
mod availability;
mod local;
mod remote;

pub use self::availability::{ApiServiceAvailability, is_available_api_service, set_availability};
pub use self::local::{
    ApiServiceManagement, ApiServicePriorities, api_service_name, api_services_resource, built_in_api_services,
    custom_api_service, is_local_api_service,
};
pub use self::remote::RemoteApiService;
