//! The handlers of verbs that write. A write runs detached from its connection, so that it ends even if the client
//! disconnects.

use std::future::Future;
use std::sync::Arc;

use pintle_registry::{ApiError, Resource, Subresource, Verb};

use crate::context::RequestContext;
use crate::http::Response;
use crate::write;

/// Handles a verb on a subresource.
///
/// # Errors
/// The request is refused.
pub(super) async fn subresource(
    call: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if verb == Verb::Get {
        return write::subresource(call, resource, subresource, verb).await;
    }
    let (call, resource, subresource) = (call.clone(), resource.clone(), subresource.clone());
    run_detached(async move { write::subresource(&call, &resource, &subresource, verb).await }).await
}

/// Handles a verb that writes objects.
///
/// # Errors
/// The request is refused.
pub(super) async fn write(
    call: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    verb: Verb,
) -> Result<Response, ApiError> {
    let (call, resource) = (call.clone(), resource.clone());
    if verb == Verb::DeleteCollection {
        // A deletecollection stops between two objects when its client disconnects.
        return write::delete_collection(&call, &resource).await;
    }
    run_detached(async move {
        match verb {
            Verb::Create => write::create(&call, &resource).await,
            Verb::Update => write::update(&call, &resource).await,
            Verb::Patch => write::patch(&call, &resource).await,
            Verb::Delete => write::delete(&call, &resource).await,
            Verb::DeleteCollection | Verb::Get | Verb::List | Verb::Watch => Err(ApiError::MethodNotAllowed),
        }
    })
    .await
}

/// Runs a write to its end even if the client disconnects, so that its allocations are either kept or given back.
async fn run_detached(
    write: impl Future<Output = Result<Response, ApiError>> + Send + 'static,
) -> Result<Response, ApiError> {
    match tokio::spawn(write).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "Write request panicked");
            Err(ApiError::Internal("the request could not be completed".to_owned()))
        }
    }
}
