//! The state of a queue set as plain data (upstream: `util/flowcontrol/debug`).

use pintle_value::Str;

use super::requests::{Details, Request};
use super::{Phase, QueueSet};
use crate::{Moment, SeatSeconds, WorkEstimate};

/// The state of a queue set.
#[derive(Clone, Debug)]
pub struct QueueSetDump {
    /// The queues by their indexes.
    pub queues: Vec<QueueDump>,
    /// The requests that are executed without a queue.
    pub executing_without_queue: Vec<RequestDump>,
    /// The number of requests that wait.
    pub waiting: usize,
    /// The number of requests that are executed.
    pub executing: usize,
    /// The number of requests whose execution has begun.
    pub dispatched: u64,
    /// The number of requests that were rejected for any reason.
    pub rejected: u64,
    /// The number of requests that were rejected while they waited.
    pub cancelled: u64,
}

/// The state of a queue.
#[derive(Clone, Debug)]
pub struct QueueDump {
    /// The requests that wait, in the order of their arrival.
    pub waiting: Vec<RequestDump>,
    /// The requests that are executed.
    pub executing: Vec<RequestDump>,
    /// The reading of the progress meter at which the next request is dispatched in the virtual world.
    pub next_dispatch_r: SeatSeconds,
    /// The seats of requests that are executed or linger.
    pub seats_in_use: usize,
    /// The sum of the work of the requests that wait.
    pub waiting_work: SeatSeconds,
}

/// The state of a request.
#[derive(Clone, Debug)]
pub struct RequestDump {
    /// The name of the flow schema.
    pub flow_schema: Str,
    /// The user or the namespace, or empty.
    pub distinguisher: Str,
    /// The time of the arrival.
    pub arrived: Moment,
    /// The start of the execution; `None` if the request waits.
    pub started: Option<Moment>,
    /// The estimated work.
    pub estimate: WorkEstimate,
    /// The user and the target.
    pub details: Details,
}

impl QueueSet {
    /// The state of the queue set.
    #[must_use]
    pub fn dump(&self) -> QueueSetDump {
        let dump = |request: &Request| RequestDump {
            flow_schema: request.schema.name.clone(),
            distinguisher: self.flows.distinguisher(&request.flow).into(),
            arrived: request.arrived,
            started: (request.phase != Phase::Waiting).then_some(request.started),
            estimate: request.estimate,
            details: request.details.clone(),
        };
        let mut queues: Vec<_> = self
            .queues
            .iter()
            .map(|queue| QueueDump {
                waiting: queue.waiting.iter().filter_map(|id| self.requests.get(*id)).map(dump).collect(),
                executing: Vec::new(),
                next_dispatch_r: queue.next_dispatch_r,
                seats_in_use: queue.seats_in_use,
                waiting_work: queue.waiting_work,
            })
            .collect();
        let mut executing_without_queue = Vec::new();
        for request in self.requests.iter().filter(|request| request.phase == Phase::Executing) {
            let queue = request.queue.and_then(|index| queues.get_mut(index));
            queue.map_or(&mut executing_without_queue, |queue| &mut queue.executing).push(dump(request));
        }
        QueueSetDump {
            queues,
            executing_without_queue,
            waiting: self.waiting,
            executing: self.executing,
            dispatched: self.totals.dispatched,
            rejected: self.totals.rejected,
            cancelled: self.totals.cancelled,
        }
    }
}
