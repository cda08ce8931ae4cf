//! The requests of a queue set, by their ids.

use std::sync::{Arc, Weak};

use super::flows::RequestFlow;
use crate::matching::{RequestAttributes, RequestDetails};
use crate::metrics::SchemaSeries;
use crate::{Moment, SeatSeconds, WorkEstimate};

/// A request in a queue set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    place: usize,
    /// The number of requests that have had the place before.
    generation: u64,
}

/// The phase of a request in a queue set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request waits in a queue.
    Waiting,
    /// The request is executed.
    Executing,
    /// The request was executed and still occupies its seats.
    Lingering,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) phase: Phase,
    pub(super) schema: Arc<SchemaSeries>,
    pub(super) flow: RequestFlow,
    /// The index of the queue. `None` if the request has not passed a queue, or its queue was removed.
    pub(super) queue: Option<usize>,
    pub(super) estimate: WorkEstimate,
    /// The estimated work of both phases.
    pub(super) total_work: SeatSeconds,
    /// The estimated work after the execution.
    pub(super) final_work: SeatSeconds,
    pub(super) arrived: Moment,
    /// The reading of the progress meter at the arrival.
    pub(super) arrival_r: SeatSeconds,
    /// The start of the execution.
    pub(super) started: Moment,
    /// The number of requests before this request.
    pub(super) sequence: u64,
    pub(super) details: Details,
}

/// The user and the target of a request, for dumps.
#[derive(Clone, Debug, Default)]
pub enum Details {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The columns of the dump.
    Text(Box<str>),
    /// The request, as long as it exists.
    Request(Weak<dyn RequestDetails>),
}

impl Details {
    /// The columns of the dump. Dropping the request may end it, so no lock of its level may be held.
    #[must_use]
    pub fn columns(&self) -> Box<str> {
        match self {
            Details::Unknown => RequestAttributes::default().columns(),
            Details::Text(text) => text.clone(),
            Details::Request(request) => match request.upgrade() {
                Some(request) => request.attributes().columns(),
                None => RequestAttributes::default().columns(),
            },
        }
    }
}

impl Request {
    pub(super) fn max_seats(&self) -> usize {
        self.estimate.seats_in_use()
    }
}

#[derive(Debug, Default)]
struct Place {
    generation: u64,
    request: Option<Request>,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    places: Vec<Place>,
    free: Vec<usize>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> RequestId {
        let free = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() - 1
        });
        let place = &mut self.places[free];
        place.request = Some(request);
        RequestId { place: free, generation: place.generation }
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Request> {
        let place = self.places.get(id.place).filter(|place| place.generation == id.generation)?;
        place.request.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let place = self.places.get_mut(id.place).filter(|place| place.generation == id.generation)?;
        place.request.as_mut()
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Request> {
        let request = self.places.get_mut(id.place).filter(|place| place.generation == id.generation)?.request.take();
        self.discard(id);
        request
    }

    /// Removes a request without moving it.
    pub(super) fn discard(&mut self, id: RequestId) {
        if let Some(place) = self.places.get_mut(id.place).filter(|place| place.generation == id.generation) {
            place.request = None;
            place.generation += 1;
            self.free.push(id.place);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.places.iter().filter_map(|place| place.request.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.places.iter_mut().filter_map(|place| place.request.as_mut())
    }
}
