//! Get: one object, at least as new as the requested resourceVersion.

use std::sync::Arc;

use http::StatusCode;
use pintle_cache::Object;
use pintle_registry::{ApiError, Resource};

use crate::cluster::{check_key, object_key};
use crate::context::RequestContext;
use crate::http::{Response, move_to_own_task};
use crate::represent::{ResponseFormat, compress};
use crate::request::query::revision_parameter;

/// The length of an object's JSON from which on its encoding may take long, in bytes.
const LARGE_OBJECT: usize = 64 * 1024;

/// Handles a get.
pub(crate) async fn get(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    if request.query.flag("export") {
        return Err(ApiError::BadRequest(
            "the export parameter, deprecated since v1.14, is no longer supported".to_owned(),
        ));
    }
    check_key(&request.info.name)?;
    wait_until_fresh(request, resource).await?;
    let object = find(request, resource)?;
    if object.json.len() > LARGE_OBJECT {
        // Other requests of an HTTP/2 connection do not wait for the encoding of a large object.
        move_to_own_task().await;
    }
    let converted = format.view.convert_one(&object).await.map_err(|error| format.view.read_error(&object, error))?;
    let body = format.encode_object(&converted)?;
    Ok(compress(request, format.respond(StatusCode::OK, body)))
}

/// Waits until reads see the revision that a get asks for. Without a resourceVersion, this is the newest revision.
///
/// # Errors
/// Returns an error if the resourceVersion cannot be parsed or is not reached in time.
pub(crate) async fn wait_until_fresh(request: &RequestContext, resource: &Resource) -> Result<(), ApiError> {
    let (cluster, storage) = (&request.cluster, request.cluster.storage_of_resource(resource));
    let revision = revision_parameter(request.query.get("resourceVersion").unwrap_or_default());
    match revision.map_err(ApiError::Unclassified)? {
        None => super::catch_up(cluster, storage).await.map(drop),
        Some(0) => Ok(()),
        Some(revision) => super::wait_for_revision(cluster, storage, revision).await,
    }
}

/// Returns the request's object from the watch cache.
///
/// # Errors
/// Returns an error if the object does not exist or cannot be decoded.
pub(crate) fn find(request: &RequestContext, resource: &Arc<Resource>) -> Result<Arc<Object>, ApiError> {
    let watch_cache = request.cluster.watch_cache(resource)?;
    let key = object_key(request.namespace_of(resource), &request.info.name);
    watch_cache
        .read(&key)
        .map_err(|corrupt| request.cluster.corrupt_read_error(resource, &corrupt))?
        .ok_or_else(|| ApiError::NotFound { resource: resource.group_resource(), name: request.info.name.clone() })
}
