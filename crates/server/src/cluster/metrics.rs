//! The metrics of `/metrics`, with kube-apiserver's names.

use std::fmt;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use pintle_extensions::conversion::ConversionErrorType;
use pintle_gates::Gates;
use pintle_registry::{Registry as Kinds, Resource};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::request::info::RequestInfo;
use crate::request::query::Query;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
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

/// The subresources whose requests count as `CONNECT` (upstream: `validConnectRequests`).
const CONNECT_SUBRESOURCES: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

/// The histogram buckets of conversion webhook calls, in seconds.
const CONVERSION_SECONDS: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// What the metrics of a request are made of.
pub(crate) struct RecordedRequest<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) method: &'a Method,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
}

/// How much a request is about (upstream: `metrics.CleanScope`).
fn scope(info: &RequestInfo) -> &'static str {
    if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// The verb of a request, one of a fixed set (upstream: `metrics.cleanVerb`).
fn verb(request: &RecordedRequest<'_>, scope: &str, subresource: Option<&str>) -> &'static str {
    if subresource.is_some_and(|name| CONNECT_SUBRESOURCES.contains(&name)) {
        return "CONNECT";
    }
    let is_apply = || request.headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/apply-patch+yaml");
    match *request.method {
        Method::GET | Method::HEAD if request.info.is_watch_path => "WATCH",
        Method::GET if request.query.flag("watch") => "WATCH",
        Method::GET | Method::HEAD if matches!(scope, "namespace" | "cluster") => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH if is_apply() => "APPLY",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

/// The value of `dryRun`, one of a fixed set (upstream: `cleanDryRun`).
fn dry_run(query: &Query) -> &'static str {
    match query.get("dryRun") {
        None => "",
        Some(_) if query.all("dryRun").all(|value| value == "All") => "All",
        Some(_) => "invalid",
    }
}

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
    /// Records a request. Labels name only what `registry` serves, so that clients cannot create series. A 401 or 404 for
    /// anything else counts as a request without a resource.
    pub(crate) fn request(&self, request: &RecordedRequest<'_>, registry: &Kinds, code: StatusCode, took: Duration) {
        let info = request.info;
        let served = registry.resource(&info.group, &info.version, &info.resource).filter(|_| info.is_resource);
        let text = |text: fn(&Resource) -> &str| served.map(|resource| text(resource).to_owned()).unwrap_or_default();
        let subresource = served.and_then(|resource| resource.subresource(&info.subresource));
        let scope = if served.is_some() { scope(info) } else { "" };
        let verb = verb(request, scope, subresource.map(|subresource| subresource.name.as_str()));
        let labels = RequestLabels {
            verb,
            dry_run: dry_run(request.query),
            group: text(|resource| &resource.group),
            version: text(|resource| &resource.version),
            resource: text(|resource| &resource.plural),
            subresource: subresource.map(|subresource| subresource.name.to_string()).unwrap_or_default(),
            scope,
            component: "apiserver",
            code: code.as_u16(),
        };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&DurationLabels { verb }).observe(took.as_secs_f64());
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
