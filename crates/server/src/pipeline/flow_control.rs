//! API Priority and Fairness: a request waits until its priority level has seats for it (upstream:
//! `server/filters/priority-and-fairness.go`).

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use pintle_auth::UserInfo;
use pintle_flow_control::{
    AdmitError, ListOptions, ObjectStats, RequestAttributes, RequestDetails, WatchTarget, wait_limit,
};
use pintle_registry::GroupResource;
use pintle_selector::FieldSelector;
use tokio::time::Instant;

use super::admit::{Arrival, Refusal};
use super::departure::OnDeparture;
use crate::cluster::{Cluster, FlowControl};
use crate::context::RequestContext;
use crate::http::header_text;
use crate::request::audit::RequestAudit;
use crate::request::deadline::RequestDeadline;
use crate::request::flow::{Flow, Seats};
use crate::request::info::RequestInfo;
use crate::request::log_limit::{LogLimit, Shortened};
use crate::request::query::Query;

/// Requests without a deadline of their own wait for this part of the time that other requests have.
const PART_OF_REQUEST_TIMEOUT: u32 = 4;

/// The assumed size of a body whose size is not announced.
const UNANNOUNCED_BODY_BYTES: u64 = 1 << 20;

/// A request that flow control may let wait.
pub(super) struct FlowRequest<'r> {
    pub(super) arrival: &'r Arrival,
    pub(super) user: &'r UserInfo,
    pub(super) deadline: RequestDeadline,
    pub(super) audit: Option<&'r RequestAudit>,
}

impl FlowRequest<'_> {
    /// Waits until the request has its seats. Returns how long it has waited. Sets `flow` as soon as the request is
    /// classified. Long-running requests other than watches are not limited.
    ///
    /// # Errors
    /// The request is rejected.
    pub(super) async fn wait(
        &self,
        flow_control: &FlowControl,
        flow: &mut Option<Arc<Flow>>,
    ) -> Result<Duration, Refusal> {
        let (arrival, user) = (self.arrival, self.user);
        let Arrival { cluster, info, query, .. } = arrival;
        let is_watch = info.verb == "watch";
        if info.is_long_running() && !is_watch {
            return Ok(Duration::ZERO);
        }
        let controller = flow_control.current(cluster);
        let attributes = info.flow_attributes(user);
        let body_bytes = body_bytes(&arrival.parts);
        let departure = OnDeparture::new(|| {
            // At its deadline, the request is answered with 504.
            if self.deadline.instant().is_none_or(|deadline| Instant::now() < deadline) {
                arrival.record_rejected(self.audit);
            }
        });
        let (flow, requested_flow, execution) = loop {
            let class = controller.classify(&attributes);
            if class.is_unmatched() {
                log_unmatched(&attributes);
            }
            let flow = flow.insert(Arc::new(Flow::new(&class)));
            let stats = || (list_options(info, query), object_stats(cluster, info));
            let estimate = controller.estimate(&class, body_bytes, stats);
            match controller.admit(&class, estimate, self.wait_limit()).await {
                Ok(execution) => break (flow, is_watch.then(|| class.flow()), execution),
                Err(AdmitError::LevelRemoved) => {}
                Err(AdmitError::Rejected(rejection)) => {
                    departure.cancel();
                    return Err(Refusal::TooManyRequests(rejection.retry_after));
                }
            }
        };
        departure.cancel();
        let waited = execution.waited();
        let seats = match requested_flow {
            Some(requested_flow) => {
                let target = WatchTarget {
                    group: &info.group,
                    resource: &info.resource,
                    namespace: &info.namespace,
                    name: &info.name,
                };
                let tracked = controller.watches().track(&target, selected_node(info, query).as_deref());
                Seats::of_watch(execution, requested_flow, tracked)
            }
            None => Seats::new(execution),
        };
        flow.begin(seats);
        Ok(waited)
    }

    /// The maximum time for which the request waits from now on.
    fn wait_limit(&self) -> Duration {
        let Arrival { recorder, request_timeout, .. } = self.arrival;
        let started = Instant::from_std(recorder.trace.started());
        let timeout = self.deadline.instant().map(|deadline| deadline.saturating_duration_since(started));
        wait_limit(timeout, *request_timeout / PART_OF_REQUEST_TIMEOUT).saturating_sub(started.elapsed())
    }
}

impl RequestDetails for RequestContext {
    fn attributes(&self) -> RequestAttributes<'_> {
        self.info.flow_attributes(&self.user)
    }
}

/// Logs that no flow schema matches a request.
fn log_unmatched(attributes: &RequestAttributes<'_>) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(unlogged) = LIMIT.allow() {
        tracing::warn!(
            user = %Shortened(attributes.user),
            path = %Shortened(attributes.path),
            unlogged = (unlogged > 0).then_some(unlogged),
            "No flow schema matches; using catch-all"
        );
    }
}

/// The size of the body of a request. If it is not announced, a large body is assumed.
fn body_bytes(parts: &Parts) -> u64 {
    let announced = header_text(&parts.headers, &CONTENT_LENGTH).parse().ok();
    let has_body = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
    announced.unwrap_or(if has_body { UNANNOUNCED_BODY_BYTES } else { 0 })
}

/// The options of a list or watch; `None` if a number among them cannot be read.
fn list_options<'r>(info: &RequestInfo, query: &'r Query) -> Option<ListOptions<'r>> {
    let text = |name| query.get(name).unwrap_or_default();
    let number = |name| if text(name).is_empty() { Some(0) } else { text(name).parse::<i64>().ok() };
    number("timeoutSeconds")?;
    Some(ListOptions {
        limit: u64::try_from(number("limit")?).unwrap_or_default(),
        continue_token: text("continue"),
        resource_version: text("resourceVersion"),
        resource_version_match: text("resourceVersionMatch"),
        has_selector: !text("labelSelector").is_empty() || !text("fieldSelector").is_empty(),
        send_initial_events: query.flag("sendInitialEvents"),
        is_of_one_object: !info.name.is_empty(),
    })
}

/// The number of the objects of a resource and their average size; `None` for a resource that this server does not
/// store. As in upstream, these are the objects of all namespaces.
fn object_stats(cluster: &Cluster, info: &RequestInfo) -> Option<ObjectStats> {
    let hub = cluster.hub_of(&GroupResource::new(&*info.group, &*info.resource)).ok()?;
    let watch_cache = cluster.watch_cache(&hub).ok()?;
    let stats = watch_cache.stats();
    let count = stats.objects as u64;
    Some(ObjectStats { count, average_bytes: stats.object_bytes.checked_div(count).unwrap_or_default() })
}

/// The node whose pods a watch selects.
fn selected_node(info: &RequestInfo, query: &Query) -> Option<String> {
    let selector = query.get("fieldSelector").filter(|selector| info.resource == "pods" && !selector.is_empty())?;
    FieldSelector::parse(selector).ok()?.required_value("spec.nodeName").map(str::to_owned)
}
