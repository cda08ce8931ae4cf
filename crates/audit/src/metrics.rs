//! Metrics of audit (upstream: `apiserver/pkg/audit/metrics.go`).

use std::fmt::Display;
use std::sync::Arc;

use pintle_metrics::{Counter, Exposition, Family, FamilyWriter, Kind, Stability};

use crate::{Event, Level};

/// The metrics of audit. The owner of the policy and the sinks shares them.
#[derive(Debug, Default)]
pub struct AuditMetrics {
    events: Counter,
    errors: Family<String, Counter>,
    levels: [Counter; Level::ALL.len()],
    rejected: Counter,
}

impl AuditMetrics {
    /// Counts an event that is passed to a sink.
    pub fn record_event(&self) {
        self.events.inc();
    }

    /// Counts a request by the level that the policy decides.
    pub fn record_level(&self, level: Level) {
        self.levels[level as usize].inc();
    }

    /// Counts a request that is refused because its first event was not recorded.
    pub fn record_rejected(&self) {
        self.rejected.inc();
    }

    /// The number of events that a plugin failed to record.
    #[must_use]
    pub fn errors(&self, plugin: &str) -> u64 {
        self.errors.get(plugin, Counter::default).get()
    }

    /// Counts and logs events that a plugin failed to record (upstream: `HandlePluginError`).
    pub fn record_failure(&self, plugin: &'static str, error: &dyn Display, impacted: &[Arc<Event>]) {
        self.record_lost(plugin, impacted.len());
        let lines: Vec<_> = impacted.iter().map(|event| event.to_line()).collect();
        let impacted = lines.join("\n");
        tracing::error!(plugin, %error, events = lines.len(), impacted, "Error in audit plugin");
    }

    /// Counts and logs events that a plugin failed to record and no longer has, if there are any.
    pub(crate) fn report_lost(&self, plugin: &'static str, count: usize) {
        if count > 0 {
            self.record_lost(plugin, count);
            tracing::error!(plugin, events = count, "Audit events were not delivered");
        }
    }

    fn record_lost(&self, plugin: &'static str, count: usize) {
        self.errors.get(plugin, Counter::default).add(count as u64);
    }

    /// Writes the metrics.
    pub fn write(&self, exposition: &mut Exposition) {
        let help = "Counter of audit events generated and sent to the audit backend.";
        counter(exposition, "apiserver_audit_event_total", help).value(&[], self.events.get() as f64);
        let help = "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected \
                    by the error.";
        let mut errors = counter(exposition, "apiserver_audit_error_total", help);
        for (plugin, count) in self.errors.all() {
            errors.value(&[("plugin", &plugin)], count.get() as f64);
        }
        let help = "Counter of policy levels for audit events (1 per request).";
        let mut levels = counter(exposition, "apiserver_audit_level_total", help);
        for (level, count) in Level::ALL.iter().zip(&self.levels).filter(|(_, count)| count.get() > 0) {
            levels.value(&[("level", level.name())], count.get() as f64);
        }
        let help = "Counter of apiserver requests rejected due to an error in audit logging backend.";
        let mut rejected = counter(exposition, "apiserver_audit_requests_rejected_total", help);
        rejected.value(&[], self.rejected.get() as f64);
    }
}

fn counter<'e>(exposition: &'e mut Exposition, name: &'static str, help: &str) -> FamilyWriter<'e> {
    exposition.family(name, Kind::Counter, Stability::Alpha, help)
}
