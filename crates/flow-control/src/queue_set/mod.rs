//! Fair queuing of the requests of a priority level (upstream: `fairqueuing/queueset`). A [`QueueSet`] is a state machine:
//! its methods get the time and never wait.
//!
//! A progress meter R counts the seat-seconds that each active queue has been given. Each queue has a reading of R at
//! which its next request is dispatched in the virtual world. The next request is the request that would end first there.
//!
//! - `requests`: the requests by their ids.
//! - `flows`: the flows and their use of seats.
//! - `dispatch`: the choice of the next request, and the virtual time.
//! - `dump`: the state as plain data.

mod dispatch;
mod dump;
mod flows;
mod requests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Weak};

use crate::metrics::SchemaSeries;
use crate::shuffle_sharding::Dealer;
use crate::{Moment, RequestAttributes, RequestDetails, SeatSeconds, WorkEstimate};

pub(crate) use dispatch::LastDispatch;
use dispatch::LevelUse;
pub use dump::{QueueDump, QueueSetDump, RequestDump};
use flows::{FlowTable, RequestFlow};
pub use flows::{FlowUse, MAX_FLOWS};
pub use requests::{Details, Phase, RequestId};
use requests::{Request, Requests};

/// The time that a request is expected to take, as an initial guess, in nanoseconds.
const ESTIMATED_SERVICE: i64 = 3_000_000;

/// The response of a priority level to requests beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitResponse {
    /// There is no limit.
    Exempt,
    /// Requests beyond the limit are rejected.
    Reject,
    /// Requests beyond the limit wait in queues.
    Queue {
        /// Deals the queues to the flows.
        dealer: Dealer,
        /// The number of requests that may wait in a queue.
        queue_length_limit: usize,
    },
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The level has no queues, and its seats are occupied.
    ConcurrencyLimit,
    /// The queue of the request is full.
    QueueFull,
    /// The request has waited too long, or its client has gone. As in upstream, both have the same reason.
    TimeOut,
}

impl RejectReason {
    pub(crate) const ALL: [Self; 3] = [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    /// The value of the label `reason`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// A request that arrives at a queue set.
#[derive(Debug)]
pub struct Arrival<'r> {
    /// The flow schema of the request.
    pub schema: Arc<SchemaSeries>,
    /// The distinguisher of the flow: a user, a namespace, or empty.
    pub distinguisher: &'r str,
    /// The hash of the flow. `None` for [`flow_hash`](crate::flow_hash).
    pub hash: Option<u64>,
    /// The estimated work.
    pub estimate: WorkEstimate,
}

#[derive(Debug, Default)]
struct Queue {
    /// The requests that wait, in the order of their arrival.
    waiting: VecDeque<RequestId>,
    /// The number of requests that are executed.
    executing: usize,
    /// The seats of requests that are executed or linger.
    seats_in_use: usize,
    /// The reading of the progress meter at which the next request is dispatched in the virtual world.
    next_dispatch_r: SeatSeconds,
    /// The sum of the work of the requests that wait.
    waiting_work: SeatSeconds,
}

impl Queue {
    fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }
}

/// The requests of a priority level.
#[derive(Debug)]
pub struct QueueSet {
    limit_response: LimitResponse,
    charges_actual_cost: bool,
    keeps_seats_free: bool,
    /// The last limit that was configured.
    queue_length_limit: usize,
    concurrency_limit: usize,
    /// There may be more queues than configured, until those drain.
    queues: Vec<Queue>,
    /// The indexes of the queues in which requests wait, ascending.
    waiting_queues: Vec<usize>,
    active_queues: usize,
    requests: Requests,
    flows: FlowTable,
    /// The requests that still occupy their seats, by the time at which they give them back.
    lingering: BinaryHeap<Reverse<(Moment, RequestId)>>,
    /// The requests whose execution has begun since the last call of `take_dispatched`.
    dispatched: Vec<RequestId>,
    current_r: SeatSeconds,
    /// The time up to which `current_r` is computed.
    synced: Moment,
    /// The index of the queue at which the search for the next request begins.
    next_robin: usize,
    waiting: usize,
    executing: usize,
    seats_waiting: usize,
    seats_in_use: usize,
    /// The seats in use of requests that have a queue.
    queued_seats_in_use: usize,
    /// The number of requests for which a queue was chosen.
    enqueued: usize,
    arrived: u64,
    totals: Totals,
    /// The jumps of the progress meter: failed, successful.
    epoch_advances: [u64; 2],
    last_dispatch: Option<LastDispatch>,
}

/// The numbers of requests so far.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    dispatched: u64,
    rejected: u64,
    cancelled: u64,
}

impl QueueSet {
    /// An empty queue set.
    #[must_use]
    pub fn new(limit_response: LimitResponse, concurrency_limit: usize, now: Moment) -> Self {
        let mut queue_set = Self {
            limit_response,
            charges_actual_cost: false,
            keeps_seats_free: false,
            queue_length_limit: 0,
            concurrency_limit,
            queues: Vec::new(),
            waiting_queues: Vec::new(),
            active_queues: 0,
            requests: Requests::default(),
            flows: FlowTable::default(),
            lingering: BinaryHeap::new(),
            dispatched: Vec::new(),
            current_r: SeatSeconds::ZERO,
            synced: now,
            next_robin: 1,
            waiting: 0,
            executing: 0,
            seats_waiting: 0,
            seats_in_use: 0,
            queued_seats_in_use: 0,
            enqueued: 0,
            arrived: 0,
            totals: Totals::default(),
            epoch_advances: [0; 2],
            last_dispatch: None,
        };
        queue_set.configure(now, limit_response, concurrency_limit);
        queue_set
    }

    /// Whether work beyond the estimates delays later requests of the flow. Without it, flows are treated as in
    /// upstream.
    pub fn charge_actual_cost(&mut self, charges: bool) {
        self.charges_actual_cost = charges;
    }

    /// Whether a flow has to leave seats free, so that its long requests do not delay other flows. The more seats a flow
    /// holds, the more seats must be free for its next request. A request takes fewer seats than it was estimated if no
    /// more are available. Levels that reject requests are not affected. Without it, flows are treated as in upstream.
    pub fn keep_seats_free(&mut self, keeps: bool) {
        self.keeps_seats_free = keeps;
    }

    /// Changes the configuration. Requests that wait keep their queues.
    pub fn configure(&mut self, now: Moment, limit_response: LimitResponse, concurrency_limit: usize) {
        self.advance(now);
        // Queues beyond the configured number are removed when they are empty.
        if let LimitResponse::Queue { dealer, queue_length_limit } = limit_response {
            self.queue_length_limit = queue_length_limit;
            self.queues.resize_with(dealer.deck_size().max(self.queues.len()), Queue::default);
        }
        self.limit_response = limit_response;
        self.concurrency_limit = concurrency_limit;
        self.dispatch_as_much_as_possible();
    }

    /// Begins a request. It is executed, or waits.
    ///
    /// # Errors
    /// The request is rejected.
    pub fn start(&mut self, now: Moment, arrival: Arrival<'_>) -> Result<RequestId, RejectReason> {
        self.advance(now);
        let Arrival { schema, distinguisher, hash, estimate } = arrival;
        let (flow, hash_of_names) = self.flows.begin(&schema, distinguisher, now);
        let max_seats = estimate.seats_in_use();
        let queue = match self.place_of(&flow, hash.unwrap_or(hash_of_names), max_seats) {
            Ok(queue) => queue,
            Err(reason) => {
                self.count_rejected(&schema, &flow, reason);
                self.flows.end(&flow);
                return Err(reason);
            }
        };
        let final_work = SeatSeconds::of(estimate.final_seats, estimate.additional_latency);
        let total_work = SeatSeconds::of_nanoseconds(estimate.initial_seats, ESTIMATED_SERVICE).plus(final_work);
        self.arrived += 1;
        let id = self.requests.insert(Request {
            phase: if queue.is_none() { Phase::Executing } else { Phase::Waiting },
            schema,
            flow,
            queue,
            estimate,
            total_work,
            final_work,
            arrived: now,
            arrival_r: self.current_r,
            started: now,
            sequence: self.arrived,
            details: Details::Unknown,
        });
        match queue {
            Some(index) => self.enter(index, id, total_work, max_seats),
            None => self.count_execution(id),
        }
        Ok(id)
    }

    /// The queue for a request. `None` if the request is executed without a queue.
    fn place_of(&mut self, flow: &RequestFlow, hash: u64, max_seats: usize) -> Result<Option<usize>, RejectReason> {
        let LimitResponse::Queue { dealer, queue_length_limit } = self.limit_response else {
            return if self.accommodates(max_seats) { Ok(None) } else { Err(RejectReason::ConcurrencyLimit) };
        };
        let index = self.choose_queue(flow, dealer, hash);
        let length = self.queues.get(index).map_or(usize::MAX, |queue| queue.waiting.len());
        let may_begin =
            self.seats_in_use < self.concurrency_limit && (!self.keeps_seats_free || self.available_seats(flow) > 0);
        if !may_begin && length >= queue_length_limit {
            return Err(RejectReason::QueueFull);
        }
        Ok(Some(index))
    }

    /// Puts a request into its queue, and executes the requests that can be executed now.
    fn enter(&mut self, index: usize, id: RequestId, total_work: SeatSeconds, max_seats: usize) {
        let Some(request) = self.requests.get(id) else { return };
        let executes_now =
            self.waiting == 0 && self.seats_in_use < self.concurrency_limit && self.seats_for(request).is_some();
        let Some(queue) = self.queues.get_mut(index) else { return };
        if !queue.is_active() {
            queue.next_dispatch_r = self.current_r;
            self.active_queues += 1;
        }
        if queue.waiting.is_empty() {
            queue.next_dispatch_r = queue.next_dispatch_r.max(self.current_r);
        }
        request.schema.queue_length.observe_bytes(queue.waiting.len() as u64 + 1);
        if executes_now {
            // Nothing else waits, so no other queue is a candidate.
            self.last_dispatch = Some(LastDispatch::of_single_queue(self.current_r, queue));
            self.execute(index, id);
            return;
        }
        if queue.waiting.is_empty() {
            let at = self.waiting_queues.partition_point(|waiting| *waiting < index);
            self.waiting_queues.insert(at, index);
        }
        queue.waiting.push_back(id);
        queue.waiting_work = queue.waiting_work.plus(total_work);
        self.waiting += 1;
        self.seats_waiting += max_seats;
        self.dispatch_as_much_as_possible();
    }

    /// Chooses the queue of a hand with the least work. The rotation of hands removes the bias of flows whose hands
    /// overlap.
    fn choose_queue(&mut self, flow: &RequestFlow, dealer: Dealer, hash: u64) -> usize {
        let first = self.enqueued % dealer.hand_size();
        self.enqueued += 1;
        if self.waiting == 0 {
            return self.flows.card(flow, dealer, hash, first);
        }
        let hand = dealer.deal(hash);
        let (before, after) = hand[..dealer.hand_size()].split_at(first);
        let work = |index: &&usize| self.queues.get(**index).map_or(SeatSeconds::MAX, |queue| queue.waiting_work);
        // The first of several minima is found.
        after.iter().chain(before).min_by_key(work).copied().unwrap_or_default()
    }

    fn count_rejected(&mut self, schema: &SchemaSeries, flow: &RequestFlow, reason: RejectReason) {
        if let Some(usage) = self.flows.usage_mut(flow) {
            usage.rejected += 1;
        }
        schema.rejected[reason as usize].inc();
        self.totals.rejected += 1;
    }

    /// Ends the execution of a request. It keeps its seats for its additional latency. `cost` is the work that the
    /// request has really taken, if it is known.
    pub fn finish(&mut self, now: Moment, id: RequestId, cost: Option<SeatSeconds>) {
        self.advance(now);
        let level = self.level_use();
        let Some(request) = self.requests.get_mut(id).filter(|request| request.phase == Phase::Executing) else {
            return;
        };
        request.phase = Phase::Lingering;
        let took = now.nanoseconds_since(request.started) as i64;
        let initial_seats = request.estimate.initial_seats;
        let estimated = SeatSeconds::of_nanoseconds(initial_seats, took).plus(request.final_work);
        let additional_latency = request.estimate.additional_latency;
        let (queue, flow) = (request.queue, request.flow.clone());
        if let Some(usage) = self.flows.usage_mut(&flow) {
            usage.executed += 1;
            usage.estimated = usage.estimated.plus(estimated);
            usage.actual = usage.actual.plus(cost.unwrap_or(estimated));
        }
        self.executing -= 1;
        if let Some(index) = queue
            && let Some(queue) = self.queues.get_mut(index)
        {
            queue.executing -= 1;
            let unused = SeatSeconds::of_nanoseconds(initial_seats, ESTIMATED_SERVICE - took);
            queue.next_dispatch_r = queue.next_dispatch_r.minus(unused);
            if !queue.is_active() {
                self.active_queues -= 1;
            }
            self.bound_next_dispatch(index);
            let extra = cost.unwrap_or_default().saturating_minus(estimated);
            self.charge(&flow, Some(index), extra, level);
        }
        if !additional_latency.is_zero() {
            self.lingering.push(Reverse((now.plus(additional_latency), id)));
        } else {
            self.release(id);
        }
        self.dispatch_as_much_as_possible();
    }

    /// Charges a flow for work that it takes beside its requests, if it is in the table.
    pub(crate) fn charge_flow(
        &mut self,
        now: Moment,
        schema: &Arc<SchemaSeries>,
        distinguisher: &str,
        work: SeatSeconds,
    ) {
        self.advance(now);
        let Some(flow) = self.flows.find(schema, distinguisher) else { return };
        if let Some(usage) = self.flows.usage_mut(&flow) {
            usage.actual = usage.actual.plus(work);
        }
        // The flow is counted beside the active queues.
        let level = self.level_use();
        self.charge(&flow, None, work, LevelUse { active_queues: level.active_queues + 1, ..level });
        self.dispatch_as_much_as_possible();
    }

    /// Gives the seats of a request back. Removes its queue if there are too many.
    fn release(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let (max_seats, queue) = (request.max_seats(), request.queue);
        if let Some(usage) = self.flows.usage_mut(&request.flow) {
            usage.seats_in_use -= max_seats;
        }
        self.flows.end(&request.flow);
        self.requests.discard(id);
        self.seats_in_use -= max_seats;
        let Some(index) = queue else { return };
        let Some(queue) = self.queues.get_mut(index) else { return };
        queue.seats_in_use -= max_seats;
        self.queued_seats_in_use -= max_seats;
        if !queue.is_active() && self.queues.len() > self.desired_queues() {
            self.remove_queue(index);
        }
    }

    fn desired_queues(&self) -> usize {
        if let LimitResponse::Queue { dealer, .. } = self.limit_response { dealer.deck_size() } else { 0 }
    }

    fn remove_queue(&mut self, index: usize) {
        let removed = self.queues.remove(index);
        self.queued_seats_in_use -= removed.seats_in_use;
        if self.next_robin > index {
            self.next_robin -= 1;
        }
        for waiting in self.waiting_queues.iter_mut().filter(|waiting| **waiting > index) {
            *waiting -= 1;
        }
        for request in self.requests.iter_mut() {
            request.queue = match request.queue {
                Some(other) if other == index => None,
                Some(other) if other > index => Some(other - 1),
                other => other,
            };
        }
    }

    /// Removes a request that waits, because it has waited too long or its client has gone. Returns false if the request
    /// does not wait.
    pub fn cancel(&mut self, now: Moment, id: RequestId) -> bool {
        self.advance(now);
        let Some(request) = self.requests.get(id).filter(|request| request.phase == Phase::Waiting) else {
            return false;
        };
        let (sequence, total_work, max_seats) = (request.sequence, request.total_work, request.max_seats());
        if let Some(index) = request.queue
            && let Some(queue) = self.queues.get(index)
            && let Ok(at) = queue.waiting.binary_search_by_key(&sequence, |id| self.sequence(*id))
        {
            self.dequeue(index, at, total_work, max_seats);
            self.active_queues -= usize::from(self.queues.get(index).is_some_and(|queue| !queue.is_active()));
            self.bound_next_dispatch(index);
        }
        if let Some(request) = self.requests.remove(id) {
            self.totals.cancelled += 1;
            self.count_rejected(&request.schema, &request.flow, RejectReason::TimeOut);
            self.flows.end(&request.flow);
        }
        if self.keeps_seats_free {
            // Upstream waits for the next event here. But with free seats, there may be none for long.
            self.dispatch_as_much_as_possible();
        }
        true
    }

    fn sequence(&self, id: RequestId) -> u64 {
        self.requests.get(id).map_or(0, |request| request.sequence)
    }

    /// Takes a request out of its queue.
    fn dequeue(&mut self, index: usize, at: usize, total_work: SeatSeconds, max_seats: usize) {
        let Some(queue) = self.queues.get_mut(index) else { return };
        queue.waiting.remove(at);
        queue.waiting_work = queue.waiting_work.minus(total_work);
        if queue.waiting.is_empty()
            && let Ok(at) = self.waiting_queues.binary_search(&index)
        {
            self.waiting_queues.remove(at);
        }
        self.waiting -= 1;
        self.seats_waiting -= max_seats;
    }

    /// Keeps the user and the target of a request for dumps, if the request waits.
    pub(crate) fn describe_waiting(&mut self, id: RequestId, attributes: &RequestAttributes<'_>) {
        if let Some(request) = self.requests.get_mut(id).filter(|request| request.phase == Phase::Waiting) {
            request.details = Details::Text(attributes.columns());
        }
    }

    /// Keeps a request for dumps.
    pub(crate) fn describe(&mut self, id: RequestId, details: Weak<dyn RequestDetails>) {
        if let Some(request) = self.requests.get_mut(id) {
            request.details = Details::Request(details);
        }
    }

    /// The time at which the next request gives its seats back.
    #[must_use]
    pub fn next_release(&self) -> Option<Moment> {
        self.lingering.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes the requests whose execution has begun since the last call, in their order.
    pub fn take_dispatched(&mut self) -> std::vec::Drain<'_, RequestId> {
        self.dispatched.drain(..)
    }

    /// Forgets the requests whose execution has begun.
    pub(crate) fn clear_dispatched(&mut self) {
        self.dispatched.clear();
    }

    /// The phase of a request; `None` if it has ended.
    #[must_use]
    pub fn phase(&self, id: RequestId) -> Option<Phase> {
        self.requests.get(id).map(|request| request.phase)
    }

    /// The index of the queue of a request; `None` without a queue.
    #[must_use]
    pub fn queue_of(&self, id: RequestId) -> Option<usize> {
        self.requests.get(id)?.queue
    }

    /// The number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of requests that are executed.
    #[must_use]
    pub fn executing(&self) -> usize {
        self.executing
    }

    /// The seats of requests that are executed or linger.
    #[must_use]
    pub fn seats_in_use(&self) -> usize {
        self.seats_in_use
    }

    /// The seats that the requests could use: seats in use, and seats of requests that wait.
    #[must_use]
    pub fn seat_demand(&self) -> usize {
        self.seats_in_use + self.seats_waiting
    }

    /// The limit of the seats in use.
    #[must_use]
    pub fn concurrency_limit(&self) -> usize {
        self.concurrency_limit
    }

    /// True if no request waits or is executed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0
    }

    /// The reading of the progress meter.
    #[must_use]
    pub fn current_r(&self) -> SeatSeconds {
        self.current_r
    }

    /// The number of requests that may wait: the denominator of the gauge of waiting requests.
    pub(crate) fn waiting_capacity(&self) -> usize {
        self.queue_length_limit.max(1).saturating_mul(self.desired_queues().max(1))
    }

    pub(crate) fn epoch_advances(&self) -> [u64; 2] {
        self.epoch_advances
    }

    pub(crate) fn last_dispatch(&self) -> Option<&LastDispatch> {
        self.last_dispatch.as_ref()
    }

    /// The use of seats by each flow of the table.
    pub fn flow_uses(&self) -> impl Iterator<Item = &FlowUse> {
        self.flows.uses()
    }

    /// Each request with its schema, its phase and its seats.
    pub(crate) fn by_schema(&self) -> impl Iterator<Item = (&Arc<SchemaSeries>, Phase, usize)> {
        self.requests.iter().map(|request| (&request.schema, request.phase, request.max_seats()))
    }
}

#[cfg(test)]
mod tests;
