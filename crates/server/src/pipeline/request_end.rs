//! The end of a request, when its response is sent. It records metrics (upstream: `metrics.MonitorRequest`) and a line
//! of the access log (upstream: `server/httplog`). For a slow request it logs the trace (upstream:
//! `k8s.io/utils/trace`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, StatusCode};
use pintle_registry::Resource;
use pintle_value::Str;

use super::admit::Refusal;
use super::answer::refuse;
use crate::cluster::{DryRun, Metrics, Outcome, RecordedRequest, RequestSeries, RequestTarget};
use crate::context::RequestContext;
use crate::http::{BodyEnd, Response, UpgradeEnd, header_text};
use crate::observe::Observers;
use crate::request::audit::RequestAudit;
use crate::request::audit_id::AUDIT_ID;
use crate::request::trace::Step;

/// The duration from which the trace of a request is logged.
const SLOW: Duration = Duration::from_millis(500);
/// Maximum length of an audit ID in logs, in bytes (upstream: `audit.GetAuditIDTruncated`).
const MAX_AUDIT_ID: usize = 64;

/// The part of the server that answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    /// The handler of its path.
    Handler,
    /// A filter before the handler: the request is not authenticated, or not allowed. Upstream counts these requests
    /// elsewhere.
    AccessControl,
    /// The limit of requests in flight.
    InFlightLimit,
    /// The deadline of the request, which passed before its handler answered.
    Deadline,
}

/// The data that is recorded and logged when the response of a request has been sent.
struct RequestEnd {
    started: Instant,
    /// The time in which the request waited for webhooks and in a queue.
    delay: Duration,
    /// The code in metrics and logs: 0 for a connection that was taken over.
    code: u16,
    /// The series of the request, if it counts.
    counted: Option<CountedRequest>,
    /// The line of the access log, if it is enabled.
    log_line: Option<LogLine>,
    /// The audit of a request whose response is still being sent.
    audit: Option<Arc<RequestAudit>>,
}

struct CountedRequest {
    series: Arc<RequestSeries>,
    dry_run: DryRun,
    /// True if the size of the response is recorded, which only reads do.
    has_size: bool,
}

/// Records the end of a request once its response has been sent.
pub(super) fn record_end(request: &Arc<RequestContext>, answered_by: AnsweredBy, response: Response) -> Response {
    request.recorder.trace.step(Step::Handled);
    let code = response.status();
    let end = RequestEnd {
        started: request.recorder.trace.started(),
        delay: request.recorder.trace.delay(),
        code: if code == StatusCode::SWITCHING_PROTOCOLS { 0 } else { code.as_u16() },
        counted: count(request, answered_by, &response),
        log_line: tracing::enabled!(tracing::Level::DEBUG).then(|| LogLine::of(request, response.headers())),
        audit: request.audit.clone().filter(|_| !is_complete(&response)),
    };
    if let Some(audit) = &request.audit {
        audit.set_annotations(request.recorder.annotations());
    }
    if let Some(upgraded) = response.extensions().get::<UpgradeEnd>() {
        upgraded.observe(Box::new(move |ended| end.record(None, ended)));
        return response;
    }
    if let Some(bytes) = response.body().complete_size() {
        end.record(Some(request), BodyEnd { bytes, failed: false });
        return response;
    }
    // A watch may last long, so its end keeps only the recorded data and not the request.
    let traced = (request.info.verb != "watch").then(|| request.clone());
    response.map(|body| body.observed(Box::new(move |ended| end.record(traced.as_deref(), ended))))
}

/// True if a response ends with its head: its body is complete, and its connection is not taken over.
pub(super) fn is_complete(response: &Response) -> bool {
    response.body().complete_size().is_some() && response.extensions().get::<UpgradeEnd>().is_none()
}

/// A request that is not answered yet. If its client disconnects first, this value is dropped. Then the request is
/// recorded as a request that took too long, as in upstream's timeout filter.
pub(super) struct Unanswered<'c> {
    request: Option<Arc<RequestContext>>,
    observers: &'c Observers,
}

impl<'c> Unanswered<'c> {
    pub(super) fn new(request: &Arc<RequestContext>, observers: &'c Observers) -> Self {
        Self { request: Some(request.clone()), observers }
    }

    /// The request has been answered.
    pub(super) fn answered(mut self) {
        self.request = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let response = refuse(&request, Refusal::DeadlineExceeded);
            self.observers.answered(&request, Some(response.status()));
            drop(record_end(&request, AnsweredBy::Deadline, response));
        }
    }
}

/// The series in which a request counts when it ends. Records the metrics that are already known.
fn count(request: &RequestContext, answered_by: AnsweredBy, response: &Response) -> Option<CountedRequest> {
    let (info, recorded, metrics) = (&request.info, request.recorded(), &request.cluster.metrics);
    let registry = request.cluster.served.registry.read();
    let resource = registry.resource(&info.group, &info.version, &info.resource).filter(|_| info.is_resource);
    let dry_run = DryRun::of(&request.query);
    if matches!(answered_by, AnsweredBy::InFlightLimit | AnsweredBy::Deadline) {
        let series = filtered_series(metrics, &recorded, resource);
        series.record_termination(response.status().as_u16());
        if answered_by == AnsweredBy::InFlightLimit {
            series.record_dropped(dry_run, response.status().as_u16());
        }
    }
    if matches!(answered_by, AnsweredBy::AccessControl | AnsweredBy::InFlightLimit) {
        return None;
    }
    let target = counted_target(&recorded, resource, response)?;
    let series = metrics.series(&target);
    if target.is_deprecated_page() || resource.is_some_and(|resource| resource.deprecation.is_some()) {
        let removed_release = resource.map_or("", |resource| resource.removed_release.as_str());
        series.record_deprecated(removed_release);
        request.recorder.annotate_deprecation(removed_release);
    }
    Some(CountedRequest { series, dry_run, has_size: target.has_response_size() })
}

/// The series in which a request counts if a filter ends it. `resource` is the resource of the request, if it is served.
pub(super) fn filtered_series(
    metrics: &Metrics,
    request: &RecordedRequest<'_>,
    resource: Option<&Arc<Resource>>,
) -> Arc<RequestSeries> {
    let target = resource.map(|resource| RequestTarget::of_filtered(request, resource));
    metrics.series(&target.unwrap_or_else(|| RequestTarget::of_other(request)))
}

/// The labels under which a request counts. `None` if it reached no handler that upstream counts.
fn counted_target<'r>(
    request: &RecordedRequest<'r>,
    resource: Option<&'r Arc<Resource>>,
    response: &'r Response,
) -> Option<RequestTarget<'r>> {
    let info = request.info;
    if !info.is_resource {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_served = response.status() != StatusCode::NOT_FOUND;
        return RequestTarget::of_path(request, content_type.unwrap_or_default())
            .filter(|target| is_served || !target.is_page());
    }
    let resource = resource?;
    let is_routed = info.subresource.is_empty() || resource.subresource(&info.subresource).is_some();
    let is_routed = is_routed && response.status() != StatusCode::METHOD_NOT_ALLOWED;
    is_routed.then(|| RequestTarget::of_resource(request, resource))
}

impl RequestEnd {
    /// Records and logs the end. `traced` is the request if its steps may be logged, because it may be slow.
    fn record(self, traced: Option<&RequestContext>, body: BodyEnd) {
        let took = self.started.elapsed();
        if let Some(CountedRequest { series, dry_run, has_size }) = &self.counted {
            let size = has_size.then_some(body.bytes);
            series.record(*dry_run, Outcome { code: self.code, took, delay: self.delay, size });
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
                user = line.user.as_str(),
                hijacked = (self.code == 0).then_some(true),
                resp = (self.code != 0).then_some(self.code),
                "HTTP"
            );
        }
        let traced = traced.filter(|_| took >= SLOW);
        if let Some(request) = traced {
            log_trace(request, took, self.code);
            if let Some(audit) = &request.audit {
                request.recorder.annotate_latencies(took);
                audit.set_annotations(request.recorder.annotations());
            }
        }
        match self.audit {
            Some(audit) if body.failed => audit.aborted(),
            Some(audit) => audit.complete(),
            None => {}
        }
    }
}

/// The fields of a request's line in the access log.
struct LogLine {
    verb: &'static str,
    uri: String,
    user_agent: String,
    audit_id: String,
    source: Option<SocketAddr>,
    /// The name of the user that the request acts as; empty if the request was not authenticated.
    user: Str,
}

impl LogLine {
    fn of(request: &RequestContext, response: &HeaderMap) -> Self {
        let mut audit_id = header_text(response, &AUDIT_ID).to_owned();
        audit_id.truncate(audit_id.floor_char_boundary(MAX_AUDIT_ID));
        Self {
            verb: verb(request),
            uri: request.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            user_agent: header_text(&request.headers, &USER_AGENT).to_owned(),
            audit_id,
            source: request.source,
            user: request.user.name.clone(),
        }
    }

    fn source(&self) -> String {
        self.source.map(|source| source.to_string()).unwrap_or_default()
    }
}

/// The verb that logs report.
fn verb(request: &RequestContext) -> &'static str {
    let (info, recorded) = (&request.info, request.recorded());
    let registry = request.cluster.served.registry.read();
    let resource = registry.resource(&info.group, &info.version, &info.resource).filter(|_| info.is_resource);
    resource.map_or_else(|| RequestTarget::of_other(&recorded), |r| RequestTarget::of_resource(&recorded, r)).verb()
}

/// Logs the steps of a slow request.
fn log_trace(request: &RequestContext, took: Duration, code: u16) {
    let info = &request.info;
    tracing::info!(
        verb = verb(request),
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
