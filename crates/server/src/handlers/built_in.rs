//! Requests for objects of built-in kinds. Upstream registers a route for each verb of a resource, and its router
//! rejects everything else (upstream: `endpoints/installer.go`).

use std::sync::Arc;

use http::Method;
use pintle_registry::{ApiError, Backing, Resource, Scope, SubresourceRole, Verb};

use super::verbs;
use crate::connect::connect;
use crate::context::RequestContext;
use crate::http::Response;
use crate::read;

/// Handles a request for objects of a built-in kind.
///
/// # Errors
/// Returns an error if there is no route for the path and method, or if the request fails.
pub(crate) async fn handle(request: &Arc<RequestContext>, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let info = &request.info;
    let namespaced = resource.scope == Scope::Namespaced;
    let has_name = !info.name.is_empty() && !matches!(info.verb.as_str(), "list" | "watch" | "deletecollection");
    let has_route = match (namespaced, info.in_namespace) {
        (true, true) | (false, false) => true,
        // Without a namespace, the path of a namespaced resource is the path of a collection.
        (true, false) => !has_name,
        (false, true) => false,
    };
    // The deprecated `/watch/` paths exist for collections and for single objects, but not for subresources.
    let has_watch_route = info.subresource.is_empty() && (info.name.is_empty() || namespaced == info.in_namespace);
    let subresource = resource.subresource(&info.subresource);
    let connector = subresource.and_then(|found| match found.role {
        SubresourceRole::Connect(connector) => Some((found, connector)),
        _ => None,
    });
    let has_path = info.rest.is_empty() || connector.is_some_and(|(_, connector)| connector.has_path());
    if !has_route || !has_path || (info.is_watch_path && !has_watch_route) {
        return Err(ApiError::NoSuchPath);
    }
    if info.is_watch_path && request.method != Method::GET {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some((subresource, connector)) = connector {
        if !connector.serves(request.method.as_str()) {
            return Err(ApiError::MethodNotAllowed);
        }
        // The future is boxed, because it is large and few requests are connections.
        return Box::pin(connect(request, resource, subresource, connector)).await;
    }
    // There are no routes for HEAD.
    if request.method == Method::HEAD
        && (info.subresource.is_empty() || resource.subresource(&info.subresource).is_some())
    {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(warning) = &resource.deprecation {
        request.warn(warning.as_str());
    }
    if !info.subresource.is_empty() {
        let Some(subresource) = subresource else { return Err(ApiError::NoSuchPath) };
        let verb = match info.verb.as_str() {
            "create" => Verb::Create,
            "get" => Verb::Get,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            _ => return Err(ApiError::MethodNotAllowed),
        };
        if !subresource.verbs.has(verb) {
            return Err(ApiError::MethodNotAllowed);
        }
        return verbs::subresource(request, resource, subresource, verb).await;
    }
    let verb = match info.verb.as_str() {
        "get" if has_name => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" if !has_name => Verb::Create,
        "update" if has_name => Verb::Update,
        "patch" if has_name => Verb::Patch,
        "delete" if has_name => Verb::Delete,
        "deletecollection" => Verb::DeleteCollection,
        _ => return Err(ApiError::MethodNotAllowed),
    };
    if !resource.verbs.has(verb) {
        // A watch is a list with `watch=true`. The deprecated `/watch/` paths exist only for resources with a watch.
        return Err(match verb {
            Verb::Watch if info.is_watch_path => ApiError::NoSuchPath,
            Verb::Watch if resource.verbs.has(Verb::List) => {
                ApiError::MethodNotSupported { resource: resource.group_resource(), action: "watch".into() }
            }
            _ => ApiError::MethodNotAllowed,
        });
    }
    // A namespaced resource without a namespace in the path can only be listed and watched.
    if namespaced && !info.in_namespace && !matches!(verb, Verb::List | Verb::Watch) {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Backing::Computed(source) = resource.backing {
        return match verb {
            Verb::Get => read::computed::get(request, resource, source).await,
            Verb::List => read::computed::list(request, resource, source).await,
            _ => Err(ApiError::MethodNotAllowed),
        };
    }
    match verb {
        Verb::Get => read::get(request, resource).await,
        Verb::List => read::list(request, resource).await,
        Verb::Watch => read::watch(request, resource).await,
        verb => verbs::write(request, resource, verb).await,
    }
}
