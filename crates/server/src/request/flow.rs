//! The flow schema of a request, its seats, and its watch, as long as the request has them. The processor time of the
//! request is charged to its flow.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_auth::UserInfo;
use pintle_budget::thread_time;
use pintle_flow_control::{Class, Execution, RequestAttributes, RequestDetails, RequestedFlow, TrackedWatch};
use pintle_locks::Mutex;

use super::info::RequestInfo;

/// The processor time of a watch from which on it is charged.
const MIN_CHARGE: Duration = Duration::from_millis(5);
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// A request that flow control has classified. A watch has this for longer than its request exists.
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
    watch: Option<WatchOfFlow>,
    /// The user and the target of a watch, which has seats for longer than its request exists.
    details: Option<Arc<WatchDetails>>,
}

/// A watch of a flow.
#[derive(Debug)]
struct WatchOfFlow {
    flow: RequestedFlow,
    /// The watch, if it is of a kind that writes count.
    _tracked: Option<TrackedWatch>,
    /// The processor time that is not charged yet.
    uncharged: Duration,
}

impl Drop for WatchOfFlow {
    fn drop(&mut self) {
        if !self.uncharged.is_zero() {
            self.flow.charge_processor_time(self.uncharged);
        }
    }
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
    /// The seats of a request.
    pub(crate) fn new(execution: Execution) -> Self {
        Self { execution: Some(execution), watch: None, details: None }
    }

    /// The seats of a watch. `tracked` is the watch if it is of a kind that writes count.
    pub(crate) fn of_watch(execution: Execution, flow: RequestedFlow, tracked: Option<TrackedWatch>) -> Self {
        let watch = WatchOfFlow { flow, _tracked: tracked, uncharged: Duration::ZERO };
        Self { watch: Some(watch), ..Self::new(execution) }
    }

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

    /// Gives the seats back before the request ends. A watch still counts.
    pub(crate) fn release(&mut self) {
        self.execution = None;
        self.details = None;
    }

    fn describe<R: RequestDetails + 'static>(&mut self, request: &Arc<R>, user: &UserInfo, info: &RequestInfo) {
        let Some(execution) = &self.execution else { return };
        if self.watch.is_some() {
            let details = WatchDetails { user: user.clone(), info: info.clone() };
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

    /// Shows a request in the dumps of flow control, with its user and its target.
    pub(crate) fn describe<R: RequestDetails + 'static>(&self, request: &Arc<R>, user: &UserInfo, info: &RequestInfo) {
        if let Some(seats) = self.seats.lock().as_mut() {
            seats.describe(request, user, info);
        }
    }

    /// Charges the flow for the processor time of a part of the request.
    pub(crate) fn charge(&self, took: Duration) {
        if let Some(seats) = self.seats.lock().as_mut() {
            seats.charge(took);
        }
    }

    /// Gives the seats back before the request ends: when a watch has sent its initial events, or when another server
    /// does the work. A watch still counts.
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

/// Runs a future. Tells `charge` after each poll how much processor time that took.
pub(crate) fn timed<F: Future>(
    mut future: Pin<&mut F>,
    mut charge: impl FnMut(Duration),
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let started = thread_time();
        let polled = future.as_mut().poll(context);
        charge(thread_time().saturating_sub(started));
        polled
    })
}
