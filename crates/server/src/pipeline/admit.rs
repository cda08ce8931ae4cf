//! The filters before the handler of a request: authentication, impersonation, the number of requests in flight, and
//! authorization. Audit comes after authentication, so that it records all later refusals.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use hyper::body::Incoming;
use pintle_auth::user::{ALL_UNAUTHENTICATED, ANONYMOUS};
use pintle_auth::{AuthenticationError, UserInfo};
use pintle_locks::Mutex;
use pintle_registry::ApiError;
use pintle_value::Str;
use pintle_value::time::Time;
use tokio::sync::SetOnce;
use tokio::time::Instant;

use super::departure::OnDeparture;
use super::flow_control::FlowRequest;
use super::request_end::{AnsweredBy, filtered_series};
use crate::access::{AccessControl, AuthenticationFailure, attempted_authentication, attributes, forbidden_error};
use crate::cluster::{AuthenticationResult, AuthorizationResult, Cluster, DryRun, RecordedRequest, RequestSeries};
use crate::context::RequestContext;
use crate::http::Peer;
use crate::request::audit::{self, AuditStages, AuditedRequest, RequestAudit};
use crate::request::audit_id::audit_id;
use crate::request::deadline::{DeadlineExceeded, RequestDeadline};
use crate::request::flow::Flow;
use crate::request::in_flight::{InFlightLimits, InFlightRequest, TooManyInFlight};
use crate::request::info::RequestInfo;
use crate::request::log_limit::{LogLimit, Shortened};
use crate::request::observed::ObservedParts;
use crate::request::query::Query;
use crate::request::recorder::Recorder;
use crate::request::trace::Step;

/// The reason why a request does not reach its handler.
pub(super) enum Refusal {
    Error(ApiError),
    /// An error that upstream writes with the header `X-Content-Type-Options`.
    Forbidden(ApiError),
    /// The authorizers could not decide.
    AuthorizationFailed(String),
    /// An audit event could not be recorded, and nothing may go unrecorded.
    AuditFailed,
    /// Too many requests are in flight, or flow control has rejected the request. The client may try again after this
    /// number of seconds.
    TooManyRequests(u64),
    DeadlineExceeded,
}

impl Refusal {
    pub(super) fn answered_by(&self) -> AnsweredBy {
        match self {
            Refusal::Error(_) | Refusal::Forbidden(_) | Refusal::AuthorizationFailed(_) | Refusal::AuditFailed => {
                AnsweredBy::AccessControl
            }
            Refusal::TooManyRequests(_) => AnsweredBy::InFlightLimit,
            Refusal::DeadlineExceeded => AnsweredBy::Deadline,
        }
    }
}

impl From<DeadlineExceeded> for Refusal {
    fn from(_: DeadlineExceeded) -> Self {
        Self::DeadlineExceeded
    }
}

impl From<TooManyInFlight> for Refusal {
    fn from(_: TooManyInFlight) -> Self {
        Self::TooManyRequests(1)
    }
}

/// The sender of a request, as far as the filters have identified it.
#[derive(Default)]
pub(super) struct Sender {
    /// The user that the request acts as.
    pub(super) user: UserInfo,
    /// True if the request is known to have no valid credentials.
    pub(super) is_unauthenticated: bool,
    /// The WebSocket subprotocols, except the subprotocol that contains the credential. `None` if no subprotocol
    /// contains it.
    pub(super) websocket_protocols: Option<Str>,
    /// The audit of the request; `None` if it has no events.
    pub(super) audit: Option<Arc<RequestAudit>>,
    /// The flow of the request; `None` if flow control has not classified it.
    pub(super) flow: Option<Arc<Flow>>,
}

fn is_anonymous(user: &UserInfo) -> bool {
    user.name == ANONYMOUS || user.groups.iter().any(|group| group == ALL_UNAUTHENTICATED)
}

/// A request whose sender is not known yet.
pub(super) struct Arrival {
    pub(super) cluster: Arc<Cluster>,
    access: Arc<AccessControl>,
    peer: Peer,
    pub(super) parts: Parts,
    pub(super) query: Query,
    pub(super) info: RequestInfo,
    pub(super) recorder: Recorder,
    deadline: Result<RequestDeadline, ApiError>,
    pub(super) request_timeout: Duration,
    audit_id: OnceLock<HeaderValue>,
    /// The time of the request in audit events, if the server makes any.
    received: Option<Time>,
}

impl Arrival {
    pub(super) fn new(
        cluster: Arc<Cluster>,
        access: Arc<AccessControl>,
        peer: Peer,
        parts: Parts,
        request_timeout: Duration,
    ) -> Self {
        let recorder = Recorder::default();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::of(&parts.method, parts.uri.path(), &query);
        let started = Instant::from_std(recorder.trace.started());
        let deadline = RequestDeadline::of(&info, &query, started, request_timeout);
        let received = cluster.audit.as_ref().map(|_| audit::now());
        let audit_id = OnceLock::new();
        Self { cluster, access, peer, parts, query, info, recorder, deadline, request_timeout, audit_id, received }
    }

    /// Begins the audit of the request. The policy decides about it. `user` is `None` if the user is not known.
    fn begin_audit(&self, user: Option<&UserInfo>, stages: AuditStages) -> Option<Arc<RequestAudit>> {
        let (auditor, received) = (self.cluster.audit.as_ref()?, self.received?);
        let decision = auditor.decide(user, &attributes(&self.info, &self.query, &self.info.verb));
        let request = AuditedRequest {
            audit_id: self.audit_id.get_or_init(|| audit_id(&self.parts.headers)),
            uri: &self.parts.uri,
            headers: &self.parts.headers,
            info: &self.info,
            source: self.peer.address,
            received,
        };
        RequestAudit::begin(auditor, decision, stages, || request.event(user.cloned().unwrap_or_default()))
    }

    /// Begins the audit of a request that is refused before its user is known.
    fn begin_audit_of_refused(&self, message: impl FnOnce() -> String) -> Option<Arc<RequestAudit>> {
        let audit = self.begin_audit(None, AuditStages::Started)?;
        audit.set_failure_message(message());
        Some(audit)
    }

    /// Begins the audit of a request whose user is authenticated, and records that the request was received.
    async fn audit_received(&self, user: &UserInfo, audit: &mut Option<Arc<RequestAudit>>) -> Result<(), Refusal> {
        let stages = match self.info.is_long_running() {
            true => AuditStages::StartedAndComplete,
            false => AuditStages::Complete,
        };
        // It is set before the event is sent, so that the request has its last event even if that takes too long.
        *audit = self.begin_audit(Some(user), stages);
        let Some(begun) = audit else { return Ok(()) };
        if begun.records_request() {
            self.recorder.keep_annotations_with_request();
        }
        let is_recorded = begun.received(self.recorder.annotations()).await;
        self.recorder.trace.step(Step::AuditRecorded);
        if is_recorded {
            return Ok(());
        }
        if let Some(begun) = audit.take() {
            begun.discard();
        }
        if let Some(auditor) = &self.cluster.audit {
            auditor.metrics().record_rejected();
        }
        Err(Refusal::AuditFailed)
    }

    /// Logs that the credentials of the request were rejected. The number of these lines is not limited if every
    /// request is logged.
    fn log_rejected(&self, error: &str) {
        static LIMIT: LogLimit = LogLimit::new();
        let unlogged = if tracing::enabled!(tracing::Level::DEBUG) { Some(0) } else { LIMIT.allow() };
        let Some(unlogged) = unlogged else { return };
        tracing::error!(
            error = %Shortened(error),
            srcIP = self.peer.address.map(tracing::field::display),
            verb = self.info.verb.as_str(),
            path = %Shortened(&self.info.path),
            unlogged = (unlogged > 0).then_some(unlogged),
            "Unable to authenticate the request"
        );
    }

    /// Lets the request pass the filters before its deadline, and counts it as in flight. Sets its sender.
    pub(super) async fn admit(
        &self,
        in_flight: &InFlightLimits,
        sender: &mut Sender,
    ) -> Result<InFlightRequest, Refusal> {
        let deadline = self.deadline.clone().map_err(|error| {
            sender.audit = self.begin_audit_of_refused(|| error.to_string());
            Refusal::Error(error)
        })?;
        let departure = OnDeparture::new(|| self.record_timeout());
        let filtered = pin!(self.filter(in_flight, deadline, sender));
        let result = deadline.run(filtered).await.unwrap_or_else(|exceeded| Err(exceeded.into()));
        departure.cancel();
        result
    }

    /// Records that the client has left while the filters had the request. As in upstream, this is a timeout, which
    /// long-running requests do not have.
    fn record_timeout(&self) {
        if !self.info.is_long_running() {
            self.series().record_termination(StatusCode::GATEWAY_TIMEOUT.as_u16());
        }
    }

    /// Records that the client has left while the request waited for its seats. As in upstream, the request is rejected
    /// although nobody gets the answer.
    pub(super) fn record_rejected(&self, audit: Option<&RequestAudit>) {
        let code = StatusCode::TOO_MANY_REQUESTS;
        let series = self.series();
        series.record_termination(code.as_u16());
        series.record_dropped(DryRun::of(&self.query), code.as_u16());
        if let Some(audit) = audit {
            audit.rejected(code, self.recorder.annotations());
        }
    }

    /// The series in which the request counts if a filter ends it.
    fn series(&self) -> Arc<RequestSeries> {
        let Self { cluster, info, parts, query, .. } = self;
        let recorded = RecordedRequest { info, method: &parts.method, query, headers: &parts.headers };
        let registry = cluster.registry();
        let resource = registry.resource(&info.group, &info.version, &info.resource).filter(|_| info.is_resource);
        filtered_series(&cluster.metrics, &recorded, resource)
    }

    async fn filter(
        &self,
        in_flight: &InFlightLimits,
        deadline: RequestDeadline,
        Sender { user, is_unauthenticated, websocket_protocols, audit, flow }: &mut Sender,
    ) -> Result<InFlightRequest, Refusal> {
        let Self { cluster, access, peer, info, query, recorder, .. } = self;
        let headers = &self.parts.headers;
        let metrics = cluster.metrics.access();
        let authenticated = access.authenticate(peer, headers, &info.path, recorder).await;
        let took = recorder.trace.step(Step::Authenticated);
        match authenticated {
            Ok(authentication) => {
                let sender = authentication.user;
                metrics.record_authentication(AuthenticationResult::Success, &sender.name, took);
                *is_unauthenticated = is_anonymous(&sender);
                *user = sender;
                *websocket_protocols = authentication.websocket_protocols;
            }
            Err(failure) => {
                *is_unauthenticated = true;
                let result = match failure {
                    AuthenticationFailure::Unknown => AuthenticationResult::Failure,
                    AuthenticationFailure::Rejected(AuthenticationError(error)) => {
                        self.log_rejected(&error);
                        AuthenticationResult::Error
                    }
                };
                metrics.record_authentication(result, "", took);
                *audit = self.begin_audit_of_refused(|| attempted_authentication(peer, headers, query));
                return Err(Refusal::Error(ApiError::Unauthorized));
            }
        }
        self.audit_received(user, audit).await?;
        let took = if audit.is_some() { recorder.trace.started().elapsed() } else { took };
        let mut authorization_started = took;
        let impersonated = access.impersonate(user, headers, info, query, metrics).await;
        if !matches!(impersonated, Ok(None) | Err(ApiError::BadRequest(_))) {
            authorization_started = recorder.trace.step(Step::Impersonated);
            let mode = impersonated.as_ref().ok().and_then(|found| found.as_ref()).map(|found| found.mode);
            metrics.record_impersonation(mode, authorization_started.saturating_sub(took));
        }
        if let Some(impersonated) = impersonated.map_err(Refusal::Forbidden)? {
            if let Some(audit) = audit {
                audit.set_impersonated(&impersonated);
            }
            *user = impersonated.user;
        }
        let in_flight = match &cluster.flow_control {
            Some(flow_control) => {
                let request = FlowRequest { arrival: self, user, deadline, audit: audit.as_deref() };
                if !request.wait(flow_control, flow).await?.is_zero() {
                    authorization_started = recorder.trace.step(Step::Admitted);
                }
                InFlightRequest::default()
            }
            None => in_flight.begin(info, user)?,
        };
        let verb = &info.verb;
        let authorization = access.decide(user, info, query, verb).await;
        let authorized_at = recorder.trace.step(Step::Authorized);
        let result = AuthorizationResult::of(&authorization);
        metrics.record_authorization(result, authorized_at.saturating_sub(authorization_started));
        if audit.is_some() {
            recorder.annotate_authorization(&authorization);
        }
        match (result, authorization.error) {
            (AuthorizationResult::Allowed, _) => Ok(in_flight),
            (_, Some(error)) => Err(Refusal::AuthorizationFailed(error)),
            (_, None) => {
                let error = forbidden_error(user, info, query, verb, &authorization.reason);
                Err(Refusal::Forbidden(error))
            }
        }
    }

    /// The context of the request. The request begins in the metrics, and ends when the context is dropped.
    pub(super) fn into_context(
        self,
        sender: Sender,
        in_flight: Option<InFlightRequest>,
        body: Incoming,
        observed: Option<Box<ObservedParts>>,
    ) -> Arc<RequestContext> {
        let Self { cluster, access, peer, mut parts, query, info, recorder, deadline, audit_id, .. } = self;
        // As in upstream, a subprotocol that contains a credential is not negotiated.
        if let Some(protocols) = sender.websocket_protocols
            && let Ok(protocols) = HeaderValue::from_str(&protocols)
        {
            parts.headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
        }
        cluster.metrics.begin_request(&info, recorder.trace.started());
        let held_body = cluster.limits.bodies.begin();
        Arc::new(RequestContext {
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
            deadline: deadline.unwrap_or(RequestDeadline::NEVER),
            _in_flight: in_flight,
            upgrade: Mutex::new(parts.extensions.remove()),
            long_running: Mutex::default(),
            audit_id,
            audit: sender.audit,
            flow: sender.flow,
            recorder,
            conversions: Arc::default(),
            observed,
        })
    }
}
