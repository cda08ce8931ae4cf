//! What the plugin counts (upstream: `policy/validating/metrics`).

use std::time::Duration;

use pintle_metrics::{Buckets, Counter, Exposition, Family, Histogram, Kind, Stability};
use pintle_value::Str;

/// Upstream's buckets: the smallest is an access to a field, the largest an expression at the cost limit.
const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CheckLabels {
    policy: Str,
    binding: Str,
    error_type: &'static str,
    action: &'static str,
}

impl From<&CheckLabels> for CheckLabels {
    fn from(labels: &CheckLabels) -> Self {
        labels.clone()
    }
}

/// The metrics of the plugin.
#[derive(Debug, Default)]
pub(super) struct PolicyMetrics {
    checks: Family<CheckLabels, Counter>,
    durations: Family<CheckLabels, Histogram>,
}

/// The type of an error, by its message (upstream: `ErrorType`).
fn error_type(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}

impl PolicyMetrics {
    /// Counts a failed validation and what was done: `allow`, `deny`, `audit` or `warn`.
    pub(super) fn observe(
        &self,
        (policy, binding): (&Str, &Str),
        message: &str,
        action: &'static str,
        elapsed: Duration,
    ) {
        let labels =
            CheckLabels { policy: policy.clone(), binding: binding.clone(), error_type: error_type(message), action };
        self.checks.get(&labels, Counter::default).inc();
        self.durations.get(&labels, || Histogram::new(Buckets::seconds(&BUCKETS))).observe(elapsed);
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (labels, count) in self.checks.all() {
            let help = "Validation admission policy check total, labeled by policy and further identified by binding and \
                        enforcement action taken.";
            out.family("apiserver_validating_admission_policy_check_total", Kind::Counter, Stability::Beta, help)
                .value(&labels.pairs(), count.get() as f64);
        }
        for (labels, durations) in self.durations.all() {
            let help = "Validation admission latency for individual validation expressions in seconds, labeled by policy \
                        and further including binding and enforcement action taken.";
            out.family(
                "apiserver_validating_admission_policy_check_duration_seconds",
                Kind::Histogram,
                Stability::Beta,
                help,
            )
            .histogram(&labels.pairs(), &durations);
        }
    }
}

impl CheckLabels {
    /// The labels in the order of their names.
    fn pairs(&self) -> [(&'static str, &str); 4] {
        [
            ("enforcement_action", self.action),
            ("error_type", self.error_type),
            ("policy", &self.policy),
            ("policy_binding", &self.binding),
        ]
    }
}
