//! The metrics of the chain of authorizers, of authorization webhooks and of the reloads of its configuration
//! (upstream: `apiserver/pkg/authorization/{metrics,cel}`, `plugin/pkg/authorizer/webhook/metrics`,
//! `server/options/authorizationconfig/metrics`).

use std::sync::Arc;
use std::time::Duration;

use pintle_auth::Decision;
use pintle_metrics::{Buckets, Counter, Exposition, Family, Histogram, Kind, Stability};
use pintle_value::Str;

use super::config_reloads::{ConfigReloads, ReloadFamilies};

const WEBHOOK_DURATIONS: Buckets = Buckets::seconds(&[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
const MATCH_CONDITION_DURATIONS: Buckets = Buckets::seconds(&[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25]);

/// The type of authorizers with match conditions.
const WEBHOOK: &str = "Webhook";

/// An authorizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AuthorizerLabels {
    pub(crate) kind: Str,
    pub(crate) name: Str,
}

impl From<&AuthorizerLabels> for AuthorizerLabels {
    fn from(labels: &AuthorizerLabels) -> Self {
        labels.clone()
    }
}

/// A webhook and the result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallLabels {
    name: Str,
    result: &'static str,
}

impl From<&CallLabels> for CallLabels {
    fn from(labels: &CallLabels) -> Self {
        labels.clone()
    }
}

/// The counts of an authorizer's decisions.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    allowed: Counter,
    denied: Counter,
}

impl Decisions {
    /// Counts a decision. An authorizer without an opinion has not decided.
    pub(crate) fn record(&self, decision: Decision) {
        match decision {
            Decision::Allow => self.allowed.inc(),
            Decision::Deny => self.denied.inc(),
            Decision::NoOpinion => {}
        }
    }
}

/// The evaluations of a webhook's match conditions.
#[derive(Debug)]
struct MatchConditionSeries {
    durations: Histogram,
    errors: Counter,
    exclusions: Counter,
}

/// The outcome of a webhook's match conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchOutcome {
    /// The webhook is called.
    Matched,
    /// A condition is false.
    Excluded,
    /// A condition cannot be evaluated.
    Failed,
}

/// The metrics of authorizers.
#[derive(Debug, Default)]
pub(crate) struct AuthorizationMetrics {
    decisions: Family<AuthorizerLabels, Decisions>,
    calls: Family<CallLabels, Histogram>,
    failed_open: Family<CallLabels, Counter>,
    match_conditions: Family<AuthorizerLabels, MatchConditionSeries>,
    reloads: ConfigReloads,
}

/// The metrics of reloads.
const RELOADS: ReloadFamilies = ReloadFamilies {
    total: "apiserver_authorization_config_controller_automatic_reloads_total",
    last: "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
    info: "apiserver_authorization_config_controller_last_config_info",
    what: "authorization",
    stability: Stability::Beta,
    label: None,
};

impl AuthorizationMetrics {
    /// The series of the decisions of an authorizer.
    pub(crate) fn decisions(&self, authorizer: &AuthorizerLabels) -> Arc<Decisions> {
        self.decisions.get(authorizer, Decisions::default)
    }

    /// Records a call of a webhook.
    pub(crate) fn record_call(&self, name: &Str, result: &'static str, took: Duration) {
        let labels = CallLabels { name: name.clone(), result };
        self.calls.get(&labels, || Histogram::new(WEBHOOK_DURATIONS)).observe(took);
    }

    /// Counts a call whose failure left the decision to other authorizers.
    pub(crate) fn record_fail_open(&self, name: &Str, result: &'static str) {
        self.failed_open.get(&CallLabels { name: name.clone(), result }, Counter::default).inc();
    }

    /// Records an evaluation of a webhook's match conditions.
    pub(crate) fn record_match(&self, name: &Str, outcome: MatchOutcome, took: Duration) {
        let labels = AuthorizerLabels { kind: WEBHOOK.into(), name: name.clone() };
        let series = self.match_conditions.get(&labels, || MatchConditionSeries {
            durations: Histogram::new(MATCH_CONDITION_DURATIONS),
            errors: Counter::default(),
            exclusions: Counter::default(),
        });
        series.durations.observe(took);
        match outcome {
            MatchOutcome::Matched => {}
            MatchOutcome::Excluded => series.exclusions.inc(),
            MatchOutcome::Failed => series.errors.inc(),
        }
    }

    /// The reloads of the configuration.
    pub(crate) fn reloads(&self) -> &ConfigReloads {
        &self.reloads
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (AuthorizerLabels { kind, name }, decisions) in self.decisions.all() {
            for (decision, count) in [("allowed", &decisions.allowed), ("denied", &decisions.denied)] {
                if count.get() > 0 {
                    let labels = [("type", &*kind), ("name", &*name), ("decision", decision)];
                    let help = "Terminal decisions of an authorizer by type, name and decision.";
                    out.family("apiserver_authorization_decisions_total", Kind::Counter, Stability::Alpha, help)
                        .value(&labels, count.get() as f64);
                }
            }
        }
        let calls = self.calls.all();
        for (CallLabels { name, result }, durations) in &calls {
            let help = "Round trips to authorization webhooks by name and result.";
            out.family("apiserver_authorization_webhook_evaluations_total", Kind::Counter, Stability::Alpha, help)
                .value(&[("name", name), ("result", result)], durations.count() as f64);
        }
        for (CallLabels { name, result }, durations) in &calls {
            let help = "Latency of authorization webhooks in seconds, by name and result.";
            out.family("apiserver_authorization_webhook_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&[("name", name), ("result", result)], durations);
        }
        for (CallLabels { name, result }, count) in self.failed_open.all() {
            let help = "Failed calls of authorization webhooks that were ignored, by name and result.";
            let family = "apiserver_authorization_webhook_evaluations_fail_open_total";
            out.family(family, Kind::Counter, Stability::Alpha, help)
                .value(&[("name", &name), ("result", result)], count.get() as f64);
        }
        self.write_match_conditions(out);
        self.reloads.write(out, &RELOADS);
    }

    fn write_match_conditions(&self, out: &mut Exposition) {
        let all = self.match_conditions.all();
        for (AuthorizerLabels { kind, name }, series) in &all {
            let help = "Evaluation time of match conditions in seconds, by authorizer type and name.";
            let family = "apiserver_authorization_match_condition_evaluation_seconds";
            out.family(family, Kind::Histogram, Stability::Alpha, help)
                .histogram(&[("type", kind), ("name", name)], &series.durations);
        }
        for (AuthorizerLabels { kind, name }, series) in &all {
            for (family, help, count) in [
                (
                    "apiserver_authorization_match_condition_evaluation_errors_total",
                    "Match conditions that could not be evaluated, by authorizer type and name.",
                    series.errors.get(),
                ),
                (
                    "apiserver_authorization_match_condition_exclusions_total",
                    "Requests for which match conditions skipped an authorizer, by type and name.",
                    series.exclusions.get(),
                ),
            ] {
                if count > 0 {
                    out.family(family, Kind::Counter, Stability::Alpha, help)
                        .value(&[("type", kind), ("name", name)], count as f64);
                }
            }
        }
    }
}
