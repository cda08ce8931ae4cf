//! The end of a request, when its response is sent: its metrics (upstream: `metrics.MonitorRequest`), its line in the
//! access log (upstream: `server/httplog`), and the trace of a slow request (upstream: `k8s.io/utils/trace`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, StatusCode};
use pintle_registry::Registry;

use super::AUDIT_ID;
use crate::cluster::{DryRun, InFlightGuard, Outcome, RecordedRequest, RequestSeries, RequestTarget};
use crate::context::RequestContext;
use crate::http::{Body, BodyEnd, Response, header_text};
use crate::request::trace::Step;

/// The duration from which the trace of a request is logged.
const SLOW: Duration = Duration::from_millis(500);
/// Maximum length of an audit ID in logs, in bytes (upstream: `audit.GetAuditIDTruncated`).
const MAX_AUDIT_ID: usize = 64;

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    /// The handler of its path.
    Handler,
    /// A filter before it: the request is not authenticated, or not allowed. Upstream counts these elsewhere.
    AccessControl,
    /// The limit of requests in flight.
    InFlightLimit,
    /// The deadline of the request, before its handler could.
    Deadline,
}

/// What is recorded and logged when the response of a request has been sent.
struct RequestEnd {
    started: Instant,
    /// As metrics and logs report it: 0 for a connection that was taken over.
    code: u16,
    /// The series of the request, if it counts.
    counted: Option<(Arc<RequestSeries>, DryRun, bool)>,
    /// The line of the access log, if it is enabled.
    log_line: Option<LogLine>,
    /// The request, if it is traced.
    traced: Option<Arc<RequestContext>>,
    _in_flight: Option<InFlightGuard>,
}

/// Records the end of a request once its response has been sent.
pub(super) fn record_end(
    request: &Arc<RequestContext>,
    (started, in_flight): (Instant, Option<InFlightGuard>),
    answered_by: AnsweredBy,
    response: Response,
) -> Response {
    request.recorder.trace.step(Step::Handled);
    let recorded = request.recorded();
    let code = response.status();
    let registry = request.cluster.registry();
    let target = match answered_by {
        AnsweredBy::Handler | AnsweredBy::Deadline => counted_target(&recorded, &registry, &response),
        AnsweredBy::AccessControl | AnsweredBy::InFlightLimit => None,
    };
    if matches!(answered_by, AnsweredBy::InFlightLimit | AnsweredBy::Deadline) {
        let resource = registry.resource(&request.info.group, &request.info.version, &request.info.resource);
        let resource = resource.filter(|_| request.info.is_resource);
        let target = resource.map(|resource| RequestTarget::of_filtered(&recorded, resource));
        let series = request.cluster.metrics.series(&target.unwrap_or_else(|| RequestTarget::of_other(&recorded)));
        series.record_termination(code.as_u16());
        if answered_by == AnsweredBy::InFlightLimit {
            series.record_dropped(DryRun::of(&request.query), code.as_u16());
        }
    }
    let counted = target.map(|target| {
        let series = request.cluster.metrics.series(&target);
        let resource = registry.resource(&request.info.group, &request.info.version, &request.info.resource);
        if request.info.is_resource && resource.is_some_and(|resource| resource.deprecation.is_some()) {
            series.record_deprecated();
        }
        (series, DryRun::of(&request.query), target.has_response_size())
    });
    let is_watch = request.info.verb == "watch";
    let end = RequestEnd {
        started,
        code: if code == StatusCode::SWITCHING_PROTOCOLS { 0 } else { code.as_u16() },
        counted,
        log_line: tracing::enabled!(tracing::Level::DEBUG).then(|| LogLine::of(request, &registry, response.headers())),
        traced: (!is_watch).then(|| request.clone()),
        _in_flight: in_flight,
    };
    if let Some(bytes) = response.body().complete_size() {
        end.record(BodyEnd { bytes, failed: false });
        return response;
    }
    response.map(|body| Body::observed(body, Box::new(move |ended| end.record(ended))))
}

/// The labels under which a request counts. `None` if it reached no handler that upstream counts.
fn counted_target<'r>(
    request: &RecordedRequest<'_>,
    registry: &'r Registry,
    response: &Response,
) -> Option<RequestTarget<'r>> {
    let info = request.info;
    if !info.is_resource {
        let content_type = response.headers().get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
        return RequestTarget::of_path(request, content_type.ends_with(b";as=APIGroupDiscoveryList"));
    }
    let resource = registry.resource(&info.group, &info.version, &info.resource)?;
    let is_routed = info.subresource.is_empty() || resource.subresource(&info.subresource).is_some();
    let is_routed = is_routed && response.status() != StatusCode::METHOD_NOT_ALLOWED;
    is_routed.then(|| RequestTarget::of_resource(request, resource))
}

impl RequestEnd {
    fn record(self, body: BodyEnd) {
        let took = self.started.elapsed();
        if let Some((series, dry_run, has_size)) = &self.counted {
            series.record(*dry_run, Outcome { code: self.code, took, size: has_size.then_some(body.bytes) });
            if body.failed {
                series.record_abort();
            }
        }
        if let Some(line) = &self.log_line {
            tracing::debug!(
                verb = line.verb,
                URI = line.uri,
                latency = ?took,
                userAgent = line.user_agent,
                "audit-ID" = line.audit_id,
                srcIP = line.source(),
                resp = self.code,
                "HTTP"
            );
        }
        if let Some(request) = self.traced.filter(|_| took >= SLOW) {
            log_trace(&request, took, self.code);
        }
    }
}

/// What the access log says of a request.
struct LogLine {
    verb: &'static str,
    uri: String,
    user_agent: String,
    audit_id: String,
    source: Option<SocketAddr>,
}

impl LogLine {
    fn of(request: &RequestContext, registry: &Registry, response: &HeaderMap) -> Self {
        let mut audit_id = header_text(response, &AUDIT_ID).to_owned();
        audit_id.truncate(audit_id.floor_char_boundary(MAX_AUDIT_ID));
        Self {
            verb: verb(request, registry),
            uri: request.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            user_agent: header_text(&request.headers, &USER_AGENT).to_owned(),
            audit_id,
            source: request.source,
        }
    }

    fn source(&self) -> String {
        self.source.map(|source| source.to_string()).unwrap_or_default()
    }
}

/// The verb that logs report.
fn verb(request: &RequestContext, registry: &Registry) -> &'static str {
    let (info, recorded) = (&request.info, request.recorded());
    let resource = registry.resource(&info.group, &info.version, &info.resource).filter(|_| info.is_resource);
    resource.map_or_else(|| RequestTarget::of_other(&recorded), |r| RequestTarget::of_resource(&recorded, r)).verb()
}

/// Logs the steps of a slow request.
fn log_trace(request: &RequestContext, took: Duration, code: u16) {
    let info = &request.info;
    tracing::info!(
        verb = verb(request, &request.cluster.registry()),
        url = request.uri.path(),
        group = info.group.as_str(),
        version = info.version.as_str(),
        resource = info.resource.as_str(),
        subresource = info.subresource.as_str(),
        namespace = info.namespace.as_str(),
        name = info.name.as_str(),
        userAgent = header_text(&request.headers, &USER_AGENT),
        client = request.source.map(|source| source.ip().to_string()).unwrap_or_default(),
        resp = code,
        total = ?took,
        steps = request.recorder.trace.summary(took),
        "Slow request"
    );
}
