//! Handlers: select the operation of a request by its path and verb.

mod built_in;
mod custom_resource;
mod discovery;
mod documents;
mod encryption;
mod flow_control;
pub(crate) mod health;
mod metrics;
mod openapi;
pub(crate) mod openid;
mod storage_versions;
mod verbs;
mod version;
pub(crate) mod zpages;

use std::sync::Arc;

use http::Method;
use pintle_registry::ApiError;

use crate::connect::to_api_server;
use crate::context::RequestContext;
use crate::http::{Response, page_not_found};
use crate::objects::{Routing, model};

pub(crate) use documents::Documents;
pub use version::{BuildInfo, set_build_info, version};

/// Routes a request to its handler. `documents` are the cluster's cached documents.
///
/// # Errors
/// Returns an error if the request fails.
pub(crate) async fn route(request: &Arc<RequestContext>, documents: &Documents) -> Result<Response, ApiError> {
    // The target of a CONNECT may be a host, without a path. A success response would mean a tunnel to this host.
    if request.info.path.is_empty() || request.info.path.starts_with("//") {
        return Ok(page_not_found());
    }
    if let Some(service) = request.cluster.remote_api_service(&request.info.path) {
        return Ok(to_api_server(request, &service).await);
    }
    if request.info.is_resource {
        return handle_resource(request).await;
    }
    if request.method != Method::GET && is_get_only_document(request) {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(response) = metrics::respond(request) {
        return Ok(response);
    }
    if let Some(response) = health::respond(request).await {
        return Ok(response);
    }
    if let Some(response) = flow_control::respond(request) {
        return Ok(response);
    }
    if let Some(response) = encryption::respond(request).await {
        return response;
    }
    if let Some(response) = zpages::respond(request, || discovery::indexed_paths(&request.cluster)) {
        return Ok(response);
    }
    if let Some(service) = openapi::remote_document(&request.cluster, &request.info.path) {
        return Ok(to_api_server(request, &service).await);
    }
    if let Some(response) = openapi::respond(request, documents) {
        return Ok(response);
    }
    if let Some(response) = openid::respond(request)? {
        return Ok(response);
    }
    if let Some(response) = discovery::respond(request, documents)? {
        return Ok(response);
    }
    not_found(request)
}

/// The answer for a path that is not served: a `Status` below paths that upstream's router serves.
fn not_found(request: &RequestContext) -> Result<Response, ApiError> {
    let parts: Vec<&str> = request.info.path.trim_matches('/').split('/').collect();
    let is_routed = match parts.as_slice() {
        ["api" | "version", ..] => true,
        // No group of upstream's router has an empty name.
        ["apis", group, ..] if !group.is_empty() => {
            request.cluster.registry().group(group).is_some_and(|group| group.has_built_in())
        }
        _ => false,
    };
    if is_routed { Err(ApiError::NoSuchPath) } else { Ok(page_not_found()) }
}

/// True for documents that upstream's router serves for GET only, not even for HEAD. The handlers of other documents
/// accept any method. These include documents of custom resources' groups and versions.
fn is_get_only_document(request: &RequestContext) -> bool {
    let parts: Vec<&str> = request.info.path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api" | "version"] | ["api", "v1"] => true,
        ["apis", group, version] => request.cluster.registry().has_routes(group, version),
        _ => false,
    }
}

/// Handles a request for objects of a resource.
async fn handle_resource(request: &Arc<RequestContext>) -> Result<Response, ApiError> {
    let info = &request.info;
    let registry = request.cluster.registry();
    if !registry.serves(&info.group, &info.version) {
        return not_found(request);
    }
    storage_versions::check_recorded(request)?;
    match registry.resource(&info.group, &info.version, &info.resource) {
        Some(resource) => match model(resource).routing() {
            Routing::Routes => built_in::handle(request, resource).await,
            Routing::Handler => custom_resource::handle(request, resource).await,
        },
        None if registry.has_routes(&info.group, &info.version) => Err(ApiError::NoSuchPath),
        None => Ok(page_not_found()),
    }
}
