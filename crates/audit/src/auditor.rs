//! The policy, the backend and the metrics of a server that records events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_locks::RwLock;
use tokio::task::{JoinHandle, yield_now};
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
    crowd: Crowd,
}

impl Auditor {
    /// Records the events that the policy selects.
    #[must_use]
    pub fn new(policy: Policy, backend: AuditBackend, metrics: Arc<AuditMetrics>) -> Arc<Self> {
        Arc::new(Self {
            policy: RwLock::new(Arc::new(policy)),
            backend,
            metrics,
            tasks: TaskTracker::new(),
            crowd: Crowd::default(),
        })
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
        let _flush = FlushOnDrop(self);
        let is_read = matches!(&*event.verb, "get" | "list" | "watch");
        let is_recorded = match self.begin(event) {
            Ok(is_recorded) => is_recorded,
            Err(sending) => sending.await.unwrap_or(false),
        };
        // Other requests that are ready add their events meanwhile. Then one write has all of them. For a read, this
        // would cost as much as a write.
        if self.backend.gathers_lines() && !is_read && self.crowd.is_likely() {
            yield_now().await;
        }
        is_recorded
    }

    /// Records an event for which no request waits.
    pub fn process_detached(self: &Arc<Self>, event: Arc<Event>) {
        if let Err(sending) = self.begin(event) {
            drop(sending);
        }
        self.backend.flush();
    }

    /// Takes an event. The log has it before this returns. Otherwise returns the task that sends the event.
    fn begin(self: &Arc<Self>, event: Arc<Event>) -> Result<bool, JoinHandle<bool>> {
        self.metrics.record_event();
        let event = [event];
        if let SinkFuture::Ready(Some(is_recorded)) = self.backend.record(&event) {
            return Ok(is_recorded);
        }
        let auditor = self.clone();
        Err(self.tasks.spawn(async move {
            let is_recorded = auditor.backend.record(&event).await;
            auditor.backend.flush();
            is_recorded
        }))
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

/// Writes the events that were taken, also if the request ends before.
struct FlushOnDrop<'a>(&'a Auditor);

impl Drop for FlushOnDrop<'_> {
    fn drop(&mut self) {
        self.0.crowd.note(self.0.backend.flush());
    }
}

/// Guesses whether other requests are handled at the same time, from earlier writes.
#[derive(Debug, Default)]
struct Crowd {
    /// The number of writes since one had events of several requests.
    alone: AtomicU32,
}

impl Crowd {
    /// True if it is likely that other requests would add events. If not, it is tried now and then.
    fn is_likely(&self) -> bool {
        let alone = self.alone.load(Ordering::Relaxed);
        alone < 8 || alone.is_multiple_of(64)
    }

    /// Notes the number of events of a write. Zero means that another request has written this one's event.
    fn note(&self, written: usize) {
        match written {
            1 => drop(self.alone.fetch_add(1, Ordering::Relaxed)),
            _ => self.alone.store(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lonely_request_seldom_waits_for_others() {
        let crowd = Crowd::default();
        let waits = |count: u32| {
            (0..count)
                .filter(|_| {
                    let waits = crowd.is_likely();
                    crowd.note(1);
                    waits
                })
                .count()
        };
        assert_eq!(waits(8), 8);
        assert_eq!(waits(640), 10);
        crowd.note(2);
        assert!(crowd.is_likely());
    }
}
