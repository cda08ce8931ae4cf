//! The steps of a request and their times, for the log of slow requests (upstream: `k8s.io/utils/trace`). A step costs
//! one read of the clock and allocates nothing.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A step that a request has just completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Authenticated,
    /// The first audit event is recorded.
    AuditRecorded,
    Impersonated,
    /// Flow control has let the request wait.
    Admitted,
    Authorized,
    BodyReceived,
    Decoded,
    /// Mutating admission.
    Mutated,
    /// Validation and validating admission.
    Validated,
    Stored,
    /// The response is ready to be sent.
    Handled,
}

impl Step {
    const ALL: [Step; 11] = [
        Step::Authenticated,
        Step::AuditRecorded,
        Step::Impersonated,
        Step::Admitted,
        Step::Authorized,
        Step::BodyReceived,
        Step::Decoded,
        Step::Mutated,
        Step::Validated,
        Step::Stored,
        Step::Handled,
    ];

    const fn name(self) -> &'static str {
        match self {
            Step::Authenticated => "authentication",
            Step::AuditRecorded => "audit",
            Step::Impersonated => "impersonation",
            Step::Admitted => "priority and fairness",
            Step::Authorized => "authorization",
            Step::BodyReceived => "request body received",
            Step::Decoded => "decoding",
            Step::Mutated => "mutating admission",
            Step::Validated => "validation and validating admission",
            Step::Stored => "write to storage",
            Step::Handled => "response prepared",
        }
    }

    /// The audit annotation with the duration of the step (upstream: `AuditAnnotationsFromLatencyTrackers`).
    const fn latency_annotation(self) -> Option<&'static str> {
        match self {
            Step::Authenticated => Some("apiserver.latency.k8s.io/authentication"),
            Step::Impersonated => Some("apiserver.latency.k8s.io/impersonation"),
            Step::Admitted => Some("apiserver.latency.k8s.io/apf-queue-wait"),
            Step::Authorized => Some("apiserver.latency.k8s.io/authorization"),
            Step::Stored => Some("apiserver.latency.k8s.io/etcd"),
            Step::AuditRecorded
            | Step::BodyReceived
            | Step::Decoded
            | Step::Mutated
            | Step::Validated
            | Step::Handled => None,
        }
    }
}

/// The annotations with the durations of calls of webhooks.
const MUTATING_LATENCY: &str = "apiserver.latency.k8s.io/mutating-webhook";
const VALIDATING_LATENCY: &str = "apiserver.latency.k8s.io/validating-webhook";
/// The annotation with the duration of sending the response.
const WRITE_LATENCY: &str = "apiserver.latency.k8s.io/response-write";
/// The annotation with the duration of the whole request.
const TOTAL_LATENCY: &str = "apiserver.latency.k8s.io/total";

/// The times at which a request completed its steps.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    started: Instant,
    /// The time of each step in microseconds since the start; 0 if the step was not completed. A repeated step has its
    /// last time.
    steps: [AtomicU32; Step::ALL.len()],
    /// The duration of all calls of mutating webhooks, in microseconds.
    mutating_webhooks: AtomicU32,
    /// The duration of the longest call of a validating webhook, in microseconds.
    validating_webhooks: AtomicU32,
}

impl Default for RequestTrace {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            steps: Default::default(),
            mutating_webhooks: AtomicU32::default(),
            validating_webhooks: AtomicU32::default(),
        }
    }
}

impl RequestTrace {
    /// The time at which the request began.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Records that a step has been completed. Returns the time since the start.
    pub(crate) fn step(&self, step: Step) -> Duration {
        let elapsed = self.started.elapsed();
        let micros = u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX);
        self.steps[step as usize].store(micros.max(1), Ordering::Relaxed);
        elapsed
    }

    /// Records the duration of a call of a webhook.
    pub(crate) fn webhook_took(&self, is_mutating: bool, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        match is_mutating {
            true => self.mutating_webhooks.fetch_add(micros, Ordering::Relaxed),
            false => self.validating_webhooks.fetch_max(micros, Ordering::Relaxed),
        };
    }

    /// The time in which the request waited for admission webhooks and in a queue of flow control.
    pub(crate) fn delay(&self) -> Duration {
        let at = |step: &AtomicU32| step.load(Ordering::Relaxed);
        let admitted = at(&self.steps[Step::Admitted as usize]);
        let before = self.steps.iter().map(at).filter(|time| *time < admitted).max().unwrap_or_default();
        let parts = [admitted - before, at(&self.mutating_webhooks), at(&self.validating_webhooks)];
        Duration::from_micros(parts.into_iter().map(u64::from).sum())
    }

    /// The steps in the order in which they were completed, each with its own duration, and the time after the last
    /// step.
    pub(crate) fn summary(&self, total: Duration) -> String {
        let (steps, rest) = self.durations(total);
        let mut text = String::new();
        for (step, took) in steps {
            let _ = write!(text, "{} {}ms, ", step.name(), took.as_millis());
        }
        let _ = write!(text, "response sent {}ms", rest.as_millis());
        text
    }

    /// The audit annotations with the durations of the steps, in Go's format.
    pub(crate) fn latencies(&self, total: Duration) -> impl Iterator<Item = (&'static str, String)> {
        let (steps, rest) = self.durations(total);
        let steps = steps.into_iter().filter_map(|(step, took)| Some((step.latency_annotation()?, took)));
        let micros = |of: &AtomicU32| Duration::from_micros(of.load(Ordering::Relaxed).into());
        let whole = [
            (MUTATING_LATENCY, micros(&self.mutating_webhooks)),
            (VALIDATING_LATENCY, micros(&self.validating_webhooks)),
            (WRITE_LATENCY, rest),
            (TOTAL_LATENCY, total),
        ];
        steps.chain(whole).filter(|(_, took)| !took.is_zero()).map(|(key, took)| {
            let nanos = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
            (key, pintle_value::time::Duration(nanos).to_string())
        })
    }

    /// The steps in the order in which they were completed, each with its own duration, and the time after the last
    /// step.
    fn durations(&self, total: Duration) -> (Vec<(Step, Duration)>, Duration) {
        let times = Step::ALL.iter().map(|step| (self.steps[*step as usize].load(Ordering::Relaxed), *step));
        let mut reached: Vec<_> = times.filter(|(micros, _)| *micros > 0).collect();
        // The sort is stable, so steps in the same microsecond stay in the order of the handler chain.
        reached.sort_by_key(|(micros, _)| *micros);
        let mut before = Duration::ZERO;
        let steps = reached.into_iter().map(|(micros, step)| {
            let at = Duration::from_micros(micros.into());
            (step, at.saturating_sub(std::mem::replace(&mut before, at)))
        });
        let steps = steps.collect();
        (steps, total.saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_with_their_own_durations() {
        let trace = RequestTrace::default();
        trace.steps[Step::Authorized as usize].store(2_000, Ordering::Relaxed);
        trace.steps[Step::Authenticated as usize].store(1_500, Ordering::Relaxed);
        trace.steps[Step::Stored as usize].store(702_000, Ordering::Relaxed);
        assert_eq!(
            trace.summary(Duration::from_millis(712)),
            "authentication 1ms, authorization 0ms, write to storage 700ms, response sent 10ms"
        );
        assert_eq!(RequestTrace::default().summary(Duration::ZERO), "response sent 0ms");
    }

    #[test]
    fn delays_are_the_time_in_queues_and_of_webhooks() {
        let trace = RequestTrace::default();
        trace.steps[Step::Authenticated as usize].store(1_500, Ordering::Relaxed);
        assert_eq!(trace.delay(), Duration::ZERO);
        trace.steps[Step::Admitted as usize].store(4_000, Ordering::Relaxed);
        trace.steps[Step::Authorized as usize].store(5_000, Ordering::Relaxed);
        trace.webhook_took(true, Duration::from_millis(10));
        trace.webhook_took(true, Duration::from_millis(20));
        trace.webhook_took(false, Duration::from_millis(5));
        assert_eq!(trace.delay(), Duration::from_micros(37_500));
    }

    #[test]
    fn audit_annotations_have_the_durations_of_steps() {
        let trace = RequestTrace::default();
        trace.steps[Step::Authenticated as usize].store(1_500, Ordering::Relaxed);
        trace.steps[Step::Decoded as usize].store(2_000, Ordering::Relaxed);
        trace.steps[Step::Stored as usize].store(702_000, Ordering::Relaxed);
        for millis in [20, 30] {
            trace.webhook_took(true, Duration::from_millis(millis));
            trace.webhook_took(false, Duration::from_millis(millis));
        }
        let found: Vec<_> = trace.latencies(Duration::from_millis(712)).collect();
        let found: Vec<_> = found.iter().map(|(key, took)| (key.rsplit('/').next().unwrap(), took.as_str())).collect();
        let expect = [
            ("authentication", "1.5ms"),
            ("etcd", "700ms"),
            ("mutating-webhook", "50ms"),
            ("validating-webhook", "30ms"),
            ("response-write", "10ms"),
            ("total", "712ms"),
        ];
        assert_eq!(found, expect);
    }
}
