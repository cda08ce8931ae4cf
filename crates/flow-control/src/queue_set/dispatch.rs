//! The virtual time, and the choice of the next request.

use std::cmp::Reverse;
use std::time::Duration;

use super::{ESTIMATED_SERVICE, LimitResponse, Phase, QueueSet, RequestId};
use crate::SeatSeconds;

/// The amount by which the progress meter is set back before it overflows.
const DECREMENT: SeatSeconds = SeatSeconds::MAX.divided_by(2);
/// The reading at which the progress meter is set back.
const HIGH: SeatSeconds = DECREMENT.plus(DECREMENT.divided_by(2));
/// The time by which work beyond the estimates delays a queue at most, at the present rate of the progress meter.
const MAX_CHARGED_TIME: Duration = Duration::from_secs(5);

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

impl QueueSet {
    /// Lets the time pass: releases the seats of requests whose additional latency has ended, and moves the progress
    /// meter.
    pub fn advance(&mut self, now: Duration) {
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
    fn sync(&mut self, now: Duration) {
        // Callers may read the clock before they wait for a lock.
        let Some(elapsed) = now.checked_sub(self.synced) else { return };
        self.synced = now;
        if self.active_queues == 0 || elapsed.is_zero() {
            return;
        }
        self.current_r = self.current_r.plus(SeatSeconds::of(self.virtual_time_rate(), elapsed));
        if self.current_r >= HIGH {
            self.advance_epoch();
        }
    }

    /// The seat-seconds that each active queue is given in a second.
    pub(super) fn virtual_time_rate(&self) -> f64 {
        let requested = self.queued_seats_in_use + self.seats_waiting;
        match self.active_queues {
            0 => 0.0,
            active => requested.min(self.concurrency_limit) as f64 / active as f64,
        }
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
        let Some((index, readings)) = self.next_queue() else { return false };
        let Some(id) = self.queues.get(index).and_then(|queue| queue.waiting.front().copied()) else { return false };
        let Some(request) = self.requests.get(id) else { return false };
        if !self.accommodates(request.max_seats()) {
            request.schema.no_accommodation.inc();
            return false;
        }
        self.begin_execution(index, id);
        self.next_robin = index + 1;
        self.last_dispatch = Some(readings);
        true
    }

    /// The queue whose oldest request would end first in the virtual world. Of equal queues, the first after the queue
    /// of the last dispatch is chosen.
    fn next_queue(&self) -> Option<(usize, LastDispatch)> {
        let first = self.waiting_queues.partition_point(|index| *index < self.next_robin);
        let (before, after) = self.waiting_queues.split_at(first);
        let mut found: Option<(usize, SeatSeconds)> = None;
        let [mut bounds, mut discounted] = [[SeatSeconds::MAX, SeatSeconds::ZERO]; 2];
        for index in after.iter().chain(before) {
            let Some(queue) = self.queues.get(*index) else { continue };
            let Some(oldest) = queue.waiting.front().and_then(|id| self.requests.get(*id)) else { continue };
            let start = queue.next_dispatch_r;
            let in_progress = SeatSeconds::of(queue.seats_in_use as f64, ESTIMATED_SERVICE);
            for (range, reading) in [(&mut bounds, start), (&mut discounted, start.minus(in_progress))] {
                *range = [range[0].min(reading), range[1].max(reading)];
            }
            let end = start.plus(oldest.total_work);
            if found.is_none_or(|(_, best)| end < best) {
                found = Some((*index, end));
            }
        }
        let (index, _) = found?;
        let start = self.queues.get(index)?.next_dispatch_r;
        Some((index, LastDispatch { r: self.current_r, start, bounds, discounted }))
    }

    fn begin_execution(&mut self, index: usize, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let (total_work, waiting_seats) = (request.total_work, request.max_seats());
        self.dequeue(index, 0, total_work, waiting_seats);
        let Some(request) = self.requests.get_mut(id) else { return };
        request.phase = Phase::Executing;
        request.started = self.synced;
        // A request gets at most all seats after its execution, for a longer time.
        let limit = self.concurrency_limit as u64;
        if request.estimate.final_seats > limit {
            request.estimate.final_seats = limit;
            request.estimate.additional_latency = request.final_work.time_at(limit as f64);
        }
        let max_seats = request.max_seats();
        self.count_execution(max_seats);
        self.queued_seats_in_use += max_seats;
        if let Some(queue) = self.queues.get_mut(index) {
            queue.executing += 1;
            queue.seats_in_use += max_seats;
            queue.next_dispatch_r = queue.next_dispatch_r.plus(total_work);
        }
        self.bound_next_dispatch(index);
        self.dispatched.push(id);
    }

    pub(super) fn count_execution(&mut self, max_seats: usize) {
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

    /// Lets no request begin before its arrival in the virtual world. Otherwise a queue that cannot use all its seats
    /// would have an ever greater advantage.
    pub(super) fn bound_next_dispatch(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index)
            && let Some(oldest) = queue.waiting.front().and_then(|id| self.requests.get(*id))
        {
            queue.next_dispatch_r = queue.next_dispatch_r.max(oldest.arrival_r);
        }
    }

    /// Charges work beyond the estimate of a request: to its queue while that is active, otherwise to its flow. An idle
    /// queue starts anew with its next request, which may be of another flow. `rate` and `active_queues` are the state
    /// before the request ended.
    pub(super) fn charge(&mut self, id: RequestId, index: usize, extra: SeatSeconds, rate: f64, active_queues: usize) {
        if extra == SeatSeconds::ZERO || !self.charges_actual_cost {
            return;
        }
        let Some(request) = self.requests.get(id) else { return };
        let Some(queue) = self.queues.get_mut(index) else { return };
        let reading = if queue.is_active() { queue.next_dispatch_r } else { self.flows.charged_to(&request.flow) };
        let reading = reading.max(self.current_r);
        let limit = self.current_r.plus(SeatSeconds::of(rate, MAX_CHARGED_TIME));
        let charged = extra.min(limit.saturating_minus(reading));
        if queue.is_active() {
            queue.next_dispatch_r = reading.plus(charged);
        } else {
            self.flows.charge(&request.flow, reading.plus(charged));
        }
        // The level has given this work beside the work of its seats. Without this step, all queues would move away from
        // the progress meter, and a new flow would be preferred.
        self.current_r = self.current_r.plus(charged.divided_by(active_queues.max(1) as u64));
    }
}
