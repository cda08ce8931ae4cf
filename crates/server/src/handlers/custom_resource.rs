//! Which operation a request for custom resources is (upstream: apiextensions' `customresource_handler.go`). Built-in kinds
//! have routes, and what has none is answered by the router; here one handler looks at the verb, and refuses in its own
//! words.

use std::sync::Arc;

use pintle_registry::{ApiError, Resource, Scope, Verb};

use super::verbs;
use crate::context::RequestContext;
use crate::http::{Response, page_not_found};
use crate::{read, write};

/// Answers a request for objects of a custom kind.
pub(crate) async fn handle(call: &Arc<RequestContext>, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let info = &call.info;
    let namespaced = resource.scope == Scope::Namespaced;
    let over_all = namespaced && matches!(info.verb, "list" | "watch");
    if namespaced == info.namespace.is_empty() && !over_all {
        return Ok(page_not_found());
    }
    if let Some(text) = &resource.deprecation {
        call.warn(text.as_str());
    }
    let unsupported = || ApiError::MethodNotSupported { resource: resource.group_resource(), action: info.verb };
    let nameless = || ApiError::BadRequest("name must be provided".to_owned());
    if !info.subresource.is_empty() {
        let Some(subresource) = resource.subresource(&info.subresource) else {
            return Err(ApiError::NotFound { resource: resource.group_resource(), name: info.name.clone() });
        };
        let verb = match info.verb {
            "get" => Verb::Get,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            _ => return Err(unsupported()),
        };
        return verbs::subresource(call, resource, subresource, verb).await;
    }
    match info.verb {
        "get" => read::get(call, resource).await,
        "list" => read::list(call, resource).await,
        "watch" => read::watch(call, resource).await,
        "create" => verbs::write(call, resource, Verb::Create).await,
        "update" if info.name.is_empty() => Err(nameless()),
        "update" => verbs::write(call, resource, Verb::Update).await,
        "patch" if info.name.is_empty() => write::check_patch_type(call, resource).and_then(|()| Err(nameless())),
        "patch" => verbs::write(call, resource, Verb::Patch).await,
        "delete" => verbs::write(call, resource, Verb::Delete).await,
        "deletecollection" => verbs::write(call, resource, Verb::DeleteCollection).await,
        _ => Err(unsupported()),
    }
}
