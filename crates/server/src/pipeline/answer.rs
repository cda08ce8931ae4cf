//! The answer to a request: the response of its handler, or of the filter that refused the request.

use std::pin::pin;
use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use pintle_registry::ApiError;
use pintle_value::print::quote;

use super::HandlerChain;
use super::admit::Refusal;
use super::request_end::AnsweredBy;
use crate::context::RequestContext;
use crate::handlers::route;
use crate::http::{Response, catch_panic, panic_response, panic_text, plain_error, text};
use crate::observe::Interference;
use crate::represent::error_response;
use crate::request::log_limit::{LogLimit, Shortened};

/// The answer to a request, before the headers that every response has are set.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) by: AnsweredBy,
    /// The text of the handler's panic, if it panicked.
    pub(super) panic: Option<String>,
    pub(super) interference: Interference,
}

/// Answers a request. A request that a filter has refused does not reach its handler.
pub(super) async fn answer(request: &Arc<RequestContext>, chain: &HandlerChain, refusal: Option<Refusal>) -> Answer {
    let (mut interference, mut panic) = (Interference::None, None);
    let refused = |refusal: Refusal| (refusal.answered_by(), refuse(request, refusal));
    let (by, response) = match refusal {
        Some(refusal) => refused(refusal),
        None => {
            match request.deadline.run(catch_panic(pin!(call_handler(request, chain, &mut interference)))).await {
                // The handler has noticed the deadline first.
                Ok(Ok(Err(_))) if request.is_body_late() => refused(Refusal::DeadlineExceeded),
                Ok(Ok(Err(_))) if request.is_body_refused() => refused(Refusal::TooManyRequests(1)),
                Ok(handled) => (AnsweredBy::Handler, handled_response(request, handled, &mut panic)),
                Err(exceeded) => refused(exceeded.into()),
            }
        }
    };
    Answer { response, by, panic, interference }
}

/// The response of a handler, which may have failed or panicked. The response ends at the deadline of the request.
fn handled_response(
    request: &Arc<RequestContext>,
    handled: std::thread::Result<Result<Response, ApiError>>,
    panic_message: &mut Option<String>,
) -> Response {
    let handled = handled.unwrap_or_else(|panic| {
        let (verb, path) = (request.info.verb.as_str(), &request.info.path);
        tracing::error!(verb, path, panic = panic_text(&panic), "Request panicked");
        *panic_message = Some(panic_text(&panic).to_owned());
        Ok(panic_response())
    });
    let mut response = handled.unwrap_or_else(|error| error_response(request, &error));
    if let Some(deadline) = request.deadline.instant() {
        response.body_mut().limit(deadline, request.clone());
    }
    response
}

/// Handles a request, unless an observer interferes.
async fn call_handler(
    request: &Arc<RequestContext>,
    chain: &HandlerChain,
    interference: &mut Interference,
) -> Result<Response, ApiError> {
    if request.observed.is_some() {
        *interference = Box::pin(chain.observers.intervene(request)).await;
        match interference {
            Interference::None | Interference::LoseAnswer => {}
            Interference::Fail(error) => {
                // Observers see the body although the request is not handled.
                request.body().await?;
                return Err(error.clone());
            }
            Interference::CloseConnection => {
                request.body().await?;
                return Ok(text(StatusCode::SERVICE_UNAVAILABLE, ""));
            }
        }
    }
    route(request, &chain.documents).await
}

/// The response to a request that does not reach its handler, or whose handler takes too long.
pub(super) fn refuse(request: &RequestContext, refusal: Refusal) -> Response {
    match refusal {
        Refusal::Error(error) => error_response(request, &error),
        Refusal::Forbidden(error) => {
            let mut response = error_response(request, &error);
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        }
        Refusal::AuthorizationFailed(error) => {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(unlogged) = LIMIT.allow() {
                let unlogged = (unlogged > 0).then_some(unlogged);
                tracing::error!(error = %Shortened(&error), unlogged, "Failed to authorize a request");
            }
            internal_error(request, &error)
        }
        Refusal::AuditFailed => internal_error(request, "failed to store audit event"),
        Refusal::TooManyRequests(retry_after) => {
            let message = "Too many requests, please try again later.";
            let mut response = plain_error(StatusCode::TOO_MANY_REQUESTS, message);
            response.headers_mut().insert(RETRY_AFTER, retry_after.into());
            response
        }
        Refusal::DeadlineExceeded => {
            if let Some(audit) = &request.audit {
                audit.set_timed_out();
            }
            // As in upstream, this is a `Status` without its kind, and with the content type that Go detects.
            text(
                StatusCode::GATEWAY_TIMEOUT,
                "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the allotted \
                 timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n",
            )
        }
    }
}

/// The response to a request that fails in a filter (upstream: `responsewriters.InternalError`).
fn internal_error(request: &RequestContext, error: &str) -> Response {
    let target = request.uri.path_and_query().map_or_else(|| request.uri.path(), |target| target.as_str());
    let message = format!("Internal Server Error: {}: {error}", quote(target));
    plain_error(StatusCode::INTERNAL_SERVER_ERROR, &pintle_auth::escape_markup(&message))
}
