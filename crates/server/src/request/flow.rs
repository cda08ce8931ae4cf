//! The flow schema of a request, its seats, and its watch, as long as the request has them.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_flow_control::{Class, Execution, RequestDetails, TrackedWatch};
use pintle_locks::Mutex;

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
    pub(crate) _watch: Option<TrackedWatch>,
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
        if let Some(execution) = self.seats.lock().as_ref().and_then(|seats| seats.execution.as_ref()) {
            execution.charge_processor_time(took);
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
