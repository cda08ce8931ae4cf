//! Get: one object, not older than asked for.

use std::sync::Arc;

use http::StatusCode;
use pintle_cache::Object;
use pintle_registry::{ApiError, Resource};

use crate::cluster::{check_key, object_key};
use crate::context::RequestContext;
use crate::http::Response;
use crate::represent::{ResponseFormat, compress};
use crate::request::query::revision_parameter;

/// Answers a get.
pub(crate) async fn get(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    if call.query.flag("export") {
        return Err(ApiError::BadRequest(
            "the export parameter, deprecated since v1.14, is no longer supported".to_owned(),
        ));
    }
    check_key(&call.info.name)?;
    let revision = revision_parameter(call.query.get("resourceVersion").unwrap_or_default());
    match revision.map_err(ApiError::Unclassified)? {
        None => {
            call.cluster.catch_up().await?;
        }
        Some(0) => {}
        Some(revision) => super::wait_for(&call.cluster, revision).await?,
    }
    let object = find(call, resource)?;
    let body = form.body(&form.view.convert_one(&object).await?)?;
    Ok(compress(call, form.respond(StatusCode::OK, body)))
}

/// The object that a request names, as the cache has it.
///
/// # Errors
/// It is not there, or cannot be read.
pub(crate) fn find(call: &RequestContext, resource: &Arc<Resource>) -> Result<Arc<Object>, ApiError> {
    let watch_cache = call.cluster.watch_cache(resource)?;
    let key = object_key(call.namespace_of(resource), &call.info.name);
    watch_cache
        .read(&key)
        .map_err(|corrupt| call.cluster.unreadable(resource, &corrupt))?
        .ok_or_else(|| ApiError::NotFound { resource: resource.group_resource(), name: call.info.name.clone() })
}
