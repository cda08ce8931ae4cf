//! Requests for custom resources (upstream: apiextensions' `customresource_handler.go`). Built-in kinds have routes;
//! here one handler serves all verbs, with error messages of its own.

use std::sync::Arc;

use pintle_registry::{ApiError, Resource, Scope, Verb};

use super::verbs;
use crate::context::RequestContext;
use crate::http::{Response, page_not_found};
use crate::{read, write};

/// Handles a request for custom resources.
///
/// # Errors
/// Returns an error if the verb is not supported, or if the request fails.
pub(crate) async fn handle(request: &Arc<RequestContext>, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let info = &request.info;
    let namespaced = resource.scope == Scope::Namespaced;
    let spans_namespaces = namespaced && matches!(info.verb.as_str(), "list" | "watch");
    if namespaced == info.namespace.is_empty() && !spans_namespaces {
        return Ok(page_not_found());
    }
    if resource.unresolvable {
        return Err(ApiError::Internal("error resolving resource".to_owned()));
    }
    if let Some(warning) = &resource.deprecation {
        request.warn(warning.as_str());
    }
    let unsupported =
        || ApiError::MethodNotSupported { resource: resource.group_resource(), action: info.verb.clone() };
    let name_required = || ApiError::BadRequest("name must be provided".to_owned());
    if !info.subresource.is_empty() {
        let Some(subresource) = resource.subresource(&info.subresource) else {
            return Err(ApiError::NotFound { resource: resource.group_resource(), name: info.name.clone() });
        };
        let verb = match info.verb.as_str() {
            "get" => Verb::Get,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            _ => return Err(unsupported()),
        };
        return verbs::subresource(request, resource, subresource, verb).await;
    }
    match info.verb.as_str() {
        "get" => read::get(request, resource).await,
        "list" => read::list(request, resource).await,
        "watch" => read::watch(request, resource).await,
        "create" => verbs::write(request, resource, Verb::Create).await,
        "update" if info.name.is_empty() => Err(name_required()),
        "update" => verbs::write(request, resource, Verb::Update).await,
        "patch" if info.name.is_empty() => {
            write::check_patch_type(request, resource).and_then(|()| Err(name_required()))
        }
        "patch" => verbs::write(request, resource, Verb::Patch).await,
        "delete" => verbs::write(request, resource, Verb::Delete).await,
        "deletecollection" => verbs::write(request, resource, Verb::DeleteCollection).await,
        _ => Err(unsupported()),
    }
}
