//! Requests from their classification to their end. A request waits for its seats and holds them as an [`Execution`].
//! Dropping that gives them back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pintle_value::Str;
use tokio::time::timeout;

use crate::controller::{ConfiguredSchema, FlowController};
use crate::flow_schema::Distinguisher;
use crate::matching::{RequestAttributes, RequestDetails};
use crate::queue_set::{Arrival, Phase, RejectReason, RequestId};
use crate::watch_tracker::WatchTarget;
use crate::work_estimate::{
    ListOptions, ObjectStats, WorkEstimate, body_seats, list_estimate, maximum_list_estimate, mutating_estimate,
    watch_estimate,
};
use crate::{Moment, SeatSeconds};

/// The maximum time that a request waits.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The maximum work of one charge, in seat-seconds. A sum of charges cannot overflow.
const MAX_CHARGE: f64 = 1e6;
/// A request waits for at most this part of its time.
const PART_OF_TIMEOUT: u32 = 4;

/// The maximum time that a request waits, from its arrival. `timeout` is the time from the arrival of the request to its
/// deadline. `default` applies to watches and other requests without deadline: a quarter of `--request-timeout`.
#[must_use]
pub fn wait_limit(timeout: Option<Duration>, default: Duration) -> Duration {
    timeout.map_or(default, |timeout| timeout / PART_OF_TIMEOUT).min(MAX_WAIT)
}

/// The flow schema of a request and its priority level.
#[derive(Clone, Debug)]
pub struct Class<'r> {
    pub(crate) schema: Arc<ConfiguredSchema>,
    pub(crate) attributes: &'r RequestAttributes<'r>,
    pub(crate) is_unmatched: bool,
}

impl Class<'_> {
    /// The name of the flow schema.
    #[must_use]
    pub fn flow_schema(&self) -> &str {
        &self.schema.name
    }

    /// The UID of the flow schema. Empty if its object does not exist.
    #[must_use]
    pub fn flow_schema_uid(&self) -> &str {
        &self.schema.uid
    }

    /// The name of the priority level.
    #[must_use]
    pub fn priority_level(&self) -> &str {
        &self.schema.level.name
    }

    /// The UID of the priority level. Empty if its object does not exist.
    #[must_use]
    pub fn priority_level_uid(&self) -> &str {
        &self.schema.level_uid
    }

    /// True if the priority level has no limit.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.schema.is_exempt
    }

    /// The flow of the request.
    #[must_use]
    pub fn flow(&self) -> RequestedFlow {
        RequestedFlow { schema: self.schema.clone(), distinguisher: self.distinguisher().into() }
    }

    /// True if no flow schema matches, so that `catch-all` applies.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        self.is_unmatched
    }

    fn is_watch(&self) -> bool {
        self.attributes.verb == "watch"
    }

    fn is_mutating(&self) -> bool {
        !matches!(self.attributes.verb, "get" | "list" | "watch")
    }

    fn distinguisher(&self) -> &str {
        match self.schema.distinguisher {
            Some(Distinguisher::User) => self.attributes.user,
            Some(Distinguisher::Namespace) => self.attributes.namespace,
            None => "",
        }
    }
}

/// A flow that is charged for work which its requests cause after they have given their seats back, such as the events
/// of a watch. It is the flow at the time of the request, even if schemas change later.
#[derive(Clone, Debug)]
pub struct RequestedFlow {
    schema: Arc<ConfiguredSchema>,
    distinguisher: Str,
}

impl RequestedFlow {
    /// Charges the flow for processor time. See [`Execution::charge_processor_time`].
    pub fn charge_processor_time(&self, took: Duration) {
        let Self { schema, distinguisher } = self;
        let now = schema.shared.now();
        let work = work(took.as_secs_f64() * schema.shared.seats_per_processor);
        schema.level.update(now, |state| state.queues.charge_flow(now, &schema.series, distinguisher, work));
    }
}

/// Work in seat-seconds.
fn work(seat_seconds: f64) -> SeatSeconds {
    SeatSeconds::from_f64(seat_seconds.min(MAX_CHARGE))
}

/// The reason why a request does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitError {
    /// The request is rejected.
    Rejected(Rejection),
    /// The priority level was removed after the request had been classified. The request has to be classified again.
    LevelRemoved,
}

/// A request that is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The reason, for logs. Clients get the same text for all reasons.
    pub reason: RejectReason,
    /// The value of the header `Retry-After`, in seconds.
    pub retry_after: u64,
}

impl FlowController {
    /// The estimated work of a request. `list` returns the options of a list or a watch and the objects of its resource.
    /// The options are `None` if they cannot be read. The objects are `None` if another API server has them.
    /// `body_bytes` is the announced size of the body, or zero.
    pub fn estimate<'r>(
        &self,
        class: &Class<'_>,
        body_bytes: u64,
        list: impl FnOnce() -> (Option<ListOptions<'r>>, Option<ObjectStats>),
    ) -> WorkEstimate {
        let Class { schema, attributes, .. } = class;
        match attributes.verb {
            "list" | "watch" => {
                let estimate = if attributes.verb == "list" { list_estimate } else { watch_estimate };
                match list() {
                    (Some(options), stats) => estimate(&options, stats, schema.max_seats),
                    (None, _) => maximum_list_estimate(schema.max_seats),
                }
            }
            "create" | "update" | "patch" | "delete" => {
                let RequestAttributes { group, resource, namespace, name, .. } = **attributes;
                // A token of a service account is not an object, so nobody gets an event.
                if (resource, attributes.subresource) == ("serviceaccounts", "token") {
                    return WorkEstimate::default();
                }
                let watches = self.watches().interested(&WatchTarget { group, resource, namespace, name });
                schema.series.watch_counts.observe_bytes(watches);
                let mut estimate = mutating_estimate(watches, schema.max_seats);
                if self.charges_actual_cost() {
                    estimate.initial_seats = body_seats(body_bytes, schema.max_seats);
                }
                estimate
            }
            _ => WorkEstimate::default(),
        }
    }

    /// Waits until the request may be executed, for at most `wait_limit`. Dropping the future cancels the request.
    ///
    /// # Errors
    /// The request is rejected, or its level was removed.
    pub async fn admit(
        &self,
        class: &Class<'_>,
        estimate: WorkEstimate,
        wait_limit: Duration,
    ) -> Result<Execution, AdmitError> {
        let started = Admitted::start(class, estimate);
        if matches!(started, Err(AdmitError::LevelRemoved)) {
            // The change that removes the level may still be under way.
            self.wait_for_configuration();
        }
        let (admitted, phase) = started?;
        if phase == Phase::Waiting {
            return Box::pin(Waiting::begin(admitted).wait(wait_limit)).await.map_err(AdmitError::Rejected);
        }
        let now = admitted.arrived;
        Ok(Execution::begin(admitted, now))
    }
}

/// A request in the queue set of its level.
#[derive(Debug)]
struct Admitted {
    schema: Arc<ConfiguredSchema>,
    id: RequestId,
    arrived: Moment,
    is_watch: bool,
    is_mutating: bool,
}

impl Admitted {
    fn start(class: &Class<'_>, estimate: WorkEstimate) -> Result<(Self, Phase), AdmitError> {
        let schema = &class.schema;
        let now = schema.shared.now();
        let arrival =
            Arrival { schema: schema.series.clone(), distinguisher: class.distinguisher(), hash: None, estimate };
        let (started, is_useless) = schema.level.update(now, |state| {
            if state.is_removed {
                return (None, false);
            }
            let started = state.queues.start(now, arrival).map(|id| {
                state.queues.describe_waiting(id, class.attributes);
                (id, state.queues.phase(id).unwrap_or(Phase::Executing))
            });
            (Some(started), state.is_useless())
        });
        let started = started.ok_or(AdmitError::LevelRemoved)?;
        schema.series.estimated_seats.observe_bytes(estimate.max_seats());
        match started {
            Ok((id, phase)) => {
                let (is_watch, is_mutating) = (class.is_watch(), class.is_mutating());
                Ok((Self { schema: schema.clone(), id, arrived: now, is_watch, is_mutating }, phase))
            }
            Err(reason) => {
                schema.ended(is_useless);
                if !schema.is_exempt {
                    schema.series.waits[0].observe(Duration::ZERO);
                }
                Err(AdmitError::Rejected(schema.rejection(reason, now)))
            }
        }
    }

    /// Removes the request from its queue. Returns `None` if its execution has begun.
    fn cancel(&self, now: Moment) -> Option<Rejection> {
        let Self { schema, id, .. } = self;
        let (is_cancelled, is_useless) = schema.level.update(now, |state| {
            state.wakers.remove(id);
            (state.queues.cancel(now, *id), state.is_useless())
        });
        if !is_cancelled {
            return None;
        }
        schema.ended(is_useless);
        self.end_waiting(now);
        // As in upstream, the label `execute` is true.
        schema.series.waits[1].observe(now.since(self.arrived));
        Some(schema.rejection(RejectReason::TimeOut, now))
    }

    fn finish(&self, now: Moment, cost: Option<SeatSeconds>) {
        let is_useless = self.schema.level.update(now, |state| {
            state.queues.finish(now, self.id, cost);
            state.is_useless()
        });
        self.schema.ended(is_useless);
    }

    fn begin_waiting(&self) {
        let metrics = &self.schema.shared.metrics;
        metrics.kinds[usize::from(self.is_mutating)].lock().waiting.add(1, self.arrived);
        metrics.waiting[usize::from(self.is_mutating)].begin(Instant::now());
    }

    fn end_waiting(&self, now: Moment) {
        let metrics = &self.schema.shared.metrics;
        metrics.kinds[usize::from(self.is_mutating)].lock().waiting.add(-1, now);
        metrics.waiting[usize::from(self.is_mutating)].end();
    }

    fn change_executing(&self, change: isize, now: Moment) {
        self.schema.shared.metrics.kinds[usize::from(self.is_mutating)].lock().executing.add(change, now);
    }
}

impl ConfiguredSchema {
    fn ended(&self, is_useless: bool) {
        if is_useless {
            self.shared.drained.notify_one();
        }
    }

    fn rejection(&self, reason: RejectReason, now: Moment) -> Rejection {
        let retry_after = self.level.record_rejected(self.shared.unix_time(now).as_secs());
        Rejection { reason, retry_after }
    }
}

/// A request that waits in a queue. Dropping this cancels it.
struct Waiting(Option<Admitted>);

impl Waiting {
    fn begin(admitted: Admitted) -> Self {
        admitted.begin_waiting();
        Self(Some(admitted))
    }

    async fn wait(mut self, limit: Duration) -> Result<Execution, Rejection> {
        if let Ok(execution) = timeout(limit, &mut self).await {
            return Ok(execution);
        }
        match self.0.take() {
            Some(admitted) => {
                let now = admitted.schema.shared.now();
                match admitted.cancel(now) {
                    Some(rejection) => Err(rejection),
                    None => Ok(Self::begin_execution(admitted, now)),
                }
            }
            // The timeout has polled this after its end, which does not happen.
            None => std::future::pending().await,
        }
    }

    fn begin_execution(admitted: Admitted, now: Moment) -> Execution {
        admitted.end_waiting(now);
        Execution::begin(admitted, now)
    }
}

impl Future for Waiting {
    type Output = Execution;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Execution> {
        let Some(admitted) = self.0.take() else { return Poll::Pending };
        let now = admitted.schema.shared.now();
        let is_waiting = admitted.schema.level.update(now, |state| {
            state.queues.advance(now);
            let is_waiting = state.queues.phase(admitted.id) == Some(Phase::Waiting);
            if is_waiting {
                state.wakers.insert(admitted.id, context.waker().clone());
            }
            is_waiting
        });
        if is_waiting {
            self.0 = Some(admitted);
            return Poll::Pending;
        }
        Poll::Ready(Self::begin_execution(admitted, now))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(admitted) = self.0.take() else { return };
        let now = admitted.schema.shared.now();
        if admitted.cancel(now).is_none() {
            drop(Self::begin_execution(admitted, now));
        }
    }
}

/// A request that is executed. It holds its seats until this is dropped, and longer if its estimate has an additional
/// latency. A watch drops this when its initial events are sent.
pub struct Execution {
    request: Admitted,
    started: Moment,
    /// The work that the request has really taken, in units of [`SeatSeconds`].
    cost: AtomicU64,
}

impl Execution {
    fn begin(request: Admitted, now: Moment) -> Self {
        request.change_executing(1, now);
        let series = &request.schema.series;
        if !request.schema.is_exempt {
            series.waits[1].observe(now.since(request.arrived));
        }
        series.dispatched.inc();
        Self { request, started: now, cost: AtomicU64::new(0) }
    }

    /// Adds work that the request has really taken, in seat-seconds. Work beyond the estimate delays later requests of
    /// the flow.
    pub fn charge(&self, seat_seconds: f64) {
        self.cost.fetch_add(work(seat_seconds).units(), Ordering::Relaxed);
    }

    /// Adds processor time of the request. A second stands for the seats of one processor, because seats share the
    /// processors of a server that is full.
    pub fn charge_processor_time(&self, took: Duration) {
        self.charge(took.as_secs_f64() * self.request.schema.shared.seats_per_processor);
    }

    /// Shows the user and the target of a request in dumps. A request that has waited is known without this.
    pub fn describe<R: RequestDetails + 'static>(&self, request: &Arc<R>) {
        let Admitted { schema, id, .. } = &self.request;
        let details = Arc::downgrade(request);
        schema.level.write(|state| state.queues.describe(*id, details));
    }

    /// The time that the request has waited.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.started.since(self.request.arrived)
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        let Self { request, started, cost } = self;
        let now = request.schema.shared.now();
        let took = now.since(*started);
        request.schema.series.executions[usize::from(request.is_watch)].observe(took);
        request.change_executing(-1, now);
        let cost = SeatSeconds::from_units(*cost.get_mut());
        request.finish(now, (cost > SeatSeconds::ZERO).then_some(cost));
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfiguredSchema { name, level, .. } = &*self.request.schema;
        f.debug_struct("Execution").field("flow_schema", name).field("priority_level", &level.name).finish()
    }
}
