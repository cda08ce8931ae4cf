//! The metrics of health checks, which `/metrics/slis` shows (upstream: `component-base/metrics/prometheus/slis`).

use std::collections::BTreeMap;

use pintle_locks::Mutex;
use pintle_metrics::{Exposition, Kind, Stability};
use pintle_value::Str;

/// The results of one health check of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct CheckResults {
    passed: bool,
    successes: u64,
    errors: u64,
}

/// The results of all health checks, by name and endpoint.
#[derive(Debug, Default)]
pub(super) struct HealthChecks(Mutex<BTreeMap<(Str, &'static str), CheckResults>>);

impl HealthChecks {
    pub(super) fn record(&self, name: &str, endpoint: &'static str, passed: bool) {
        let mut checks = self.0.lock();
        let results = checks.entry((name.into(), endpoint)).or_default();
        results.passed = passed;
        *if passed { &mut results.successes } else { &mut results.errors } += 1;
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for ((name, endpoint), results) in &*self.0.lock() {
            let labels = [("name", name.as_str()), ("type", *endpoint)];
            let help = "The result of the last run of a health check: 1 if it passed.";
            out.family("kubernetes_healthcheck", Kind::Gauge, Stability::Stable, help)
                .value(&labels, f64::from(u8::from(results.passed)));
            for (status, count) in [("success", results.successes), ("error", results.errors)] {
                if count > 0 {
                    let help = "Runs of health checks by result.";
                    out.family("kubernetes_healthchecks_total", Kind::Counter, Stability::Stable, help)
                        .value(&[labels[0], labels[1], ("status", status)], count as f64);
                }
            }
        }
    }
}
