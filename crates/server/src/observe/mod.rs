//! Observers see every request with its user, and then its answer. They serve the log of requests, and test kits that
//! record requests and inject faults. A server without observers does nothing for them.

mod body;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::StatusCode;
use http::header::USER_AGENT;
use pintle_auth::UserInfo;
use pintle_registry::{ApiError, BoxFuture};
use pintle_store::Timestamp;
use pintle_value::{Value, object};

pub use self::body::{RedactedBody, RequestBody};
use crate::context::RequestContext;
use crate::http::{ConnectionGuard, header_text};
use crate::request::observed::{Interruptions, ObservedParts};

/// Time limit for the end of a request whose connection was closed.
const MAX_END_TIME: Duration = Duration::from_secs(10);

/// Sees every request, and may interfere with it. The methods run on the threads that serve requests, so they must not
/// block.
pub trait RequestObserver: fmt::Debug + Send + Sync + 'static {
    /// Called after a request has passed authentication and authorization, before it is handled. `None` lets the
    /// request be handled at once. Otherwise the future yields the intervention.
    fn intervene(&self, request: &ObservedRequest<'_>) -> Option<BoxFuture<'static, Intervention>> {
        let _ = request;
        None
    }

    /// Called before a watch starts. The returned value can interrupt the watch.
    fn interruptions(&self, request: &ObservedRequest<'_>) -> Option<Interruptions> {
        let _ = request;
        None
    }

    /// Called once for each request, when its answer is known and before it is sent. For a watch, this is the start of
    /// the watch.
    fn answered(&self, request: &ObservedRequest<'_>, answer: &ObservedAnswer);
}

/// An observer's intervention in a request.
#[derive(Clone, Debug)]
pub enum Intervention {
    /// The request is handled.
    Handle,
    /// The request fails, and is not handled.
    Fail(InjectedFailure),
    /// The request is not handled, and its connection is closed without an answer.
    CloseConnection,
    /// The request is handled, and its connection is closed instead of an answer.
    LoseAnswer,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFailure {
    /// The HTTP status code, at least 400.
    pub code: u16,
    /// The reason of the `Status`, such as `Conflict`.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The value of `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
}

impl InjectedFailure {
    fn into_error(self) -> ApiError {
        let mut status = object! {
            "status": "Failure",
            "message": self.message.as_str(),
            "reason": self.reason.as_str(),
            "code": i64::from(self.code),
        };
        if let Some(seconds) = self.retry_after {
            status.set("details", object! { "retryAfterSeconds": seconds });
        }
        ApiError::Denied { message: self.message, status: Box::new(status) }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedAnswer {
    /// The HTTP status code. 0 if the connection is closed and the request was not handled.
    pub code: u16,
    /// The reason of the `Status`, if the answer is an error.
    pub reason: String,
    /// The message of the `Status`, if the answer is an error.
    pub message: String,
    /// The time from the arrival of the request to its answer.
    pub latency: Duration,
}

/// A request, as observers see it.
#[derive(Clone, Copy)]
pub struct ObservedRequest<'r>(&'r RequestContext);

impl fmt::Debug for ObservedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedRequest")
            .field("verb", &self.verb())
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl<'r> ObservedRequest<'r> {
    /// The time at which the request arrived, by the server's clock.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        let latency = u64::try_from(self.0.recorder.trace.started().elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.cluster.clock.now().0.saturating_sub(latency))
    }

    /// The client's address.
    #[must_use]
    pub fn source(&self) -> Option<SocketAddr> {
        self.0.source
    }

    /// `get`, `list`, `create`, …; for paths that name no resource, the HTTP method in lower case.
    #[must_use]
    pub fn verb(&self) -> &'r str {
        &self.0.info.verb
    }

    /// The path and the query, as they were sent.
    #[must_use]
    pub fn path(&self) -> &'r str {
        self.0.uri.path_and_query().map_or_else(|| self.0.uri.path(), |path| path.as_str())
    }

    /// True if the path names a resource.
    #[must_use]
    pub fn is_resource(&self) -> bool {
        self.0.info.is_resource
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &'r str {
        &self.0.info.group
    }

    /// The version of the API group.
    #[must_use]
    pub fn version(&self) -> &'r str {
        &self.0.info.version
    }

    /// The plural name of the resource, or empty.
    #[must_use]
    pub fn resource(&self) -> &'r str {
        &self.0.info.resource
    }

    /// The subresource, or empty.
    #[must_use]
    pub fn subresource(&self) -> &'r str {
        &self.0.info.subresource
    }

    /// The namespace, or empty.
    #[must_use]
    pub fn namespace(&self) -> &'r str {
        &self.0.info.namespace
    }

    /// The object's name in the path, or empty.
    #[must_use]
    pub fn name(&self) -> &'r str {
        &self.0.info.name
    }

    /// The user that the request acts as. The user has no name if the request has not been authenticated.
    #[must_use]
    pub fn user(&self) -> &'r UserInfo {
        &self.0.user
    }

    /// The header `User-Agent`, or empty.
    #[must_use]
    pub fn user_agent(&self) -> &'r str {
        header_text(&self.0.headers, &USER_AGENT)
    }

    /// The body of a write of a resource, if it was received.
    #[must_use]
    pub fn body(&self) -> Option<RequestBody<'r>> {
        let is_write = !matches!(self.verb(), "get" | "list" | "watch" | "head" | "options");
        let body =
            self.0.observed.as_ref()?.body().filter(|body| is_write && self.is_resource() && !body.is_empty())?;
        Some(RequestBody::new(self.0, body))
    }

    /// The connection.
    #[must_use]
    pub fn connection(&self) -> ObservedConnection {
        ObservedConnection(self.0.connection.clone())
    }
}

/// The connection of a request.
#[derive(Clone, Debug)]
pub struct ObservedConnection(Weak<ConnectionGuard>);

impl ObservedConnection {
    /// Closes the connection at once, regardless of its activity. Returns false if this was done before, or if the
    /// connection no longer exists.
    pub fn close(&self) -> bool {
        let guard = self.0.upgrade();
        guard.is_some_and(|guard| guard.abort())
    }

    /// True if the connection is not closed yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// True if both are the same connection.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// The observers of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers(Vec<Arc<dyn RequestObserver>>);

/// The interference of observers with a request before it is handled.
#[derive(Debug, Default)]
pub(crate) enum Interference {
    /// The request is handled.
    #[default]
    None,
    /// The request fails with this error.
    Fail(ApiError),
    /// The request's connection is closed.
    CloseConnection,
    /// The request is handled, and its connection is closed.
    LoseAnswer,
}

impl Interference {
    /// True if the request is neither handled nor answered.
    pub(crate) fn prevents_handling(&self) -> bool {
        matches!(self, Self::CloseConnection)
    }

    /// True if the connection is closed instead of an answer.
    pub(crate) fn closes_connection(&self) -> bool {
        matches!(self, Self::CloseConnection | Self::LoseAnswer)
    }
}

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<dyn RequestObserver>>) -> Self {
        Self(observers)
    }

    /// The data of a new request that is kept for observers; `None` without observers.
    pub(crate) fn parts(&self) -> Option<Box<ObservedParts>> {
        (!self.0.is_empty()).then(Box::default)
    }

    /// Asks the observers whether to interfere with a request. The first observer that intervenes decides.
    pub(crate) async fn intervene(&self, request: &RequestContext) -> Interference {
        let observed = ObservedRequest(request);
        for observer in &self.0 {
            let Some(intervention) = observer.intervene(&observed) else { continue };
            match intervention.await {
                Intervention::Handle => {}
                Intervention::Fail(failure) => return Interference::Fail(failure.into_error()),
                Intervention::CloseConnection => return Interference::CloseConnection,
                Intervention::LoseAnswer => return Interference::LoseAnswer,
            }
        }
        if request.info.verb == "watch"
            && let Some(parts) = &request.observed
            && let Some(interruptions) = self.0.iter().find_map(|observer| observer.interruptions(&observed))
        {
            parts.set_interruptions(interruptions);
        }
        Interference::None
    }

    /// Tells the observers the answer to a request. `code` is `None` if the request gets no answer.
    pub(crate) fn answered(&self, request: &RequestContext, code: Option<StatusCode>) {
        if self.0.is_empty() {
            return;
        }
        let status = request.observed.as_ref().and_then(|observed| observed.take_failure());
        let status = status.filter(|_| code.is_some_and(|code| code.as_u16() >= 400)).unwrap_or(Value::Null);
        let answer = ObservedAnswer {
            code: code.map_or(0, |code| code.as_u16()),
            reason: status.str_at(&["reason"]).to_owned(),
            message: status.str_at(&["message"]).to_owned(),
            latency: request.recorder.trace.started().elapsed(),
        };
        for observer in &self.0 {
            observer.answered(&ObservedRequest(request), &answer);
        }
    }
}

/// Closes the connection of a request, and waits until the request has ended as well.
pub(crate) async fn close_connection(request: &RequestContext) {
    if ObservedConnection(request.connection.clone()).close() {
        tokio::time::sleep(MAX_END_TIME).await;
    }
}
