//! The context of one request: what the pipeline learned about it, passed to every handler.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Uri};
use hyper::body::{Body, Frame, Incoming};
use hyper::upgrade::OnUpgrade;
use pintle_auth::{Authorization, UserInfo};
use pintle_budget::Budget;
use pintle_catalog::Catalog;
use pintle_locks::Mutex;
use pintle_metrics::GaugeGuard;
use pintle_registry::{ApiError, Resource, Scope, StrategyContext};
use pintle_value::Value;
use tokio::sync::SetOnce;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::access::{AccessControl, forbidden_error};
use crate::cluster::{Cluster, RecordedRequest, RequestSeries};
use crate::conversion::MemoizedConversions;
use crate::http::{BodyOwner, ConnectionGuard};
use crate::objects::encode::{Shape, json};
use crate::request::audit::RequestAudit;
use crate::request::audit_id::audit_id;
use crate::request::body_budget::{HeldBody, TooManyBytes};
use crate::request::deadline::{DeadlineExceeded, RequestDeadline};
use crate::request::flow::Flow;
use crate::request::in_flight::InFlightRequest;
use crate::request::info::RequestInfo;
use crate::request::negotiate::EndpointRestrictions;
use crate::request::observed::ObservedParts;
use crate::request::query::Query;
use crate::request::recorder::Recorder;
use crate::request::trace::Step;
use crate::request::work_memory::{ShortOfMemory, short_of_memory, write_timeout};

/// Maximum size of a request body, in bytes (kube-apiserver's limit).
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Time limit of a write after its body was received (upstream: `handlers.requestTimeoutUpperBound`).
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// The error of a request for whose body there is no room. Clients get the same answer as when too many requests are in
/// flight.
fn too_many_bodies() -> ApiError {
    let message = "Too many requests, please try again later.".to_owned();
    ApiError::TooManyRequests { message, retry_after: 1, causes: Vec::new() }
}

/// A request after authentication. Dropping it ends the request: it is no longer in flight.
pub(crate) struct RequestContext {
    pub(crate) cluster: Arc<Cluster>,
    /// The authenticators and authorizers of this request; a reload affects later requests only.
    pub(crate) access: Arc<AccessControl>,
    pub(crate) info: RequestInfo,
    pub(crate) method: Method,
    /// The path and the query as they were sent.
    pub(crate) uri: Uri,
    /// The client's address.
    pub(crate) source: Option<SocketAddr>,
    /// The connection, while it is open.
    pub(crate) connection: Weak<ConnectionGuard>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) user: UserInfo,
    /// The unread part of the body. It stays here during reads, so the end of the request always finds the rest.
    pub(crate) body: Mutex<Option<Incoming>>,
    /// Set once [`RequestContext::body`] reads the body.
    pub(crate) body_begun: AtomicBool,
    /// The time at which the body was received completely.
    pub(crate) body_received: SetOnce<Instant>,
    /// Counts the bytes of the body as long as the request and the values decoded from the body exist.
    pub(crate) held_body: Mutex<HeldBody>,
    /// The budget of the work for a write. Set when the work begins.
    pub(crate) budget: OnceLock<Budget>,
    /// Set if there was no room for the body.
    pub(crate) body_refused: AtomicBool,
    pub(crate) deadline: RequestDeadline,
    /// Counts the request as in flight, including writes that continue after it. `None` if the request was refused.
    pub(crate) _in_flight: Option<InFlightRequest>,
    pub(crate) upgrade: Mutex<Option<OnUpgrade>>,
    /// Counts a connection as long-running.
    pub(crate) long_running: Mutex<Option<GaugeGuard<RequestSeries>>>,
    /// The ID of the request for audit, see [`RequestContext::audit_id`].
    pub(crate) audit_id: OnceLock<HeaderValue>,
    /// The audit of the request; `None` if it has no events.
    pub(crate) audit: Option<Arc<RequestAudit>>,
    /// The flow of the request; `None` if flow control has not classified it.
    pub(crate) flow: Option<Arc<Flow>>,
    pub(crate) recorder: Recorder,
    /// The request's objects that were already converted to other versions.
    pub(crate) conversions: Arc<MemoizedConversions>,
    /// The data that observers get later; `None` if the server has no observers.
    pub(crate) observed: Option<Box<ObservedParts>>,
}

impl BodyOwner for Arc<RequestContext> {
    fn produced(&self, took: Duration) {
        if let Some(flow) = &self.flow {
            flow.charge(took);
        }
    }
}

impl Drop for RequestContext {
    fn drop(&mut self) {
        self.cluster.metrics.end_request(&self.info);
    }
}

impl RequestContext {
    /// The ID of the request for audit.
    pub(crate) fn audit_id(&self) -> &HeaderValue {
        self.audit_id.get_or_init(|| audit_id(&self.headers))
    }

    /// The negotiation endpoint of plain objects in all served encodings.
    pub(crate) fn endpoint(&self) -> EndpointRestrictions {
        EndpointRestrictions { has_cbor: self.cluster.settings.cbor, ..EndpointRestrictions::PLAIN }
    }

    /// The request attributes that strategies use.
    pub(crate) fn strategy_context(&self, dry_run: bool) -> StrategyContext {
        StrategyContext {
            now: self.cluster.now(),
            user: self.user.name.clone(),
            uid: self.user.uid.clone(),
            groups: self.user.groups.clone(),
            extra: self.user.extra.clone(),
            dry_run,
            gates: self.cluster.settings.gates.clone(),
            allow_privileged: self.cluster.settings.allow_privileged,
        }
    }

    /// The namespace of the request's objects; empty for cluster-scoped resources.
    pub(crate) fn namespace_of(&self, resource: &Resource) -> &str {
        if resource.scope == Scope::Namespaced { &self.info.namespace } else { "" }
    }

    /// Checks that the user may also do `verb` on the request's object.
    ///
    /// # Errors
    /// `Forbidden` if no authorizer allows the verb; an internal error if the authorizers could not decide.
    pub(crate) async fn authorize(&self, verb: &str) -> Result<(), ApiError> {
        let authorization = self.decide(verb).await;
        match authorization.error {
            _ if authorization.is_allowed() => Ok(()),
            Some(error) => Err(ApiError::Internal(error)),
            None => Err(forbidden_error(&self.user, &self.info, &self.query, verb, &authorization.reason)),
        }
    }

    /// Decides whether the user may do `verb` on the object of the request.
    pub(crate) async fn decide(&self, verb: &str) -> Authorization {
        self.access.decide(&self.user, &self.info, &self.query, verb).await
    }

    /// The data of the request from which its metrics are made.
    pub(crate) fn recorded(&self) -> RecordedRequest<'_> {
        RecordedRequest { info: &self.info, method: &self.method, query: &self.query, headers: &self.headers }
    }

    /// Notes the decoded object of the request for its audit events.
    pub(crate) fn audit_object(&self, object: &Value, shape: Shape<'_>) {
        if let Some(audit) = &self.audit {
            audit.set_request_object(object, |object| json(object, shape));
        }
    }

    /// Adds a warning to the response.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.recorder.warn(text);
    }

    /// Reads the body. A second call returns an empty body.
    ///
    /// # Errors
    /// Returns an error if the body is too large or is not received in time. Also returns an error if the bodies of
    /// other requests leave no room for it.
    pub(crate) async fn body(&self) -> Result<Bytes, ApiError> {
        if self.body_begun.swap(true, Ordering::Relaxed) {
            return Ok(Bytes::new());
        }
        let too_large = || ApiError::TooLarge(format!("Request entity too large: limit is {MAX_BODY_BYTES}"));
        if self.body.lock().as_ref().is_some_and(|body| body.size_hint().lower() > MAX_BODY_BYTES as u64) {
            return Err(too_large());
        }
        let read = async {
            let mut bytes = BytesMut::new();
            while let Some(frame) = poll_fn(|cx| self.poll_body(cx)).await {
                let frame =
                    frame.map_err(|error| ApiError::BadRequest(format!("failed to read the request body: {error}")))?;
                if let Ok(data) = frame.into_data() {
                    if bytes.len() + data.len() > MAX_BODY_BYTES {
                        return Err(too_large());
                    }
                    let held = self.held_body.lock().add(data.len());
                    if let Err(TooManyBytes) = held {
                        self.body_refused.store(true, Ordering::Relaxed);
                        return Err(too_many_bodies());
                    }
                    bytes.extend_from_slice(&data);
                }
            }
            if self.body.lock().take().is_none() {
                // The request has already been answered, and the answer took the unread part of the body.
                return Err(write_timeout());
            }
            self.recorder.trace.step(Step::BodyReceived);
            Ok(bytes.freeze())
        };
        let received = self.deadline.run(read).await.unwrap_or_else(|DeadlineExceeded| Err(write_timeout()))?;
        // The time is already set only if this is not the first call.
        let _ = self.body_received.set(Instant::now());
        if let Some(observed) = &self.observed {
            observed.set_body(&received);
        }
        if let Some(budget) = self.budget.get() {
            let deadline = self.deadline.min(Instant::now() + WRITE_TIMEOUT);
            budget.set_deadline(deadline.into_std());
            let reserved = timeout_at(deadline, self.cluster.limits.work_memory.reserve(budget, received.len()));
            match reserved.await {
                Ok(Ok(())) => {}
                Ok(Err(ShortOfMemory)) => return Err(short_of_memory()),
                Err(_) => return Err(write_timeout()),
            }
        }
        self.recorder.set_large_by_length(received.len()).await;
        Ok(received)
    }

    /// Polls for a part of the body. `None` at the end of the body, or if another reader has taken it.
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.body.lock().as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    /// The budget of the work for the write.
    pub(crate) fn budget(&self) -> &Budget {
        self.budget.get_or_init(|| self.cluster.limits.work_memory.budget())
    }

    /// True if there was no room for the body.
    pub(crate) fn is_body_refused(&self) -> bool {
        self.body_refused.load(Ordering::Relaxed)
    }

    /// True if the deadline has passed while the body was received.
    pub(crate) fn is_body_late(&self) -> bool {
        let is_receiving = self.body_begun.load(Ordering::Relaxed) && self.body_received.get().is_none();
        is_receiving && self.deadline.instant().is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Waits for a write. A write that takes too long continues without the request.
    ///
    /// # Errors
    /// Returns an error if the write does not end in time. The time of receiving the body does not count.
    pub(crate) async fn wait_for_write<T>(&self, write: impl Future<Output = T>) -> Result<T, ApiError> {
        let limit = async {
            let received = *self.body_received.wait().await;
            sleep_until(self.deadline.min(received + WRITE_TIMEOUT)).await;
        };
        tokio::select! {
            biased;
            result = write => Ok(result),
            () = limit => Err(write_timeout()),
        }
    }

    /// Takes the connection after an HTTP upgrade. `None` if the client cannot upgrade, or after the first call.
    pub(crate) fn upgrade(&self) -> Option<OnUpgrade> {
        self.upgrade.lock().take()
    }

    /// The built-in types and the recorder of warnings, with which bodies are decoded.
    pub(crate) fn decoding(&self) -> (&Catalog, &Recorder) {
        (&self.cluster.served.catalog, &self.recorder)
    }

    /// True if the client accepts gzip.
    pub(crate) fn accepts_gzip(&self) -> bool {
        self.headers
            .get_all(http::header::ACCEPT_ENCODING)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .any(|v| v.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("gzip")))
    }
}
