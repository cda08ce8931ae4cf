//! The handler chain of every request: CORS -> request info -> deadline -> authentication -> impersonation -> flow
//! control or requests in flight -> authorization -> handler -> response. Errors become a `Status` in one place.

mod admit;
mod answer;
mod departure;
mod flow_control;
mod request_end;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderValue, WARNING};
use http::{HeaderMap, Method, StatusCode, Version};
use hyper::body::Incoming;
use pintle_flow_control::FlowControlOptions;

use self::admit::{Arrival, Sender};
use self::answer::{Answer, answer};
use self::request_end::{AnsweredBy, Unanswered, is_complete, record_end};
use crate::access::AccessControl;
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::handlers::Documents;
use crate::http::cors::{self, Cors};
use crate::http::unread_body::{self, BodyProtocol};
use crate::http::{Body, LastResponse, Peer, Response, ResponseDeadline, move_to_own_task};
use crate::observe::{Observers, close_connection};
use crate::request::audit_id::{AUDIT_ID, audit_id};
use crate::request::body_budget;
use crate::request::flow::timed;
use crate::request::in_flight::InFlightLimits;

/// Maximum number of seats that priority levels share. Upstream's flags have 32 bits there.
const MAX_SEATS: usize = i32::MAX as usize;

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
    /// True if priority levels share the sum of both maximums (`--enable-priority-and-fairness`). Then requests wait in
    /// queues, and the two maximums do not apply themselves.
    pub priority_and_fairness: bool,
    /// True if the real use of seats and processors limits a flow (`--flow-control-actual-cost`). See
    /// [`FlowControlOptions::charges_actual_cost`].
    pub charges_actual_cost: bool,
}

impl Default for RequestLimits {
    /// kube-apiserver's defaults. kube-apiserver does not limit the bytes of bodies.
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            max_requests_in_flight: 400,
            max_mutating_requests_in_flight: 200,
            max_body_bytes_in_flight: Self::body_bytes_in_flight(None),
            priority_and_fairness: true,
            charges_actual_cost: true,
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

    /// The options of flow control; `None` if it is off.
    pub(crate) fn flow_control(&self) -> Option<FlowControlOptions> {
        self.priority_and_fairness.then(|| FlowControlOptions {
            server_concurrency_limit: self
                .max_requests_in_flight
                .saturating_add(self.max_mutating_requests_in_flight)
                .min(MAX_SEATS),
            charges_actual_cost: self.charges_actual_cost,
        })
    }
}

/// The configuration of the handler chain.
#[derive(Debug)]
pub(crate) struct HandlerChain {
    cors: Cors,
    request_timeout: Duration,
    in_flight: InFlightLimits,
    observers: Observers,
    documents: Documents,
}

impl HandlerChain {
    pub(crate) fn new(cors: Cors, limits: &RequestLimits, observers: Observers) -> Self {
        let in_flight = InFlightLimits::new(limits.max_requests_in_flight, limits.max_mutating_requests_in_flight);
        Self { cors, request_timeout: limits.request_timeout, in_flight, observers, documents: Documents::default() }
    }
}

/// Handles a request: it arrives, passes the filters, is answered, and ends.
pub(crate) async fn handle(
    cluster: Arc<Cluster>,
    access: Arc<AccessControl>,
    chain: &HandlerChain,
    peer: Peer,
    request: http::Request<Incoming>,
) -> Response {
    let (parts, body) = request.into_parts();
    let protocol = BodyProtocol::of(parts.version, &parts.headers);
    let origin = chain.cors.allowed_origin(&parts.headers).cloned();
    if origin.is_some() && parts.method == Method::OPTIONS {
        // Browsers send preflight requests without credentials.
        let mut response = preflight(&parts.headers, origin);
        unread_body::discard(body, protocol, false, &mut response).await;
        return response;
    }
    let is_http2 = parts.version == Version::HTTP_2;
    let arrival = Arrival::new(cluster, access, peer, parts, chain.request_timeout);
    if is_http2 && !arrival.info.is_read_of_object() {
        move_to_own_task().await;
    }
    let mut sender = Sender::default();
    // The futures are pinned, because futures of requests are large, and each wrapper would copy them.
    let admitted = pin!(arrival.admit(&chain.in_flight, &mut sender)).await;
    let (in_flight, refusal) = match admitted {
        Ok(in_flight) => (Some(in_flight), None),
        Err(refusal) => (None, Some(refusal)),
    };
    // As in upstream, clients without credentials do not keep HTTP/2 connections, which are prone to abuse.
    let is_last = sender.is_unauthenticated && arrival.cluster.settings.limits_unauthenticated_http2;
    let request = arrival.into_context(sender, in_flight, body, chain.observers.parts());
    if let Some(flow) = &request.flow {
        flow.describe(&request, &request.user, &request.info);
    }
    let unanswered = Unanswered::new(&request, &chain.observers);
    let answering = pin!(answer(&request, chain, refusal));
    let mut answer = match &request.flow {
        Some(flow) if matches!(&*request.info.verb, "list" | "watch") => {
            timed(answering, |took| flow.charge(took)).await
        }
        _ => answering.await,
    };
    if is_last {
        answer.response.extensions_mut().insert(LastResponse);
    }
    if let Some(flow) = request.flow.as_ref().filter(|_| answer.by != AnsweredBy::Deadline) {
        flow.set_headers(answer.response.headers_mut());
    }
    complete(&request, origin, &mut answer.response);
    if let Some(audit) = &request.audit {
        match &answer.panic {
            Some(panic) => audit.panicked(panic, request.recorder.annotations()).await,
            None => audit.started(answer.response.status(), || request.recorder.annotations()).await,
        }
    }
    unanswered.answered();
    end(&request, &chain.observers, protocol, answer).await
}

/// Sets the headers of a response and its deadline.
fn complete(request: &RequestContext, origin: Option<HeaderValue>, response: &mut Response) {
    if let Some(deadline) = request.deadline.instant() {
        response.extensions_mut().insert(ResponseDeadline(deadline));
    }
    set_common_headers(request.audit_id().clone(), origin, response);
    for warning in request.recorder.headers() {
        response.headers_mut().append(WARNING, warning);
    }
    if request.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
}

/// Ends a request: tells observers the answer, records it, and discards the unread part of the body.
async fn end(request: &Arc<RequestContext>, observers: &Observers, protocol: BodyProtocol, answer: Answer) -> Response {
    let Answer { response, by, interference, .. } = answer;
    observers.answered(request, (!interference.prevents_handling()).then(|| response.status()));
    let mut response = record_end(request, by, response);
    if let Some(audit) = request.audit.as_ref().filter(|_| is_complete(&response)) {
        // The client gets no answer before it is recorded.
        audit.complete_before_answer().await;
    }
    if interference.closes_connection() {
        close_connection(request).await;
    }
    let unread = request.body.lock().take();
    if let Some(unread) = unread {
        unread_body::discard(unread, protocol, by == AnsweredBy::Deadline, &mut response).await;
    }
    response
}

/// The response to a CORS preflight request.
fn preflight(headers: &HeaderMap, origin: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    set_common_headers(audit_id(headers), origin, &mut response);
    response
}

/// Sets the headers that every response has. `origin` is the request's origin, if CORS allows it.
fn set_common_headers(audit_id: HeaderValue, origin: Option<HeaderValue>, response: &mut Response) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    // As in upstream, the ID that a backend returns follows the server's own.
    let of_backend: Vec<HeaderValue> = headers.get_all(AUDIT_ID).iter().cloned().collect();
    headers.insert(AUDIT_ID, audit_id);
    for id in of_backend {
        headers.append(AUDIT_ID, id);
    }
    if let Some(origin) = origin {
        cors::set_response_headers(origin, headers);
    }
}
