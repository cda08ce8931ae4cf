//! The handlers of verbs that write. A write runs detached from its connection, so that it finishes even if the client
//! disconnects.

use std::future::Future;
use std::sync::Arc;

use pintle_registry::{ApiError, Resource, Subresource, Verb};

use crate::context::RequestContext;
use crate::http::Response;
use crate::request::work_memory::budget_error;
use crate::write::{self, LargeWrite};

/// Handles a verb on a subresource.
///
/// # Errors
/// Returns an error if the request fails.
pub(super) async fn subresource(
    request: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if verb == Verb::Get {
        return Box::pin(write::subresource(request, resource, subresource, verb)).await;
    }
    let (resource, subresource) = (resource.clone(), subresource.clone());
    run_detached(request, |request| async move { write::subresource(&request, &resource, &subresource, verb).await })
        .await
}

/// Handles a verb that writes objects.
///
/// # Errors
/// Returns an error if the request fails.
pub(super) async fn write(
    request: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    verb: Verb,
) -> Result<Response, ApiError> {
    if verb == Verb::DeleteCollection {
        // A deletecollection stops between two objects when its client disconnects or its time is over.
        return request.wait_for_write(Box::pin(write::delete_collection(request, resource))).await?;
    }
    let resource = resource.clone();
    run_detached(request, |request| async move {
        match verb {
            Verb::Create => write::create(&request, &resource).await,
            Verb::Update => write::update(&request, &resource).await,
            Verb::Patch => write::patch(&request, &resource).await,
            Verb::Delete => write::delete(&request, &resource).await,
            Verb::DeleteCollection | Verb::Get | Verb::List | Verb::Watch => Err(ApiError::MethodNotAllowed),
        }
    })
    .await
}

/// Tells a write that its client has disconnected, when the future that waits for the write is dropped.
struct DisconnectGuard<'a>(&'a RequestContext);

impl Drop for DisconnectGuard<'_> {
    fn drop(&mut self) {
        self.0.budget().disconnect();
    }
}

/// Runs a write to its end even if the client disconnects or its time is over, so that its allocations are committed or
/// reverted. The store is not closed before the write has ended. Computations that take much time or memory end
/// earlier, when they exhaust their budget (`pintle_budget`).
async fn run_detached<W>(
    request: &Arc<RequestContext>,
    write: impl FnOnce(Arc<RequestContext>) -> W,
) -> Result<Response, ApiError>
where
    W: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    let task = request.cluster.spawn_write(LargeWrite::new(request.clone(), write(request.clone())));
    let waiting = DisconnectGuard(request);
    let outcome = request.wait_for_write(task).await;
    std::mem::forget(waiting);
    match outcome? {
        // If the budget of time or memory is exhausted, it is the reason for any error of the write.
        Ok(result) => result.map_err(|error| request.budget().exhausted().map_or(error, budget_error)),
        // The panic is resumed in the request's own task, which logs and answers it.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(ApiError::Internal(format!("the request could not be completed: {error}"))),
        },
    }
}
