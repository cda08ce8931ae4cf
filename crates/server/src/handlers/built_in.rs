//! Requests for objects of built-in kinds. Upstream registers a route for each verb of a resource; what has no route is
//! refused by the router (upstream: `endpoints/installer.go`).

use std::sync::Arc;

use http::Method;
use pintle_registry::{ApiError, Backing, Resource, Scope, Verb};

use super::verbs;
use crate::context::RequestContext;
use crate::http::Response;
use crate::read;

/// Handles a request for objects of a built-in kind.
///
/// # Errors
/// The router knows no such path or method, or the request fails.
pub(crate) async fn handle(call: &Arc<RequestContext>, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let info = &call.info;
    let namespaced = resource.scope == Scope::Namespaced;
    let named_in_path = !info.name.is_empty() && !matches!(info.verb, "list" | "watch" | "deletecollection");
    let exists = match (namespaced, info.in_namespace) {
        (true, true) | (false, false) => true,
        // Over all namespaces there are collections, no single objects.
        (true, false) => !named_in_path,
        (false, true) => false,
    };
    // The deprecated paths watch objects in their namespaces, and no subresources.
    let watchable = info.subresource.is_empty() && (info.name.is_empty() || namespaced == info.in_namespace);
    if !exists || !info.rest.is_empty() || (info.watch_path && !watchable) {
        return Err(ApiError::NoSuchPath);
    }
    if info.watch_path && call.method != Method::GET {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(text) = &resource.deprecation {
        call.warn(text.as_str());
    }
    if !info.subresource.is_empty() {
        let Some(subresource) = resource.subresource(&info.subresource) else { return Err(ApiError::NoSuchPath) };
        let verb = match info.verb {
            "create" => Verb::Create,
            "get" => Verb::Get,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            _ => return Err(ApiError::MethodNotAllowed),
        };
        if !subresource.verbs.has(verb) {
            return Err(ApiError::MethodNotAllowed);
        }
        return verbs::subresource(call, resource, subresource, verb).await;
    }
    let verb = match info.verb {
        "get" if named_in_path => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" if !named_in_path => Verb::Create,
        "update" if named_in_path => Verb::Update,
        "patch" if named_in_path => Verb::Patch,
        "delete" if named_in_path => Verb::Delete,
        "deletecollection" => Verb::DeleteCollection,
        _ => return Err(ApiError::MethodNotAllowed),
    };
    if !resource.verbs.has(verb) {
        // Watches come to the paths of lists, and have deprecated paths only where there are watches.
        return Err(match verb {
            Verb::Watch if info.watch_path => ApiError::NoSuchPath,
            Verb::Watch if resource.verbs.has(Verb::List) => {
                ApiError::MethodNotSupported { resource: resource.group_resource(), action: "watch" }
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
            Verb::Get => read::computed::get(call, resource, source).await,
            Verb::List => read::computed::list(call, resource, source).await,
            _ => Err(ApiError::MethodNotAllowed),
        };
    }
    match verb {
        Verb::Get => read::get(call, resource).await,
        Verb::List => read::list(call, resource).await,
        Verb::Watch => read::watch(call, resource).await,
        verb => verbs::write(call, resource, verb).await,
    }
}
