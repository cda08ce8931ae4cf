//! The metrics of connections with pods (upstream: `registry/core/pod/rest/log.go`).

use pintle_metrics::{Counter, Exposition, Kind, Stability};

/// The metrics of connections with pods.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    verified_logs: Counter,
    unverified_logs: Counter,
    log_tls_failures: Counter,
}

impl ConnectionMetrics {
    /// Counts a request for a log.
    pub(crate) fn record_log_backend(&self, skip_verify: bool) {
        if skip_verify { &self.unverified_logs } else { &self.verified_logs }.inc();
    }

    /// Counts a request for a log whose kubelet is not trusted.
    pub(crate) fn record_log_tls_failure(&self) {
        self.log_tls_failures.inc();
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Requests for logs of pods, by how the kubelet's certificate was verified.";
        let name = "kube_apiserver_pod_logs_insecure_backend_total";
        let usages = [("enforce_tls", &self.verified_logs), ("skip_tls_allowed", &self.unverified_logs)];
        for (usage, counter) in usages.into_iter().filter(|(_, counter)| counter.get() > 0) {
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&[("usage", usage)], counter.get() as f64);
        }
        let help = "Requests for logs of pods that failed because the kubelet's certificate is not trusted.";
        let name = "kube_apiserver_pod_logs_backend_tls_failure_total";
        out.family(name, Kind::Counter, Stability::Alpha, help).value(&[], self.log_tls_failures.get() as f64);
    }
}
