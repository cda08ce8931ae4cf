//! The policy, the backend and the metrics of a server that records events.

use std::sync::Arc;
use std::time::Duration;

use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_locks::RwLock;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::sink::SinkFuture;
use crate::{AuditBackend, AuditDecision, AuditMetrics, Event, Policy};

/// Decides which requests are recorded, and records their events.
#[derive(Debug)]
pub struct Auditor {
    policy: RwLock<Arc<Policy>>,
    backend: AuditBackend,
    metrics: Arc<AuditMetrics>,
    /// The tasks that send events.
    tasks: TaskTracker,
}

impl Auditor {
    /// Records the events that the policy selects.
    #[must_use]
    pub fn new(policy: Policy, backend: AuditBackend, metrics: Arc<AuditMetrics>) -> Arc<Self> {
        Arc::new(Self { policy: RwLock::new(Arc::new(policy)), backend, metrics, tasks: TaskTracker::new() })
    }

    /// Replaces the policy for later requests.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write() = Arc::new(policy);
    }

    /// Decides about a request and counts the decision. `user` is `None` for a request that could not be
    /// authenticated.
    pub fn decide(&self, user: Option<&UserInfo>, attributes: &AuthorizationAttributes<'_>) -> AuditDecision {
        let policy = self.policy.read().clone();
        let decision = policy.decide(user, attributes);
        self.metrics.record_level(decision.level);
        decision
    }

    /// Records an event. Returns false if it is not recorded and the mode is `blocking-strict`. An event that has to be
    /// sent is sent even if the caller no longer waits.
    pub async fn process(self: &Arc<Self>, event: Arc<Event>) -> bool {
        match self.begin(event) {
            Ok(is_recorded) => is_recorded,
            Err(sending) => sending.await.unwrap_or(false),
        }
    }

    /// Records an event for which no request waits.
    pub fn process_detached(self: &Arc<Self>, event: Arc<Event>) {
        if let Err(sending) = self.begin(event) {
            drop(sending);
        }
    }

    /// Records an event. The log does so before this returns. Otherwise returns the task that sends the event.
    fn begin(self: &Arc<Self>, event: Arc<Event>) -> Result<bool, JoinHandle<bool>> {
        self.metrics.record_event();
        let event = [event];
        if let SinkFuture::Ready(Some(is_recorded)) = self.backend.record(&event) {
            return Ok(is_recorded);
        }
        let auditor = self.clone();
        Err(self.tasks.spawn(async move { auditor.backend.record(&event).await }))
    }

    /// Maximum size of an object in an event, in bytes. Events with a larger object are recorded without it.
    #[must_use]
    pub fn max_object_size(&self) -> usize {
        self.backend.max_object_size()
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &AuditMetrics {
        &self.metrics
    }

    /// Opens the file of the log again, after another program has moved it.
    pub fn reopen_log(&self) {
        self.backend.reopen_log();
    }

    /// Delivers all events that are buffered. Events that are not delivered in time count as errors.
    pub async fn shutdown(&self, limit: Duration) {
        self.tasks.close();
        // The time limit holds for both. An event that is not sent in time counts as an error.
        let sent = timeout(limit, self.tasks.wait());
        let _ = tokio::join!(sent, self.backend.shutdown(limit));
    }
}
