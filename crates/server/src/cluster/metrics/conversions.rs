//! The metrics of conversion webhooks (upstream: `apiextensions-apiserver/pkg/apiserver/conversion/metrics.go`).

use std::time::Duration;

use pintle_extensions::conversion::ConversionErrorType;
use pintle_metrics::{Buckets, Exposition, Family, Histogram, Kind, Stability};

const REQUEST_DURATIONS: Buckets =
    Buckets::seconds(&[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0]);
const CONVERTER_DURATIONS: Buckets = Buckets::seconds(&[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
]);

/// Result and failure type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ResultLabels {
    result: &'static str,
    failure_type: &'static str,
}

impl From<&ResultLabels> for ResultLabels {
    fn from(labels: &ResultLabels) -> Self {
        *labels
    }
}

/// The CRD, the versions, and whether the conversion succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConverterLabels {
    crd_name: String,
    from_version: String,
    to_version: String,
    succeeded: &'static str,
}

impl From<&ConverterLabels> for ConverterLabels {
    fn from(labels: &ConverterLabels) -> Self {
        labels.clone()
    }
}

/// The metrics of conversion webhooks.
#[derive(Debug, Default)]
pub(super) struct Conversions {
    requests: Family<ResultLabels, Histogram>,
    converters: Family<ConverterLabels, Histogram>,
}

impl Conversions {
    pub(super) fn record(
        &self,
        crd: &str,
        (from, to): (String, String),
        error_type: Option<ConversionErrorType>,
        took: Duration,
    ) {
        let (result, succeeded) = if error_type.is_none() { ("success", "true") } else { ("failure", "false") };
        let labels = ResultLabels { result, failure_type: error_type.map_or("", ConversionErrorType::name) };
        self.requests.get(&labels, || Histogram::new(REQUEST_DURATIONS)).observe(took);
        let labels = ConverterLabels { crd_name: crd.to_owned(), from_version: from, to_version: to, succeeded };
        self.converters.get(&labels, || Histogram::new(CONVERTER_DURATIONS)).observe(took);
    }

    pub(super) fn clear(&self) {
        self.requests.clear();
        self.converters.clear();
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (ResultLabels { result, failure_type }, durations) in self.requests.all() {
            let labels = [("result", result), ("failure_type", failure_type)];
            let help = "Conversion webhook requests by result and failure type.";
            out.family("apiserver_conversion_webhook_request_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, durations.count() as f64);
            let help = "Conversion webhook request latency in seconds, by result and failure type.";
            out.family("apiserver_conversion_webhook_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&labels, &durations);
        }
        for (labels, durations) in self.converters.all() {
            let ConverterLabels { crd_name, from_version, to_version, succeeded } = &labels;
            let labels = [
                ("crd_name", &**crd_name),
                ("from_version", from_version),
                ("to_version", to_version),
                ("succeeded", succeeded),
            ];
            let help = "Conversion webhook latency in seconds, by definition, versions and success.";
            out.family("apiserver_crd_conversion_webhook_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&labels, &durations);
        }
    }
}
