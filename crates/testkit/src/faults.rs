//! Faults of the control plane that a controller has to survive.

use std::sync::Arc;
use std::time::Duration;

use pintle::{InjectedFailure, Interruption};

use crate::filter::RequestFilter;
use crate::observer::Observer;

/// A fault that happens to a request.
#[derive(Clone, Debug)]
#[must_use]
pub struct Fault {
    pub(crate) action: Action,
    /// The number of requests that have the fault; `None` for all.
    pub(crate) times: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Fail(InjectedFailure),
    Delay(Duration),
    CloseConnection,
    LoseAnswer,
}

impl Fault {
    fn of(action: Action) -> Self {
        Self { action, times: Some(1) }
    }

    /// The request fails with an HTTP status code of at least 400, with the reason of Kubernetes for it.
    ///
    /// # Panics
    /// Panics if the code is not from 400 to 599.
    pub fn status(code: u16) -> Self {
        assert!((400..600).contains(&code), "{code} is not the code of an error");
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        let message = format!("injected fault: {}", if reason.is_empty() { "error" } else { reason });
        Self::of(Action::Fail(InjectedFailure { code, reason: reason.to_owned(), message, retry_after: None }))
    }

    /// 409: another client has changed the object.
    pub fn conflict() -> Self {
        Self::status(409)
    }

    /// 410: the resourceVersion or the continue token is too old.
    pub fn gone() -> Self {
        Self::status(410)
    }

    /// 429, with `Retry-After` in whole seconds. A `kube::Client` retries such requests itself, unless
    /// `Config::default_retry` is false.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Self::status(429).retry_after(retry_after)
    }

    /// 500.
    pub fn internal_error() -> Self {
        Self::status(500)
    }

    /// 503. A `kube::Client` retries such requests itself, unless `Config::default_retry` is false.
    pub fn unavailable() -> Self {
        Self::status(503)
    }

    /// The request is handled after a delay.
    pub fn delay(by: Duration) -> Self {
        Self::of(Action::Delay(by))
    }

    /// The connection is closed, and the request is not handled.
    pub fn close_connection() -> Self {
        Self::of(Action::CloseConnection)
    }

    /// The request is handled, and the connection is closed instead of an answer. A client cannot know whether the
    /// request was executed.
    pub fn lose_answer() -> Self {
        Self::of(Action::LoseAnswer)
    }

    /// Sets the message of an error.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        if let Action::Fail(failure) = &mut self.action {
            failure.message = message.into();
        }
        self
    }

    /// Sets the reason of an error.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        if let Action::Fail(failure) = &mut self.action {
            failure.reason = reason.into();
        }
        self
    }

    /// Sets `Retry-After` of an error, in whole seconds.
    pub fn retry_after(mut self, after: Duration) -> Self {
        if let Action::Fail(failure) = &mut self.action {
            failure.retry_after = Some(u32::try_from(after.as_secs()).unwrap_or(u32::MAX));
        }
        self
    }

    /// The fault happens to the next `times` requests. The default is one.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// The fault happens to all requests until it is removed.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }
}

/// Injects faults into a cluster. Requests of the kit itself have none.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Observer>);

impl Faults {
    pub(crate) fn new(observer: Arc<Observer>) -> Self {
        Self(observer)
    }

    /// Injects a fault into the next requests that a filter selects. If a request has several faults, the first
    /// injected fault that is not used up counts. Faults come after authentication and authorization.
    pub fn inject(&self, filter: RequestFilter, fault: Fault) -> InjectedFault {
        InjectedFault { id: self.0.inject(filter, fault), observer: self.0.clone() }
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.0.remove_faults(None);
    }

    /// Disconnects the open watches that a filter selects, as the loss of their network connection does. Returns their
    /// number.
    pub fn disconnect_watches(&self, filter: &RequestFilter) -> usize {
        self.0.interrupt(filter, Interruption::Disconnect)
    }

    /// Ends the open watches that a filter selects with the error 410 Gone, so that their clients have to list again.
    /// Returns their number.
    pub fn expire_watches(&self, filter: &RequestFilter) -> usize {
        self.0.interrupt(filter, Interruption::Expire)
    }

    /// As [`Faults::expire_watches`], but a watch ends only when it has an event to send. The event is not sent.
    pub fn expire_watches_at_next_event(&self, filter: &RequestFilter) -> usize {
        self.0.interrupt(filter, Interruption::ExpireAtNextEvent)
    }

    /// Closes all connections of clients, with the requests and watches on them. Returns their number.
    pub fn close_connections(&self) -> usize {
        self.0.close_connections()
    }
}

/// An injected fault. Its drop does not remove the fault.
#[derive(Clone, Debug)]
pub struct InjectedFault {
    id: u64,
    observer: Arc<Observer>,
}

impl InjectedFault {
    /// The number of requests that have had the fault so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.observer.fault_count(self.id)
    }

    /// Removes the fault.
    pub fn remove(&self) {
        self.observer.remove_faults(Some(self.id));
    }
}
