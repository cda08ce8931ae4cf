//! The flow schema of a request, its seats, and its watch, as long as the request has them.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_auth::UserInfo;
use pintle_flow_control::{Class, Execution, RequestAttributes, RequestDetails, TrackedWatch};
use pintle_locks::Mutex;

use super::info::RequestInfo;
use crate::context::RequestContext;

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
    execution: Option<Execution>,
    /// A watch that writes count.
    _watch: Option<TrackedWatch>,
    /// The user and the target of a watch, which has seats for longer than its request exists.
    details: Option<Arc<WatchDetails>>,
}

/// The user and the target of a watch.
#[derive(Debug)]
struct WatchDetails {
    user: UserInfo,
    info: RequestInfo,
}

impl RequestDetails for WatchDetails {
    fn attributes(&self) -> RequestAttributes<'_> {
        self.info.flow_attributes(&self.user)
    }
}

impl Seats {
    pub(crate) fn new(execution: Execution, watch: Option<TrackedWatch>) -> Self {
        Self { execution: Some(execution), _watch: watch, details: None }
    }

    /// Gives the seats back before the request ends. A watch still counts.
    pub(crate) fn release(&mut self) {
        self.execution = None;
        self.details = None;
    }

    /// Shows the request in the dumps of flow control.
    fn describe(&mut self, request: &Arc<RequestContext>) {
        let Some(execution) = &self.execution else { return };
        if request.info.verb == "watch" {
            let details = WatchDetails { user: request.user.clone(), info: request.info.clone() };
            execution.describe(self.details.insert(Arc::new(details)));
        } else {
            execution.describe(request);
        }
    }
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
    pub(crate) fn describe(&self, request: &Arc<RequestContext>) {
        if let Some(seats) = self.seats.lock().as_mut() {
            seats.describe(request);
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

    /// Gives the seats back before the request ends, because another server does its work. A watch still counts.
    pub(crate) fn release_seats(&self) {
        if let Some(seats) = self.seats.lock().as_mut() {
            seats.release();
        }
    }

    /// Sets the headers of the response. As in upstream, they are empty for objects that do not exist.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        headers.insert(FLOW_SCHEMA_UID, self.flow_schema_uid.clone());
        headers.insert(PRIORITY_LEVEL_UID, self.priority_level_uid.clone());
    }
}
