//! The metrics of requests (upstream: `endpoints/metrics`). One lookup finds the series of all request metrics.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use pintle_locks::Mutex;
use pintle_metrics::{Buckets, Counter, Exposition, Family, Gauge, Histogram, Kind, Stability};
use pintle_value::Str;

use super::labels::{DryRun, RequestLabels};

const DURATIONS: Buckets = Buckets::seconds(&[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
]);
/// Some of the buckets in [`DURATIONS`].
const SLI_DURATIONS: Buckets = Buckets::seconds(&[
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
]);
const SIZES: Buckets = Buckets::bytes(&[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]);

/// The codes of nearly all responses, the most frequent first.
const COMMON_CODES: [u16; 12] = [200, 201, 409, 404, 403, 422, 400, 202, 410, 429, 500, 504];

/// Counters by response code.
#[derive(Debug, Default)]
struct CodeCounters {
    common: [Counter; COMMON_CODES.len()],
    other: Mutex<BTreeMap<u16, u64>>,
}

impl CodeCounters {
    fn inc(&self, code: u16) {
        match COMMON_CODES.iter().position(|common| *common == code) {
            Some(index) => self.common[index].inc(),
            None => *self.other.lock().entry(code).or_default() += 1,
        }
    }

    /// The codes that have occurred, and how often.
    fn all(&self) -> Vec<(u16, u64)> {
        let common = COMMON_CODES.into_iter().zip(self.common.iter().map(Counter::get));
        let other: Vec<_> = self.other.lock().iter().map(|(code, count)| (*code, *count)).collect();
        common.filter(|(_, count)| *count > 0).chain(other).collect()
    }
}

/// The series of requests with the same labels. Series without a recorded value are not shown.
#[derive(Debug, Default)]
pub(crate) struct RequestSeries {
    totals: [CodeCounters; 3],
    /// The durations of requests that waited neither for webhooks nor in a queue.
    durations: [OnceLock<Histogram>; 3],
    /// The durations of the other requests.
    delayed: [OnceLock<Histogram>; 3],
    /// The durations of the other requests, except dry runs, without these delays.
    without_delays: OnceLock<Histogram>,
    sizes: OnceLock<Histogram>,
    long_running: OnceLock<Gauge>,
    terminations: CodeCounters,
    aborts: Counter,
    /// The release that removes the requested API, if the API is deprecated; empty if the release is not known.
    deprecated: OnceLock<Str>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    pub(crate) took: Duration,
    /// The part of the time in which the request waited for admission webhooks and in a queue of flow control.
    pub(crate) delay: Duration,
    /// The size of the body as sent, or `None` if sizes are not recorded.
    pub(crate) size: Option<u64>,
}

impl RequestSeries {
    /// Records a request that a handler has answered.
    pub(crate) fn record(&self, dry_run: DryRun, outcome: Outcome) {
        let Outcome { code, took, delay, size } = outcome;
        self.totals[dry_run as usize].inc(code);
        let observe = |durations: &OnceLock<Histogram>, took| {
            durations.get_or_init(|| Histogram::new(DURATIONS)).observe(took);
        };
        if delay.is_zero() {
            observe(&self.durations[dry_run as usize], took);
        } else {
            observe(&self.delayed[dry_run as usize], took);
            if matches!(dry_run, DryRun::None) {
                observe(&self.without_delays, took.saturating_sub(delay));
            }
        }
        if let Some(size) = size {
            self.sizes.get_or_init(|| Histogram::new(SIZES)).observe_bytes(size);
        }
    }

    /// Records a request that was refused because too many are in flight.
    pub(crate) fn record_dropped(&self, dry_run: DryRun, code: u16) {
        self.totals[dry_run as usize].inc(code);
    }

    /// Records that the server ended a request in self-defence.
    pub(crate) fn record_termination(&self, code: u16) {
        self.terminations.inc(code);
    }

    /// Records that the server broke off a response that had begun.
    pub(crate) fn record_abort(&self) {
        self.aborts.inc();
    }

    /// Records that the requested API is deprecated, and will be removed in a release, if that is known.
    pub(crate) fn record_deprecated(&self, removed_release: &str) {
        self.deprecated.get_or_init(|| removed_release.into());
    }

    /// The number of long-running requests.
    pub(crate) fn long_running(&self) -> &Gauge {
        self.long_running.get_or_init(Gauge::default)
    }
}

/// Writes the metrics of requests.
pub(super) fn write(requests: &Family<RequestLabels, RequestSeries>, out: &mut Exposition) {
    for (labels, series) in requests.all() {
        write_series(&labels, &series, out);
    }
}

/// The histograms that have values.
fn recorded<const N: usize>(histograms: [&OnceLock<Histogram>; N]) -> Vec<&Histogram> {
    histograms.into_iter().filter_map(OnceLock::get).collect()
}

fn write_series(labels: &RequestLabels, series: &RequestSeries, out: &mut Exposition) {
    let RequestLabels { verb, scope, component, group, version, resource, subresource } = labels;
    let resource = [("group", &**group), ("version", version), ("resource", resource), ("subresource", subresource)];
    let request = [&resource[..], &[("verb", verb), ("scope", scope)]].concat();
    for (index, dry_run) in DryRun::VALUES.into_iter().enumerate() {
        let dry_run = ("dry_run", dry_run.name());
        for (code, count) in series.totals[index].all() {
            let code = code.to_string();
            out.family(
                "apiserver_request_total",
                Kind::Counter,
                Stability::Stable,
                "Requests by verb, dry run, group, version, resource, subresource, scope, component and response code.",
            )
            .value(&[&request[..], &[("component", component), ("code", &code), dry_run]].concat(), count as f64);
        }
        let durations = recorded([&series.durations[index], &series.delayed[index]]);
        if !durations.is_empty() {
            out.family(
                "apiserver_request_duration_seconds",
                Kind::Histogram,
                Stability::Stable,
                "Response latency in seconds by verb, dry run, group, version, resource, subresource, scope and component.",
            )
            .merged(&[&request[..], &[("component", component), dry_run]].concat(), &durations, DURATIONS);
        }
    }
    let with_component = [&request[..], &[("component", component)]].concat();
    let durations = recorded([&series.durations[DryRun::None as usize], &series.without_delays]);
    if !durations.is_empty() {
        out.family(
            "apiserver_request_sli_duration_seconds",
            Kind::Histogram,
            Stability::Alpha,
            "Response latency in seconds without the time of webhooks and queues, by verb, group, version, resource, \
             subresource, scope and component.",
        )
        .merged(&with_component, &durations, SLI_DURATIONS);
    }
    if let Some(sizes) = series.sizes.get() {
        out.family(
            "apiserver_response_sizes",
            Kind::Histogram,
            Stability::Stable,
            "Response size in bytes by verb, group, version, resource, subresource, scope and component.",
        )
        .histogram(&with_component, sizes);
    }
    if let Some(long_running) = series.long_running.get() {
        out.family(
            "apiserver_longrunning_requests",
            Kind::Gauge,
            Stability::Stable,
            "Active long-running requests by verb, group, version, resource, subresource, scope and component.",
        )
        .value(&with_component, long_running.get() as f64);
    }
    for (code, count) in series.terminations.all() {
        let code = code.to_string();
        out.family(
            "apiserver_request_terminations_total",
            Kind::Counter,
            Stability::Alpha,
            "Requests that the server ended in self-defence.",
        )
        .value(&[&with_component[..], &[("code", &code)]].concat(), count as f64);
    }
    if series.aborts.get() > 0 {
        out.family(
            "apiserver_request_aborts_total",
            Kind::Counter,
            Stability::Alpha,
            "Requests whose response the server broke off, by verb, group, version, resource, subresource and scope.",
        )
        .value(&request, series.aborts.get() as f64);
    }
    if let Some(removed_release) = series.deprecated.get() {
        let labels = [&resource[..], &[("removed_release", removed_release.as_str())]].concat();
        out.family(
            "apiserver_requested_deprecated_apis",
            Kind::Gauge,
            Stability::Stable,
            "Deprecated APIs that were requested, by group, version, resource, subresource and removed_release.",
        )
        .value(&labels, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> RequestLabels {
        RequestLabels {
            verb: "LIST",
            scope: "cluster",
            component: "apiserver",
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            subresource: "".into(),
        }
    }

    /// Checks the names of the samples that a series shows, without the samples of buckets.
    fn check(record: impl Fn(&RequestSeries), expect: &[&str]) {
        let (series, mut out) = (RequestSeries::default(), Exposition::default());
        record(&series);
        write_series(&labels(), &series, &mut out);
        let text = out.into_text();
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
        let found: Vec<String> =
            samples.map(|line| line.replace(line.split(['{', '}']).nth(1).unwrap_or(""), "")).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn series_show_what_was_recorded_and_nothing_else() {
        check(|_| (), &[]);
        check(RequestSeries::record_abort, &["apiserver_request_aborts_total{} 1"]);
        check(|series| series.record_deprecated("1.38"), &["apiserver_requested_deprecated_apis{} 1"]);
        check(|series| series.record_termination(504), &["apiserver_request_terminations_total{} 1"]);
        check(|series| series.record_dropped(DryRun::None, 429), &["apiserver_request_total{} 1"]);
        check(|series| series.long_running().add(2), &["apiserver_longrunning_requests{} 2"]);
        let outcome = Outcome { code: 418, took: Duration::from_millis(1500), delay: Duration::ZERO, size: None };
        check(
            |series| series.record(DryRun::None, outcome),
            &[
                "apiserver_request_duration_seconds_sum{} 1.5",
                "apiserver_request_duration_seconds_count{} 1",
                "apiserver_request_sli_duration_seconds_sum{} 1.5",
                "apiserver_request_sli_duration_seconds_count{} 1",
                "apiserver_request_total{} 1",
            ],
        );
        check(
            |series| {
                series.record(DryRun::None, outcome);
                series.record(DryRun::None, Outcome { delay: Duration::from_secs(1), ..outcome });
            },
            &[
                "apiserver_request_duration_seconds_sum{} 3",
                "apiserver_request_duration_seconds_count{} 2",
                "apiserver_request_sli_duration_seconds_sum{} 2",
                "apiserver_request_sli_duration_seconds_count{} 2",
                "apiserver_request_total{} 2",
            ],
        );
        check(
            |series| series.record(DryRun::All, Outcome { size: Some(7), code: 200, ..outcome }),
            &[
                "apiserver_request_duration_seconds_sum{} 1.5",
                "apiserver_request_duration_seconds_count{} 1",
                "apiserver_request_total{} 1",
                "apiserver_response_sizes_sum{} 7",
                "apiserver_response_sizes_count{} 1",
            ],
        );
    }

    #[test]
    fn every_bound_of_the_sli_is_one_of_the_latency() {
        assert!(SLI_DURATIONS.is_part_of(DURATIONS));
    }
}
