//! The metrics of connections with pods (upstream: `registry/core/pod/rest/log.go` and apiserver's
//! `util/proxy/metrics`).

use pintle_metrics::{Counter, Exposition, Family, Kind, Stability};

/// The status code of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CodeLabel(u16);

impl From<&CodeLabel> for CodeLabel {
    fn from(label: &CodeLabel) -> Self {
        *label
    }
}

/// The subresource, and the server of its WebSockets: the kubelet or this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WebSocketLabels {
    subresource: &'static str,
    proxy_type: &'static str,
}

impl From<&WebSocketLabels> for WebSocketLabels {
    fn from(labels: &WebSocketLabels) -> Self {
        *labels
    }
}

/// The metrics of connections with pods.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    verified_logs: Counter,
    unverified_logs: Counter,
    log_tls_failures: Counter,
    translated: Family<CodeLabel, Counter>,
    tunneled: Family<CodeLabel, Counter>,
    websockets: Family<WebSocketLabels, Counter>,
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

    /// Counts a WebSocket that was translated to SPDY.
    pub(crate) fn record_translated(&self, code: u16) {
        self.translated.get(&CodeLabel(code), Counter::default).inc();
    }

    /// Counts a WebSocket in which SPDY was tunneled.
    pub(crate) fn record_tunneled(&self, code: u16) {
        self.tunneled.get(&CodeLabel(code), Counter::default).inc();
    }

    /// Counts a WebSocket, and whether the kubelet serves it.
    pub(crate) fn record_websocket(&self, subresource: &'static str, is_passed_on: bool) {
        let proxy_type = if is_passed_on { "proxied_to_kubelet" } else { "translated_at_apiserver" };
        self.websockets.get(&WebSocketLabels { subresource, proxy_type }, Counter::default).inc();
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
        let help = "WebSocket requests that were translated to SPDY, by the code of the result.";
        for (CodeLabel(code), counter) in self.translated.all() {
            let labels = [("code", &*code.to_string())];
            out.family("apiserver_stream_translator_requests_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, counter.get() as f64);
        }
        let help = "WebSocket requests in which SPDY was tunneled, by the code of the result.";
        for (CodeLabel(code), counter) in self.tunneled.all() {
            let labels = [("code", &*code.to_string())];
            out.family("apiserver_stream_tunnel_requests_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, counter.get() as f64);
        }
        let help = "WebSocket requests for exec, attach and port forwarding, by who serves the WebSocket.";
        for (WebSocketLabels { subresource, proxy_type }, counter) in self.websockets.all() {
            let labels = [("subresource", subresource), ("proxy_type", proxy_type)];
            out.family("apiserver_websocket_streaming_requests_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, counter.get() as f64);
        }
    }
}
