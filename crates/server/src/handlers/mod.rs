//! Handlers: which operation a request asks for, by its path and verb.

mod built_in;
mod custom_resource;
mod discovery;
pub(crate) mod health;
mod openapi;
mod verbs;
mod version;

use std::sync::Arc;

use http::Method;
use pintle_registry::ApiError;

use crate::context::RequestContext;
use crate::http::{Response, page_not_found};
use crate::objects::{Routing, model};

pub use version::version;

/// Routes a request to its handler.
///
/// # Errors
/// The request is refused.
pub(crate) async fn route(call: &Arc<RequestContext>) -> Result<Response, ApiError> {
    if call.info.is_resource {
        return resource(call).await;
    }
    if !matches!(call.method, Method::GET | Method::HEAD) && is_document(&call.info.path) {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(response) = health::answer(call) {
        return Ok(response);
    }
    if let Some(response) = openapi::answer(call) {
        return Ok(response);
    }
    if let Some(response) = discovery::answer(call)? {
        return Ok(response);
    }
    if call.info.path.starts_with("/api/") {
        return Err(ApiError::NoSuchPath);
    }
    Ok(page_not_found())
}

/// True for documents that upstream's router serves, for GET only. Other documents have handlers that take any method.
fn is_document(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(parts.as_slice(), ["api" | "version"] | ["api", "v1"] | ["apis", _, _])
}

async fn resource(call: &Arc<RequestContext>) -> Result<Response, ApiError> {
    let info = &call.info;
    let registry = call.cluster.registry();
    if !registry.serves(&info.group, &info.version) {
        return if info.group.is_empty() { Err(ApiError::NoSuchPath) } else { Ok(page_not_found()) };
    }
    match registry.resource(&info.group, &info.version, &info.resource) {
        Some(resource) => match model(resource).routing() {
            Routing::Routes => built_in::handle(call, resource).await,
            Routing::Handler => custom_resource::handle(call, resource).await,
        },
        None if registry.has_routes(&info.group, &info.version) => Err(ApiError::NoSuchPath),
        None => Ok(page_not_found()),
    }
}
