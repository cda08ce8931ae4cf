//! The handler chain of every request: CORS -> request info -> deadline -> authentication -> impersonation -> requests
//! in flight -> authorization -> handler -> response. Audit and flow control will come after impersonation. Errors
//! become a `Status` in one place.

mod admit;
mod request_end;

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{
    CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL, WARNING, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode, Version};
use hyper::body::Incoming;
use pintle_locks::Mutex;
use pintle_registry::ApiError;
use pintle_value::print::quote;
use tokio::sync::SetOnce;

use self::admit::{ArrivedRequest, Refusal, Sender};
use self::request_end::{AnsweredBy, Unanswered, record_end};
use crate::access::AccessControl;
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::handlers::route;
use crate::http::cors::{self, Cors};
use crate::http::unread_body::{self, BodyProtocol};
use crate::http::{
    Body, LastResponse, Peer, Response, ResponseDeadline, catch_panic, move_to_own_task, panic_response, panic_text,
    plain_error, text,
};
use crate::observe::{Interference, Observers, close_connection};
use crate::represent::error_response;
use crate::request::body_budget;
use crate::request::deadline::RequestDeadline;
use crate::request::in_flight::InFlightLimits;
use crate::request::info::RequestInfo;
use crate::request::log_limit::{LogLimit, Shortened};
use crate::request::query::Query;
use crate::request::recorder::Recorder;

/// The header with the ID of a request in audit events and logs.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The limits of the duration and the number of requests.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    /// Time limit of requests that are not long-running (`--request-timeout`).
    pub request_timeout: Duration,
    /// Maximum number of reads in flight; 0 means no limit (`--max-requests-inflight`).
    pub max_requests_in_flight: usize,
    /// Maximum number of writes in flight; 0 means no limit (`--max-mutating-requests-inflight`).
    pub max_mutating_requests_in_flight: usize,
    /// Maximum number of bytes of request bodies that are held at the same time; further bodies are refused. It should
    /// be several times the maximum of one body, which is 3 MiB.
    pub max_body_bytes_in_flight: usize,
}

impl Default for RequestLimits {
    /// kube-apiserver's defaults. kube-apiserver does not limit the bytes of bodies.
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            max_requests_in_flight: 400,
            max_mutating_requests_in_flight: 200,
            max_body_bytes_in_flight: Self::body_bytes_in_flight(None),
        }
    }
}

impl RequestLimits {
    /// The limit of the bytes of request bodies for a server with a memory budget: 1/32 of the budget, from 16 to 256
    /// MiB.
    #[must_use]
    pub fn body_bytes_in_flight(memory_limit: Option<u64>) -> usize {
        body_budget::default_limit(memory_limit)
    }
}

/// The configuration of the handler chain.
#[derive(Debug)]
pub(crate) struct HandlerChain {
    cors: Cors,
    request_timeout: Duration,
    in_flight: InFlightLimits,
    observers: Observers,
}

impl HandlerChain {
    pub(crate) fn new(cors: Cors, limits: &RequestLimits, observers: Observers) -> Self {
        let in_flight = InFlightLimits::new(limits.max_requests_in_flight, limits.max_mutating_requests_in_flight);
        Self { cors, request_timeout: limits.request_timeout, in_flight, observers }
    }
}

/// Handles a request.
pub(crate) async fn handle(
    cluster: Arc<Cluster>,
    access: Arc<AccessControl>,
    chain: &HandlerChain,
    peer: Peer,
    request: http::Request<Incoming>,
) -> Response {
    let recorder = Recorder::default();
    let (mut parts, body) = request.into_parts();
    let protocol = BodyProtocol::of(parts.version, &parts.headers);
    let origin = chain.cors.allowed_origin(&parts.headers).cloned();
    if origin.is_some() && parts.method == Method::OPTIONS {
        // Browsers send preflight requests without credentials.
        let mut response = preflight(&parts.headers, origin);
        unread_body::discard(body, protocol, false, &mut response).await;
        return response;
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::of(&parts.method, parts.uri.path(), &query);
    if parts.version == Version::HTTP_2 && !info.is_read_of_object() {
        move_to_own_task().await;
    }
    let started = tokio::time::Instant::from_std(recorder.trace.started());
    let deadline = RequestDeadline::of(&info, &query, started, chain.request_timeout);
    let mut sender = Sender::default();
    let admitted = match &deadline {
        Ok(deadline) => {
            let arrived = ArrivedRequest { peer: &peer, headers: &parts.headers, info: &info, query: &query };
            // The future is pinned here, as the handler's future is: futures of requests are large, and each wrapper
            // would copy them.
            let admitted = pin!(arrived.admit(&cluster, &access, &chain.in_flight, &recorder, &mut sender));
            deadline.run(admitted).await.unwrap_or_else(|exceeded| Err(exceeded.into()))
        }
        Err(error) => Err(Refusal::Error(error.clone())),
    };
    let deadline = deadline.unwrap_or(RequestDeadline::NEVER);
    let (in_flight, admitted) = match admitted {
        Ok(in_flight) => (Some(in_flight), Ok(())),
        Err(refusal) => (None, Err(refusal)),
    };
    // As in upstream, a subprotocol that contains a credential is not negotiated.
    if let Some(protocols) = sender.websocket_protocols.take()
        && let Ok(protocols) = HeaderValue::from_str(&protocols)
    {
        parts.headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
    }
    // The request ends when the context is dropped.
    cluster.metrics.begin_request(&info, recorder.trace.started());
    let held_body = cluster.bodies.begin();
    // As in upstream, clients without credentials do not keep HTTP/2 connections, which are prone to abuse.
    let is_last = sender.is_unauthenticated && cluster.limits_unauthenticated_http2;
    let request = Arc::new(RequestContext {
        cluster,
        access,
        info,
        method: parts.method,
        uri: parts.uri,
        source: peer.address,
        connection: peer.connection,
        query,
        headers: parts.headers,
        user: sender.user,
        body: Mutex::new(Some(body)),
        body_begun: AtomicBool::new(false),
        body_received: SetOnce::new(),
        held_body: Mutex::new(held_body),
        budget: OnceLock::new(),
        body_refused: AtomicBool::new(false),
        deadline,
        _in_flight: in_flight,
        upgrade: Mutex::new(parts.extensions.remove()),
        long_running: Mutex::default(),
        recorder,
        conversions: Arc::default(),
        observed: chain.observers.parts(),
    });
    let unanswered = Unanswered::new(&request, &chain.observers);
    let mut interference = Interference::None;
    let mut answered_by = admitted.as_ref().map_or_else(Refusal::answered_by, |()| AnsweredBy::Handler);
    let mut response = match admitted {
        Ok(()) => match deadline.run(catch_panic(pin!(answer(&request, chain, &mut interference)))).await {
            // The handler has noticed the deadline first.
            Ok(Ok(Err(_))) if request.is_body_late() => {
                answered_by = AnsweredBy::Deadline;
                refuse(&request, Refusal::DeadlineExceeded)
            }
            Ok(Ok(Err(_))) if request.is_body_refused() => {
                answered_by = AnsweredBy::InFlightLimit;
                refuse(&request, Refusal::TooManyInFlight)
            }
            Ok(handled) => {
                let handled = handled.unwrap_or_else(|panic| {
                    let (verb, path) = (request.info.verb.as_str(), &request.info.path);
                    tracing::error!(verb, path, panic = panic_text(&panic), "Request panicked");
                    Ok(panic_response())
                });
                let mut response = handled.unwrap_or_else(|error| error_response(&request, &error));
                if let Some(deadline) = deadline.instant() {
                    response.body_mut().limit(deadline, request.clone());
                }
                response
            }
            Err(exceeded) => {
                answered_by = AnsweredBy::Deadline;
                refuse(&request, exceeded.into())
            }
        },
        Err(refusal) => refuse(&request, refusal),
    };
    if let Some(deadline) = deadline.instant() {
        response.extensions_mut().insert(ResponseDeadline(deadline));
    }
    if is_last {
        response.extensions_mut().insert(LastResponse);
    }
    finish(&request.headers, origin, &mut response);
    for warning in request.recorder.headers() {
        response.headers_mut().append(WARNING, warning);
    }
    if request.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    unanswered.answered();
    let closes = match interference {
        Interference::None | Interference::Fail(_) => false,
        Interference::CloseConnection | Interference::LoseAnswer => true,
    };
    let is_unanswered = matches!(interference, Interference::CloseConnection);
    chain.observers.answered(&request, (!is_unanswered).then(|| response.status()));
    let mut response = record_end(&request, answered_by, response);
    if closes {
        close_connection(&request).await;
    }
    let unread = request.body.lock().take();
    if let Some(unread) = unread {
        unread_body::discard(unread, protocol, answered_by == AnsweredBy::Deadline, &mut response).await;
    }
    response
}

/// Handles a request, unless an observer interferes.
async fn answer(
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
    route(request).await
}

/// The response to a request that does not reach its handler, or whose handler takes too long.
fn refuse(request: &RequestContext, refusal: Refusal) -> Response {
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
            let target = request.uri.path_and_query().map_or_else(|| request.uri.path(), |target| target.as_str());
            let message = format!("Internal Server Error: {}: {error}", quote(target));
            plain_error(StatusCode::INTERNAL_SERVER_ERROR, &pintle_auth::escape_markup(&message))
        }
        Refusal::TooManyInFlight => {
            let message = "Too many requests, please try again later.";
            let mut response = plain_error(StatusCode::TOO_MANY_REQUESTS, message);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        // As in upstream, this is a `Status` without its kind, and with the content type that Go detects.
        Refusal::DeadlineExceeded => text(
            StatusCode::GATEWAY_TIMEOUT,
            "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the allotted \
             timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n",
        ),
    }
}

/// The response to a CORS preflight request.
fn preflight(headers: &HeaderMap, origin: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    finish(headers, origin, &mut response);
    response
}

/// Sets the headers that every response has. `origin` is the request's, if CORS allows it.
fn finish(request: &HeaderMap, origin: Option<HeaderValue>, response: &mut Response) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    headers.insert(AUDIT_ID, audit_id(request));
    if let Some(origin) = origin {
        cors::set_response_headers(origin, headers);
    }
}

/// The audit ID of a request. It is the client's ID, unchanged, if the client sends one, otherwise a new ID.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(AUDIT_ID).filter(|id| !id.is_empty()).cloned();
    own.unwrap_or_else(|| {
        let id = uuid::Uuid::new_v4().to_string();
        HeaderValue::from_maybe_shared(bytes::Bytes::from(id)).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}
