//! The metrics of the plugins (upstream: `policy/validating/metrics`, `policy/mutating/metrics`).

use std::time::Duration;

use pintle_metrics::{Buckets, Counter, Exposition, Family, Histogram, Kind, Stability};
use pintle_value::Str;

/// Upstream's buckets. The smallest fits an access to a field, the largest an expression at the cost limit.
const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CheckLabels {
    policy: Str,
    binding: Str,
    error_type: &'static str,
    /// `allow`, `deny`, `audit` or `warn`; for validating policies only.
    action: Option<&'static str>,
}

impl From<&CheckLabels> for CheckLabels {
    fn from(labels: &CheckLabels) -> Self {
        labels.clone()
    }
}

/// The names and the help texts of the metrics of one type of policies.
#[derive(Debug)]
pub(super) struct MetricNames {
    pub(super) stability: Stability,
    pub(super) count: (&'static str, &'static str),
    pub(super) duration: (&'static str, &'static str),
}

/// The metrics of a plugin.
#[derive(Debug)]
pub(super) struct PolicyMetrics {
    names: &'static MetricNames,
    checks: Family<CheckLabels, Counter>,
    durations: Family<CheckLabels, Histogram>,
}

/// The type of an error, by its message (upstream: `ErrorType`).
fn error_type(message: &str) -> &'static str {
    if message.is_empty() {
        "no_error"
    } else if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}

impl PolicyMetrics {
    pub(super) fn new(names: &'static MetricNames) -> Self {
        Self { names, checks: Family::default(), durations: Family::default() }
    }

    /// Counts the evaluation of an expression, with the message of its error, which is empty without one.
    pub(super) fn observe(
        &self,
        (policy, binding): (&Str, &Str),
        message: &str,
        action: Option<&'static str>,
        elapsed: Duration,
    ) {
        let labels =
            CheckLabels { policy: policy.clone(), binding: binding.clone(), error_type: error_type(message), action };
        self.checks.get(&labels, Counter::default).inc();
        self.durations.get(&labels, || Histogram::new(Buckets::seconds(&BUCKETS))).observe(elapsed);
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let MetricNames { stability, count, duration } = self.names;
        for (labels, checks) in self.checks.all() {
            out.family(count.0, Kind::Counter, *stability, count.1).value(&labels.pairs(), checks.get() as f64);
        }
        for (labels, durations) in self.durations.all() {
            out.family(duration.0, Kind::Histogram, *stability, duration.1).histogram(&labels.pairs(), &durations);
        }
    }
}

impl CheckLabels {
    /// The labels in the order of their names.
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let action = self.action.map(|action| ("enforcement_action", action));
        let others = [("error_type", self.error_type), ("policy", &*self.policy), ("policy_binding", &*self.binding)];
        action.into_iter().chain(others).collect()
    }
}
