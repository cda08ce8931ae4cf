//! The policy, the backend and the metrics of a server that records events.

use std::sync::Arc;
use std::time::Duration;

use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_locks::RwLock;

use crate::{AuditBackend, AuditDecision, AuditMetrics, Event, Policy};

/// Decides which requests are recorded, and records their events.
#[derive(Debug)]
pub struct Auditor {
    policy: RwLock<Arc<Policy>>,
    backend: AuditBackend,
    metrics: Arc<AuditMetrics>,
}

impl Auditor {
    /// Records the events that the policy selects.
    #[must_use]
    pub fn new(policy: Policy, backend: AuditBackend, metrics: Arc<AuditMetrics>) -> Arc<Self> {
        Arc::new(Self { policy: RwLock::new(Arc::new(policy)), backend, metrics })
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

    /// Records an event. Returns false if it is not recorded and the mode is `blocking-strict`.
    pub async fn process(&self, event: Event) -> bool {
        self.backend.process(event).await
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
        self.backend.shutdown(limit).await;
    }
}
