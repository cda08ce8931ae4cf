//! The metrics of `/metrics`, with kube-apiserver's names.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use pintle_extensions::conversion::ConversionErrorType;
use pintle_gates::Gates;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::request::info::RequestInfo;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConversionLabels {
    result: &'static str,
    failure_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConverterLabels {
    crd_name: String,
    from_version: String,
    to_version: String,
    succeeded: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeatureLabels {
    name: &'static str,
    stage: &'static str,
}

/// The histogram buckets of conversion webhook calls, in seconds.
const CONVERSION_SECONDS: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// The metrics of a cluster.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
    conversions: Family<ConversionLabels, Counter>,
    conversion_durations: Family<ConversionLabels, Histogram>,
    converters: Family<ConverterLabels, Histogram>,
}

impl Metrics {
    /// Creates the metrics of a cluster with these feature gates.
    pub(crate) fn new(gates: &Gates) -> Self {
        let mut registry = Registry::default();
        let features = Family::<FeatureLabels, Gauge>::default();
        for (gate, on) in gates.states() {
            let labels = FeatureLabels { name: gate.name, stage: gate.stage.name() };
            features.get_or_create(&labels).set(on.into());
        }
        registry.register(
            "kubernetes_feature_enabled",
            "Whether a feature gate is enabled, by name and stage",
            features,
        );
        let requests = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let durations = Family::new_with_constructor(histogram);
        registry.register("apiserver_request", "Requests by verb, resource and response code", requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Response latency in seconds, up to the response head, by verb",
            Clone::clone(&durations),
        );
        let conversions = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(CONVERSION_SECONDS);
        let conversion_durations = Family::new_with_constructor(histogram);
        registry.register(
            "apiserver_conversion_webhook_duration_seconds",
            "Conversion webhook request latency in seconds, by result and failure type",
            Clone::clone(&conversion_durations),
        );
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let converters = Family::new_with_constructor(histogram);
        registry.register(
            "apiserver_conversion_webhook_request",
            "Conversion webhook requests by result and failure type",
            conversions.clone(),
        );
        registry.register(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "Conversion webhook request latency in seconds, by definition and versions",
            Clone::clone(&converters),
        );
        Self { registry, requests, durations, conversions, conversion_durations, converters }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Records a request. Labels name only resources that are served, so that clients cannot create arbitrary labels.
    pub(crate) fn request(&self, info: &RequestInfo, code: StatusCode, took: Duration) {
        let is_served = info.is_resource && code != StatusCode::NOT_FOUND;
        let text = |text: &str| if is_served { text.to_owned() } else { String::new() };
        let labels = RequestLabels {
            verb: info.verb.to_owned(),
            group: text(&info.group),
            version: text(&info.version),
            resource: text(&info.resource),
            subresource: text(&info.subresource),
            code: code.as_u16(),
        };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&DurationLabels { verb: info.verb.to_owned() }).observe(took.as_secs_f64());
    }

    /// Records a call to a conversion webhook: the definition, and the versions converted from and to.
    pub(crate) fn conversion(
        &self,
        definition: &str,
        (from, to): (String, String),
        error_type: Option<ConversionErrorType>,
        took: Duration,
    ) {
        let (result, succeeded) = if error_type.is_none() { ("success", "true") } else { ("failure", "false") };
        let failure_type = error_type.map_or("", ConversionErrorType::name);
        let result_labels = ConversionLabels { result, failure_type };
        self.conversions.get_or_create(&result_labels).inc();
        self.conversion_durations.get_or_create(&result_labels).observe(took.as_secs_f64());
        let labels = ConverterLabels { crd_name: definition.to_owned(), from_version: from, to_version: to, succeeded };
        self.converters.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Encodes the metrics in the text format.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if prometheus_client::encoding::text::encode(&mut out, &self.registry).is_err() {
            tracing::error!("Failed to encode metrics");
        }
        out
    }
}
