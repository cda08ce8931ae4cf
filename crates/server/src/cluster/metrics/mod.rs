//! The metrics of `/metrics`, with kube-apiserver's names, labels and buckets. Events are recorded here as they happen.
//! Each scrape reads the counts and sizes that other components keep (`collect`).

mod access;
mod audit_policy;
mod authentication;
mod authorization;
mod collect;
mod collections;
mod config_reloads;
mod connections;
mod conversions;
mod health;
mod labels;
mod locks;
mod manifests;
mod process;
mod requests;
mod tokens;
mod versions;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_controllers::{ApiServiceOutages, WorkQueues};
use pintle_extensions::conversion::ConversionErrorType;
use pintle_gates::Gates;
use pintle_metrics::{Counter, Exposition, Family, FamilyChanges, GaugeGuard, Kind, Stability, Watermark};
use pintle_registry::Resource;
use pintle_value::Value;

pub(crate) use self::access::{AccessMetrics, AuthenticationResult, AuthorizationResult};
pub(crate) use self::authentication::{AuthenticationMetrics, IssuerSeries};
pub(crate) use self::authorization::{AuthorizationMetrics, AuthorizerLabels, Decisions, MatchOutcome};
use self::collections::Collections;
pub(crate) use self::collections::{CollectionSeries, StorageOperation, WatchSeries};
pub(crate) use self::config_reloads::ConfigReloads;
pub(crate) use self::connections::ConnectionMetrics;
use self::conversions::Conversions;
use self::health::HealthChecks;
use self::labels::RequestLabels;
pub(crate) use self::labels::{DryRun, RecordedRequest, RequestTarget};
use self::manifests::ManifestMetrics;
pub(crate) use self::requests::{Outcome, RequestSeries};
pub(crate) use self::tokens::TokenMetrics;
use crate::request::in_flight::InFlightKind;
use crate::request::info::RequestInfo;

/// The metrics of a cluster.
pub(crate) struct Metrics {
    /// The changes of metrics in the version of the server.
    changes: &'static FamilyChanges,
    /// The name and stage of each feature gate, and whether it is enabled.
    features: Vec<(&'static str, &'static str, bool)>,
    requests: Family<RequestLabels, RequestSeries>,
    reading: Watermark,
    mutating: Watermark,
    collections: Collections,
    conversions: Conversions,
    connections: ConnectionMetrics,
    health_checks: HealthChecks,
    access: AccessMetrics,
    tokens: TokenMetrics,
    authentication: AuthenticationMetrics,
    authorization: AuthorizationMetrics,
    manifests: ManifestMetrics,
    audit_policy: ConfigReloads,
    tls_handshake_errors: Counter,
    /// The metrics of the controllers' queues.
    pub(crate) work_queues: WorkQueues,
    pub(crate) api_service_outages: ApiServiceOutages,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Creates the metrics of a cluster with these feature gates.
    pub(crate) fn new(gates: &Gates) -> Self {
        Self {
            changes: versions::changes(gates.version().binary()),
            features: gates.states().map(|(gate, on)| (gate.name, gate.stage.name(), on)).collect(),
            requests: Family::default(),
            reading: Watermark::default(),
            mutating: Watermark::default(),
            collections: Collections::default(),
            conversions: Conversions::default(),
            connections: ConnectionMetrics::default(),
            health_checks: HealthChecks::default(),
            access: AccessMetrics::new(gates),
            tokens: TokenMetrics::new(),
            authentication: AuthenticationMetrics::default(),
            authorization: AuthorizationMetrics::default(),
            manifests: ManifestMetrics::default(),
            audit_policy: ConfigReloads::default(),
            tls_handshake_errors: Counter::default(),
            work_queues: WorkQueues::default(),
            api_service_outages: ApiServiceOutages::default(),
        }
    }

    /// The series of requests with these labels.
    pub(crate) fn series(&self, target: &RequestTarget<'_>) -> Arc<RequestSeries> {
        self.requests.get(target, RequestSeries::default)
    }

    /// Counts a request as in flight. Long-running requests do not count.
    pub(crate) fn begin_request(&self, info: &RequestInfo, started: Instant) {
        if let Some(watermark) = self.in_flight(info) {
            watermark.begin(started);
        }
    }

    /// Counts a request from [`Metrics::begin_request`] as ended.
    pub(crate) fn end_request(&self, info: &RequestInfo) {
        if let Some(watermark) = self.in_flight(info) {
            watermark.end();
        }
    }

    fn in_flight(&self, info: &RequestInfo) -> Option<&Watermark> {
        InFlightKind::of(info).map(|kind| match kind {
            InFlightKind::Reading => &self.reading,
            InFlightKind::Mutating => &self.mutating,
        })
    }

    /// Counts a request as long-running until the guard is dropped.
    pub(crate) fn begin_long_running(
        &self,
        request: &RecordedRequest<'_>,
        resource: &Resource,
    ) -> GaugeGuard<RequestSeries> {
        let series = self.series(&RequestTarget::of_filtered(request, resource));
        GaugeGuard::new(series, RequestSeries::long_running)
    }

    /// Counts a watch of a part of a collection for as long as the guard lives.
    pub(crate) fn begin_sharded_watch(&self, resource: &Resource) -> GaugeGuard<CollectionSeries> {
        self.collection(resource).begin_sharded_watch()
    }

    /// The reloads of the files of an admission plugin.
    pub(crate) fn manifests(&self, plugin: &'static str) -> Arc<ConfigReloads> {
        self.manifests.of(plugin)
    }

    /// The reloads of the audit policy.
    pub(crate) fn audit_policy(&self) -> &ConfigReloads {
        &self.audit_policy
    }

    /// The series of the objects of a resource.
    pub(crate) fn collection(&self, resource: &Resource) -> Arc<CollectionSeries> {
        self.collections.collection(resource)
    }

    /// The series of the watches of a resource.
    pub(crate) fn watch(&self, resource: &Resource) -> Arc<WatchSeries> {
        self.collections.watch(resource)
    }

    /// The metrics of connections with pods.
    pub(crate) fn connections(&self) -> &ConnectionMetrics {
        &self.connections
    }

    /// The metrics of access control.
    pub(crate) fn access(&self) -> &AccessMetrics {
        &self.access
    }

    /// The metrics of tokens.
    pub(crate) fn tokens(&self) -> &TokenMetrics {
        &self.tokens
    }

    /// The metrics of authenticators.
    pub(crate) fn authentication(&self) -> &AuthenticationMetrics {
        &self.authentication
    }

    /// The metrics of authorizers.
    pub(crate) fn authorization(&self) -> &AuthorizationMetrics {
        &self.authorization
    }

    /// Records a call to a conversion webhook: the CRD, and the versions converted from and to.
    pub(crate) fn conversion(
        &self,
        crd: &str,
        versions: (String, String),
        error_type: Option<ConversionErrorType>,
        took: Duration,
    ) {
        self.conversions.record(crd, versions, error_type, took);
    }

    /// Records that a connection ended before its TLS handshake did.
    pub(crate) fn tls_handshake_error(&self) {
        self.tls_handshake_errors.inc();
    }

    /// Records the result of a health check for one of the endpoints `livez`, `readyz` and `healthz`.
    pub(crate) fn health_check(&self, name: &str, endpoint: &'static str, passed: bool) {
        self.health_checks.record(name, endpoint, passed);
    }

    /// Forgets the series of events (`DELETE /metrics`).
    pub(crate) fn reset(&self) {
        self.requests.clear();
        self.collections.clear();
        self.conversions.clear();
        self.tls_handshake_errors.reset();
    }

    /// The text format of the metrics of this version.
    pub(crate) fn exposition(&self) -> Exposition {
        Exposition::with_changes(self.changes)
    }

    /// The metrics of `/metrics/slis`.
    pub(crate) fn slis_text(&self) -> String {
        let mut out = Exposition::default();
        self.health_checks.write(&mut out);
        process::write_start_time(&mut out);
        out.into_text()
    }

    /// Forgets the results of health checks (`DELETE /metrics/slis`).
    pub(crate) fn reset_slis(&self) {
        self.health_checks.clear();
    }

    /// The start time of the process, in seconds since the Unix epoch.
    pub(crate) fn process_start_time() -> Option<f64> {
        process::start_time()
    }

    /// Writes the recorded metrics, and the metrics that need no cluster.
    fn write(&self, version: &Value, out: &mut Exposition) {
        for (name, stage, enabled) in &self.features {
            let help = "Whether a feature gate is enabled, by name and stage.";
            out.family("kubernetes_feature_enabled", Kind::Gauge, Stability::Beta, help)
                .value(&[("name", name), ("stage", stage)], f64::from(u8::from(*enabled)));
        }
        write_build_info(version, out);
        requests::write(&self.requests, out);
        for (kind, watermark) in [("readOnly", &self.reading), ("mutating", &self.mutating)] {
            let help = "Highest number of requests in flight in the last second, by kind.";
            out.family("apiserver_current_inflight_requests", Kind::Gauge, Stability::Stable, help)
                .value(&[("request_kind", kind)], watermark.highest() as f64);
        }
        self.collections.write(out);
        self.conversions.write(out);
        self.connections.write(out);
        self.access.write(out);
        self.tokens.write(out);
        self.authentication.write(out);
        self.manifests.write(out);
        self.authorization.write(out);
        self.audit_policy.write(out, &audit_policy::RELOADS);
        let help = "Connections that ended with an error in their TLS handshake.";
        out.family("apiserver_tls_handshake_errors_total", Kind::Counter, Stability::Alpha, help)
            .value(&[], self.tls_handshake_errors.get() as f64);
        process::write(out);
        locks::write(out);
    }
}

/// Writes the version of the server as labels.
fn write_build_info(version: &Value, out: &mut Exposition) {
    let labels = [
        ("major", "major"),
        ("minor", "minor"),
        ("git_version", "gitVersion"),
        ("git_commit", "gitCommit"),
        ("git_tree_state", "gitTreeState"),
        ("build_date", "buildDate"),
        ("go_version", "goVersion"),
        ("compiler", "compiler"),
        ("platform", "platform"),
    ];
    let help = "Always 1; the labels are the version of the server and how it was built.";
    out.family("kubernetes_build_info", Kind::Gauge, Stability::Beta, help)
        .value(&labels.map(|(label, field)| (label, version.str_at(&[field]))), 1.0);
}
