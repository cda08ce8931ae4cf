//! Get and list of objects that are worked out when somebody asks. They have no resourceVersion, and a list is whole:
//! what a client says of revisions and chunks means nothing here, as upstream has it.

use std::sync::Arc;

use http::StatusCode;
use pintle_registry::{ApiError, Computed, Resource};

use super::component_statuses;
use super::list::select;
use crate::context::RequestContext;
use crate::http::Response;
use crate::represent::{ListHead, ResponseFormat, compress};
use crate::request::query::ListOptions;

/// Answers a get.
pub(crate) async fn get(
    call: &RequestContext,
    resource: &Arc<Resource>,
    source: Computed,
) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let object = match source {
        Computed::ComponentStatuses => component_statuses::get(&call.cluster, &call.info.name).await?,
    };
    let body = form.body_of(object)?;
    Ok(compress(call, form.respond(StatusCode::OK, body)))
}

/// Answers a list.
pub(crate) async fn list(
    call: &RequestContext,
    resource: &Arc<Resource>,
    source: Computed,
) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let options = ListOptions::read(&call.query)?;
    let selection = select(call, &form, &options)?;
    let mut objects = match source {
        Computed::ComponentStatuses => component_statuses::list(&call.cluster).await,
    };
    objects.retain(|object| selection.matches_tree(object));
    let body = form.list_of(&ListHead::default(), objects)?;
    Ok(compress(call, form.respond(StatusCode::OK, body)))
}
