//! The requests that clients have sent to a cluster.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::filter::{RequestFilter, Subject};
use crate::observer::Observer;

/// How long [`Requests::wait_for`] waits.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of requests that the error of a wait shows.
const SHOWN: usize = 20;

/// A request that a cluster has answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The arrival of the request, by the cluster's clock.
    pub time: SystemTime,
    /// The user; empty if the request was not authenticated.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// `get`, `list`, `watch`, `create`, …; the HTTP method in lower case for other paths than resources.
    pub verb: String,
    /// The path with the query.
    pub path: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The plural name of the resource; empty for other paths.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name of the object, or empty. The name of a create is from its body.
    pub name: String,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// The body of a write, whatever its encoding: an object, a patch, or the options of a deletion.
    pub body: Option<serde_json::Value>,
    /// The HTTP status code. 0 if the connection was closed by a fault, and the request was not handled.
    pub code: u16,
    /// The reason of the `Status`, if the answer is an error, such as `Conflict`.
    pub reason: String,
    /// The message of the `Status`.
    pub message: String,
    /// The time from the arrival of the request to its answer, or to the start of a watch.
    pub latency: Duration,
}

impl RecordedRequest {
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            verb: self.verb.clone(),
            group: self.group.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            user: self.user.clone(),
            user_agent: self.user_agent.clone(),
            code: Some(self.code),
        }
    }

    /// The request in one line.
    pub(crate) fn line(&self) -> String {
        let Self { user, verb, path, code, reason, .. } = self;
        let user = if user.is_empty() { "-" } else { user };
        format!("{code} {verb} {path} by {user} in {:.1?} {reason}", self.latency).trim_end().to_owned()
    }
}

/// The requests that a cluster has answered, oldest first. A request is recorded before its client has the answer.
/// Requests of the kit itself are not recorded.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Observer>);

impl Requests {
    pub(crate) fn new(observer: Arc<Observer>) -> Self {
        Self(observer)
    }

    /// All requests that are kept.
    #[must_use]
    pub fn all(&self) -> Vec<RecordedRequest> {
        self.matching(&RequestFilter::any())
    }

    /// The requests that a filter selects.
    #[must_use]
    pub fn matching(&self, filter: &RequestFilter) -> Vec<RecordedRequest> {
        self.0.recorded(filter)
    }

    /// The number of requests that a filter selects.
    #[must_use]
    pub fn count(&self, filter: &RequestFilter) -> usize {
        self.matching(filter).len()
    }

    /// Waits until there are `count` requests that a filter selects, and returns them.
    ///
    /// # Errors
    /// There are fewer requests after ten seconds. The error shows the last requests.
    pub async fn wait_for(&self, filter: &RequestFilter, count: usize) -> Result<Vec<RecordedRequest>, Error> {
        let mut recorded = self.0.subscribe();
        let wait = async {
            loop {
                let _ = recorded.borrow_and_update();
                let found = self.matching(filter);
                if found.len() >= count || recorded.changed().await.is_err() {
                    return found;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.map_err(|_| {
            let found = self.count(filter);
            Error::Timeout(format!(
                "{found} of {count} requests for {filter:?}; the last requests were:\n{}",
                self.last()
            ))
        })
    }

    /// Checks how many requests a filter selects.
    ///
    /// # Panics
    /// Panics with the last requests if the number differs.
    #[track_caller]
    pub fn assert_count(&self, filter: &RequestFilter, count: usize) {
        let found = self.count(filter);
        assert_eq!(found, count, "requests for {filter:?}; the last requests were:\n{}", self.last());
    }

    /// Checks that there is no request that a filter selects.
    ///
    /// # Panics
    /// Panics with the last requests if there is such a request.
    #[track_caller]
    pub fn assert_none(&self, filter: &RequestFilter) {
        self.assert_count(filter, 0);
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        self.0.clear();
    }

    fn last(&self) -> String {
        let all = self.all();
        let lines: Vec<String> = all.iter().skip(all.len().saturating_sub(SHOWN)).map(RecordedRequest::line).collect();
        lines.join("\n")
    }
}
