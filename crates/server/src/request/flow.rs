//! The flow schema of a request, its seats, and its watch, as long as the request has them. The processor time of the
//! request is charged to its flow.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_flow_control::{Class, Execution, RequestDetails, RequestedFlow, TrackedWatch};
use pintle_locks::Mutex;

/// The processor time of a watch from which on it is charged.
const MIN_CHARGE: Duration = Duration::from_millis(5);
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// A request that flow control has classified.
#[derive(Debug)]
pub(crate) struct Flow {
    flow_schema_uid: HeaderValue,
    priority_level_uid: HeaderValue,
    seats: Mutex<Option<Seats>>,
}

/// The seats of a request while it is executed. Dropping this gives them back.
#[derive(Debug)]
pub(crate) struct Seats {
    /// The seats. A watch gives them back when its initial events are sent.
    pub(crate) execution: Option<Execution>,
    /// A watch that writes count.
    pub(crate) watch: Option<WatchOfFlow>,
}

/// A watch of a flow.
#[derive(Debug)]
pub(crate) struct WatchOfFlow {
    pub(crate) flow: RequestedFlow,
    /// The watch, if it is of a kind that writes count.
    pub(crate) _tracked: Option<TrackedWatch>,
    /// The processor time that is not charged yet.
    pub(crate) uncharged: Duration,
}

impl Seats {
    /// Charges the flow for processor time.
    pub(crate) fn charge(&mut self, took: Duration) {
        match (&self.execution, &mut self.watch) {
            (Some(execution), _) => execution.charge_processor_time(took),
            (None, Some(watch)) => {
                watch.uncharged += took;
                if watch.uncharged >= MIN_CHARGE {
                    watch.flow.charge_processor_time(std::mem::take(&mut watch.uncharged));
                }
            }
            (None, None) => {}
        }
    }
}

/// Runs a future. Tells `charge` after each poll how long that took. This is the processor time of the future, unless
/// other threads had the processor meanwhile.
pub(crate) fn timed<F: Future>(
    mut future: Pin<&mut F>,
    mut charge: impl FnMut(Duration),
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let started = Instant::now();
        let polled = future.as_mut().poll(context);
        charge(started.elapsed());
        polled
    })
}

impl Flow {
    /// A request without seats.
    pub(crate) fn new(class: &Class<'_>) -> Self {
        let header = |uid: &str| HeaderValue::from_str(uid).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self {
            flow_schema_uid: header(class.flow_schema_uid()),
            priority_level_uid: header(class.priority_level_uid()),
            seats: Mutex::new(None),
        }
    }

    /// Gives the request its seats.
    pub(crate) fn begin(&self, seats: Seats) {
        *self.seats.lock() = Some(seats);
    }

    /// Shows a request in the dumps of flow control.
    pub(crate) fn describe<R: RequestDetails + 'static>(&self, request: &Arc<R>) {
        if let Some(execution) = self.seats.lock().as_ref().and_then(|seats| seats.execution.as_ref()) {
            execution.describe(request);
        }
    }

    /// Charges the flow for the processor time of a part of the request.
    pub(crate) fn charge(&self, took: Duration) {
        if let Some(seats) = &mut *self.seats.lock() {
            seats.charge(took);
        }
    }

    /// Takes the seats, for the part of a watch that outlives the request.
    pub(crate) fn take_seats(&self) -> Option<Seats> {
        self.seats.lock().take()
    }

    /// Sets the headers of the response. As in upstream, they are empty for objects that do not exist.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        headers.insert(FLOW_SCHEMA_UID, self.flow_schema_uid.clone());
        headers.insert(PRIORITY_LEVEL_UID, self.priority_level_uid.clone());
    }
}
