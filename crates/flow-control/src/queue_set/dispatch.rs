//! The virtual time, and the choice of the next request.

use std::cmp::Reverse;
use std::time::Duration;

use super::flows::RequestFlow;
use super::{ESTIMATED_SERVICE, LimitResponse, Phase, Queue, QueueSet, Request, RequestId};
use crate::{Moment, SeatSeconds};

/// The amount by which the progress meter is set back before it overflows.
const DECREMENT: SeatSeconds = SeatSeconds::MAX.divided_by(2);
/// The reading at which the progress meter is set back.
const HIGH: SeatSeconds = DECREMENT.plus(DECREMENT.divided_by(2));
/// The time by which work beyond the estimates delays a queue at most, at the present rate of the progress meter.
const MAX_CHARGED_TIME: Duration = Duration::from_secs(5);

/// The seats that a flow may hold for each seat that is free. A single flow gets 8/9 of the seats of a level, ten flows
/// get 80/81 of them.
const SEATS_FOR_A_FREE_SEAT: usize = 8;

/// The next request, its queue and its place there, and the readings of the progress meter.
struct NextRequest {
    index: usize,
    at: usize,
    id: RequestId,
    readings: LastDispatch,
}

/// The use of a level that decides how fast the progress meter runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelUse {
    /// The seats that the requests of all queues could use.
    pub(super) seats: usize,
    pub(super) active_queues: usize,
}

/// The readings of the progress meter at a dispatch, for metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LastDispatch {
    /// The progress meter.
    pub(crate) r: SeatSeconds,
    /// The start of the dispatched request in the virtual world.
    pub(crate) start: SeatSeconds,
    /// The minimum and maximum of the starts of the queues with waiting requests.
    pub(crate) bounds: [SeatSeconds; 2],
    /// The bounds, less the estimated work in progress.
    pub(crate) discounted: [SeatSeconds; 2],
}

impl LastDispatch {
    /// The readings if requests wait in one queue only.
    pub(super) fn of_single_queue(r: SeatSeconds, queue: &Queue) -> Self {
        let start = queue.next_dispatch_r;
        Self { r, start, bounds: [start; 2], discounted: [start.minus(in_progress(queue)); 2] }
    }
}

/// The work that is expected of the requests of a queue that are executed.
fn in_progress(queue: &Queue) -> SeatSeconds {
    SeatSeconds::of_nanoseconds(queue.seats_in_use as u64, ESTIMATED_SERVICE)
}

impl QueueSet {
    /// Lets the time pass: releases the seats of requests whose additional latency has ended, and moves the progress
    /// meter.
    pub fn advance(&mut self, now: Moment) {
        while let Some(Reverse((due, id))) = self.lingering.peek().copied()
            && due <= now
        {
            self.lingering.pop();
            self.sync(due);
            self.release(id);
            self.dispatch_as_much_as_possible();
        }
        self.sync(now);
    }

    /// Moves the progress meter to the time, as if the state had not changed since the last call.
    fn sync(&mut self, now: Moment) {
        // Callers may read the clock before they wait for a lock, so the time may go back.
        let elapsed = now.nanoseconds_since(self.synced);
        self.synced = self.synced.max(now);
        if self.active_queues == 0 {
            return;
        }
        let progress = match self.active_queues {
            1 => SeatSeconds::of_nanoseconds(self.usable_seats() as u64, elapsed as i64),
            _ => SeatSeconds::of_part(self.virtual_time_rate(), elapsed),
        };
        self.current_r = self.current_r.plus(progress);
        if self.current_r >= HIGH {
            self.advance_epoch();
        }
    }

    /// The seat-seconds that each active queue is given in a second.
    pub(super) fn virtual_time_rate(&self) -> f64 {
        if self.active_queues == 0 { 0.0 } else { self.usable_seats() as f64 / self.active_queues as f64 }
    }

    /// The seats that the requests of all queues could use now.
    pub(super) fn usable_seats(&self) -> usize {
        (self.queued_seats_in_use + self.seats_waiting).min(self.concurrency_limit)
    }

    /// Sets the progress meter and all its readings back.
    fn advance_epoch(&mut self) {
        self.current_r = self.current_r.minus(DECREMENT);
        let mut success = true;
        for queue in &mut self.queues {
            if !queue.is_active() {
                queue.next_dispatch_r = SeatSeconds::ZERO;
                continue;
            }
            success &= queue.next_dispatch_r >= DECREMENT;
            queue.next_dispatch_r = queue.next_dispatch_r.minus(DECREMENT);
        }
        for request in self.requests.iter_mut().filter(|request| request.phase == Phase::Waiting) {
            success &= request.arrival_r >= DECREMENT;
            request.arrival_r = request.arrival_r.minus(DECREMENT);
        }
        self.flows.move_back(DECREMENT);
        self.epoch_advances[usize::from(success)] += 1;
        tracing::info!(success, "Advancing epoch of a queue set");
    }

    pub(super) fn dispatch_as_much_as_possible(&mut self) {
        while self.waiting > 0 && self.seats_in_use < self.concurrency_limit && self.dispatch_next() {}
    }

    /// Begins the execution of the next request. Returns false if its seats are not free.
    fn dispatch_next(&mut self) -> bool {
        let Some(NextRequest { index, at, id, readings }) = self.next_request() else { return false };
        let Some(request) = self.requests.get(id) else { return false };
        if self.seats_for(request).is_none() {
            request.schema.no_accommodation.inc();
            return false;
        }
        self.last_dispatch = Some(readings);
        let (total_work, max_seats) = (request.total_work, request.max_seats());
        self.dequeue(index, at, total_work, max_seats);
        self.execute(index, id);
        true
    }

    /// The oldest request of a queue that would end first in the virtual world. Of equal queues, the first after the queue
    /// of the last dispatch is chosen. Requests whose flows have to leave seats free are passed over.
    fn next_request(&self) -> Option<NextRequest> {
        let first = self.waiting_queues.partition_point(|index| *index < self.next_robin);
        let (before, after) = self.waiting_queues.split_at(first);
        let mut found: Option<(usize, usize, RequestId, SeatSeconds, SeatSeconds)> = None;
        let [mut bounds, mut discounted] = [[SeatSeconds::MAX, SeatSeconds::ZERO]; 2];
        for index in after.iter().chain(before) {
            let Some(queue) = self.queues.get(*index) else { continue };
            let mut waiting = queue.waiting.iter().enumerate();
            let oldest = waiting.find_map(|(at, id)| {
                let request = self.requests.get(*id)?;
                let may_begin = !self.keeps_seats_free || self.seats_for(request).is_some();
                may_begin.then_some((at, *id, request))
            });
            let Some((at, id, oldest)) = oldest else { continue };
            let start = queue.next_dispatch_r.max(self.flows.charged_to(&oldest.flow));
            let discounted_start = start.minus(in_progress(queue));
            for (range, reading) in [(&mut bounds, start), (&mut discounted, discounted_start)] {
                *range = [range[0].min(reading), range[1].max(reading)];
            }
            let end = start.plus(oldest.total_work);
            if found.is_none_or(|(.., best)| end < best) {
                found = Some((*index, at, id, start, end));
            }
        }
        let (index, at, id, start, _) = found?;
        Some(NextRequest { index, at, id, readings: LastDispatch { r: self.current_r, start, bounds, discounted } })
    }

    /// Begins the execution of a request that was taken out of its queue.
    pub(super) fn execute(&mut self, index: usize, id: RequestId) {
        self.next_robin = index + 1;
        let Some(request) = self.requests.get(id) else { return };
        let limit = match self.keeps_seats_free {
            true => self.available_seats(&request.flow),
            false => self.concurrency_limit,
        } as u64;
        let Some(request) = self.requests.get_mut(id) else { return };
        request.phase = Phase::Executing;
        request.started = self.synced;
        if self.keeps_seats_free && request.estimate.initial_seats > limit {
            request.estimate.initial_seats = limit;
            request.total_work = SeatSeconds::of_nanoseconds(limit, ESTIMATED_SERVICE).plus(request.final_work);
        }
        // A request gets at most all seats after its execution, for a longer time.
        if request.estimate.final_seats > limit {
            request.estimate.final_seats = limit;
            request.estimate.additional_latency = request.final_work.time_at(limit as f64);
        }
        let (max_seats, total_work) = (request.max_seats(), request.total_work);
        self.count_execution(id);
        self.queued_seats_in_use += max_seats;
        if let Some(queue) = self.queues.get_mut(index) {
            queue.executing += 1;
            queue.seats_in_use += max_seats;
            queue.next_dispatch_r = queue.next_dispatch_r.plus(total_work);
        }
        self.bound_next_dispatch(index);
        self.dispatched.push(id);
    }

    pub(super) fn count_execution(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let max_seats = request.max_seats();
        if let Some(usage) = self.flows.usage_mut(&request.flow) {
            usage.seats_in_use += max_seats;
        }
        self.executing += 1;
        self.seats_in_use += max_seats;
        self.totals.dispatched += 1;
    }

    /// Whether a request of this width can be executed now. A request that is wider than the limit is executed alone.
    pub(super) fn accommodates(&self, seats: usize) -> bool {
        match self.limit_response {
            LimitResponse::Exempt => true,
            _ if seats > self.concurrency_limit => self.executing == 0,
            _ => self.seats_in_use + seats <= self.concurrency_limit,
        }
    }

    /// The seats with which a request can begin now. `None` if it has to wait. If seats are kept free, the request takes
    /// the available seats and does not wait for more.
    pub(super) fn seats_for(&self, request: &Request) -> Option<usize> {
        let seats = request.max_seats();
        if !self.keeps_seats_free {
            return self.accommodates(seats).then_some(seats);
        }
        let available = self.available_seats(&request.flow);
        (available > 0).then_some(seats.min(available))
    }

    /// The seats that a flow may take now if seats are kept free. After that, a seat must be free for each eight seats
    /// that the flow holds. A flow that holds none may take all seats that are free. Network switches share their buffers
    /// in this way (Choudhury and Hahne: "Dynamic queue length thresholds for shared-memory packet switches").
    pub(super) fn available_seats(&self, flow: &RequestFlow) -> usize {
        let free = self.concurrency_limit.saturating_sub(self.seats_in_use);
        match self.flows.seats_in_use(flow) {
            0 => free,
            // The greatest number of seats for which (held + seats) / 8 <= free - seats.
            held => (SEATS_FOR_A_FREE_SEAT * (free + 1) - 1).saturating_sub(held) / (SEATS_FOR_A_FREE_SEAT + 1),
        }
    }

    /// Lets no request begin before its arrival in the virtual world. Otherwise a queue that cannot use all its seats
    /// would have an ever greater advantage.
    pub(super) fn bound_next_dispatch(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index)
            && let Some(oldest) = queue.waiting.front().and_then(|id| self.requests.get(*id))
        {
            queue.next_dispatch_r = queue.next_dispatch_r.max(oldest.arrival_r);
        }
    }

    /// Charges work beyond the estimates of requests. An active queue pays for its requests. An idle queue starts anew, and
    /// its next request may be of another flow, so the flow itself pays. It gets a reading of the progress meter before
    /// which none of its requests begins in the virtual world, in any queue. `level` is the use of the level while the work
    /// was done.
    pub(super) fn charge(&mut self, flow: &RequestFlow, queue: Option<usize>, extra: SeatSeconds, level: LevelUse) {
        if extra == SeatSeconds::ZERO || !self.charges_actual_cost {
            return;
        }
        let queue = queue.and_then(|index| self.queues.get_mut(index)).filter(|queue| queue.is_active());
        let reading = queue.as_ref().map_or_else(|| self.flows.charged_to(flow), |queue| queue.next_dispatch_r);
        let reading = reading.max(self.current_r);
        let active_queues = level.active_queues.max(1) as u64;
        let limit =
            self.current_r.plus(SeatSeconds::of(level.seats as u64, MAX_CHARGED_TIME).divided_by(active_queues));
        let charged = extra.min(limit.saturating_minus(reading));
        match queue {
            Some(queue) => queue.next_dispatch_r = reading.plus(charged),
            None => self.flows.charge(flow, reading.plus(charged)),
        }
        // The level has given this work beside the work of its seats. Without this step, all queues would move away from
        // the progress meter, and a new flow would be preferred.
        self.current_r = self.current_r.plus(charged.divided_by(active_queues));
    }

    /// The use of the level now.
    pub(super) fn level_use(&self) -> LevelUse {
        LevelUse { seats: self.usable_seats(), active_queues: self.active_queues }
    }
}
