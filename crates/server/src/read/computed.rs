//! Get and list of objects that are computed on request. They have no resourceVersion. As in upstream, lists ignore the
//! resourceVersion, limit and continue options.

use std::sync::Arc;

use http::StatusCode;
use pintle_registry::{ApiError, Computed, Resource};

use super::component_statuses;
use super::list::select;
use crate::context::RequestContext;
use crate::http::Response;
use crate::represent::{ListHead, ResponseFormat, compress};
use crate::request::query::ListOptions;

/// Handles a get.
pub(crate) async fn get(
    request: &RequestContext,
    resource: &Arc<Resource>,
    source: Computed,
) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let object = match source {
        Computed::ComponentStatuses => component_statuses::get(&request.cluster, &request.info.name).await?,
    };
    let body = format.encode_tree(object)?;
    Ok(compress(request, format.respond(StatusCode::OK, body)))
}

/// Handles a list.
pub(crate) async fn list(
    request: &RequestContext,
    resource: &Arc<Resource>,
    source: Computed,
) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let options = ListOptions::read(&request.query, &request.cluster.settings.gates)?;
    let selection = select(request, resource, &options)?;
    let mut objects = match source {
        Computed::ComponentStatuses => component_statuses::list(&request.cluster).await,
    };
    objects.retain(|object| selection.matches_tree(object));
    let body = format.encode_list(&ListHead::default(), objects)?;
    Ok(compress(request, format.respond(StatusCode::OK, body)))
}
