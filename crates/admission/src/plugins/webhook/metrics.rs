//! The metrics of the plugins for calls (upstream: `admission/metrics`).

use std::time::Duration;

use pintle_metrics::{Buckets, Counter, Exposition, Family, Histogram, Kind, Stability};
use pintle_value::Str;

use super::call::WebhookError;
use super::source::FailurePolicy;

/// Durations of the evaluation of match conditions.
const CONDITION_DURATIONS: Buckets = Buckets::seconds(&[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25]);

const DURATIONS: Buckets = Buckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0]);

/// Higher codes are counted as this code.
const MAX_CODE: u16 = 600;

/// The labels of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallLabels {
    name: Str,
    operation: &'static str,
    code: u16,
    rejected: bool,
}

impl From<&CallLabels> for CallLabels {
    fn from(labels: &CallLabels) -> Self {
        labels.clone()
    }
}

/// The labels of a rejection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RejectionLabels {
    name: Str,
    operation: &'static str,
    error_type: &'static str,
    code: u16,
}

impl From<&RejectionLabels> for RejectionLabels {
    fn from(labels: &RejectionLabels) -> Self {
        labels.clone()
    }
}

/// The name of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NameLabel(Str);

impl From<&NameLabel> for NameLabel {
    fn from(label: &NameLabel) -> Self {
        label.clone()
    }
}

/// The labels of match conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConditionLabels {
    name: Str,
    operation: &'static str,
}

impl From<&ConditionLabels> for ConditionLabels {
    fn from(labels: &ConditionLabels) -> Self {
        labels.clone()
    }
}

/// The metrics of one of the plugins.
#[derive(Debug)]
pub(super) struct WebhookMetrics {
    /// The type of admission, in upstream's words.
    step: &'static str,
    requests: Family<CallLabels, Counter>,
    /// The durations of calls, by labels without the code.
    durations: Family<CallLabels, Histogram>,
    rejections: Family<RejectionLabels, Counter>,
    failed_open: Family<NameLabel, Counter>,
    /// The type of admission in the metrics of match conditions.
    condition_step: &'static str,
    condition_errors: Family<ConditionLabels, Counter>,
    condition_exclusions: Family<ConditionLabels, Counter>,
    condition_durations: Family<ConditionLabels, Histogram>,
}

impl WebhookMetrics {
    pub(super) fn new(step: &'static str, condition_step: &'static str) -> Self {
        Self {
            step,
            requests: Family::default(),
            durations: Family::default(),
            rejections: Family::default(),
            failed_open: Family::default(),
            condition_step,
            condition_errors: Family::default(),
            condition_exclusions: Family::default(),
            condition_durations: Family::default(),
        }
    }

    /// Counts conditions that failed.
    pub(super) fn conditions_failed(&self, name: &Str, operation: &'static str, failures: usize) {
        if failures > 0 {
            let labels = ConditionLabels { name: name.clone(), operation };
            let counter = self.condition_errors.get(&labels, Counter::default);
            (0..failures).for_each(|_| counter.inc());
        }
    }

    /// Counts a request that conditions exclude.
    pub(super) fn excluded(&self, name: &Str, operation: &'static str) {
        let labels = ConditionLabels { name: name.clone(), operation };
        self.condition_exclusions.get(&labels, Counter::default).inc();
    }

    /// Records how long the evaluation of conditions took. As in upstream, conditions that are all true are not
    /// recorded.
    pub(super) fn conditions_evaluated(&self, name: &Str, operation: &'static str, took: Duration) {
        let labels = ConditionLabels { name: name.clone(), operation };
        self.condition_durations.get(&labels, || Histogram::new(CONDITION_DURATIONS)).observe(took);
    }

    /// Counts a call with its result.
    pub(super) fn observe<T>(
        &self,
        name: &Str,
        operation: &'static str,
        failure_policy: FailurePolicy,
        result: &Result<T, WebhookError>,
        took: Duration,
    ) {
        let (code, error_type) = match result {
            Ok(_) => (200, None),
            Err(WebhookError::Calling { code, .. }) => {
                (*code, (failure_policy == FailurePolicy::Fail).then_some("calling_webhook_error"))
            }
            Err(WebhookError::Denied(_, code)) => (*code, Some("no_error")),
            Err(WebhookError::Failed(_)) => (0, Some("apiserver_internal_error")),
        };
        let code = code.min(MAX_CODE);
        let rejected = error_type.is_some();
        let labels = CallLabels { name: name.clone(), operation, code, rejected };
        self.requests.get(&labels, Counter::default).inc();
        self.durations.get(&CallLabels { code: 0, ..labels }, || Histogram::new(DURATIONS)).observe(took);
        if let Some(error_type) = error_type {
            let labels = RejectionLabels { name: name.clone(), operation, error_type, code };
            self.rejections.get(&labels, Counter::default).inc();
        }
    }

    /// Counts a failed call that does not fail the request.
    pub(super) fn failed_open(&self, name: &Str) {
        self.failed_open.get(&NameLabel(name.clone()), Counter::default).inc();
    }

    fn condition_labels<'l>(&self, name: &'l str, operation: &'static str) -> [(&'static str, &'l str); 4] {
        [("name", name), ("kind", "webhook"), ("type", self.condition_step), ("operation", operation)]
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let step = ("type", self.step);
        let flag = |value: bool| ("rejected", if value { "true" } else { "false" });
        for (CallLabels { name, operation, rejected, .. }, durations) in self.durations.all() {
            let labels = [("name", &*name), step, ("operation", operation), flag(rejected)];
            let help = "Latency of admission webhooks in seconds, by name, operation and type (admit or validating).";
            let name = "apiserver_admission_webhook_admission_duration_seconds";
            out.family(name, Kind::Histogram, Stability::Stable, help).histogram(&labels, &durations);
        }
        for (CallLabels { name, operation, code, rejected }, count) in self.requests.all() {
            let code = code.to_string();
            let labels = [("name", &*name), step, ("operation", operation), ("code", &*code), flag(rejected)];
            let help = "Calls of admission webhooks by name, type (admit or validating), operation and HTTP status code. \
                        Codes above 600 are counted as 600.";
            let name = "apiserver_admission_webhook_request_total";
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&labels, count.get() as f64);
        }
        for (RejectionLabels { name, operation, error_type, code }, count) in self.rejections.all() {
            let code = code.to_string();
            let labels = [
                ("name", &*name),
                step,
                ("operation", operation),
                ("error_type", error_type),
                ("rejection_code", &*code),
            ];
            let help = "Rejections of admission webhooks by name, type (admit or validating), operation, type of error and \
                        HTTP status code. Codes above 600 are counted as 600.";
            let name = "apiserver_admission_webhook_rejection_count";
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&labels, count.get() as f64);
        }
        for (ConditionLabels { name, operation }, count) in self.condition_errors.all() {
            let help = "Errors of the evaluation of match conditions, by name, kind, type and operation.";
            let family = "apiserver_admission_match_condition_evaluation_errors_total";
            out.family(family, Kind::Counter, Stability::Alpha, help)
                .value(&self.condition_labels(&name, operation), count.get() as f64);
        }
        for (ConditionLabels { name, operation }, count) in self.condition_exclusions.all() {
            let help = "Requests that match conditions exclude, by name, kind, type and operation.";
            let family = "apiserver_admission_match_condition_exclusions_total";
            out.family(family, Kind::Counter, Stability::Alpha, help)
                .value(&self.condition_labels(&name, operation), count.get() as f64);
        }
        for (ConditionLabels { name, operation }, durations) in self.condition_durations.all() {
            let help = "Time of the evaluation of match conditions in seconds, by name, kind, type and operation.";
            let family = "apiserver_admission_match_condition_evaluation_seconds";
            out.family(family, Kind::Histogram, Stability::Alpha, help)
                .histogram(&self.condition_labels(&name, operation), &durations);
        }
        for (NameLabel(name), count) in self.failed_open.all() {
            let help = "Failed calls of admission webhooks that did not fail the request, by name and type.";
            let family = "apiserver_admission_webhook_fail_open_count";
            out.family(family, Kind::Counter, Stability::Alpha, help)
                .value(&[("name", &*name), step], count.get() as f64);
        }
    }
}
