//! Texts for operators: metrics and debugging dumps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_flow_control::{FlowControlOptions, FlowController, RequestAttributes, RequestDetails, WorkEstimate};
use pintle_metrics::Exposition;
use pintle_value::time::Time;
use pintle_value::{Str, Value};
use tokio::task::JoinHandle;

use crate::matching::{attributes, groups};
use crate::{items, number, object, recorded, rows, text};

/// A metric in the text format, as in a row of the recording.
#[derive(Debug, Default, PartialEq)]
struct Family {
    help: String,
    kind: String,
    labels: BTreeSet<String>,
    buckets: Vec<f64>,
}

/// The families of flow control in an exposition.
fn families(exposition: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in exposition.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => families.entry((*name).to_owned()).or_default().help = (*help).to_owned(),
            ["#", "TYPE", name, kind] => families.entry((*name).to_owned()).or_default().kind = (*kind).to_owned(),
            _ => {
                let (series, _) = line.rsplit_once(' ').expect("a sample");
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let family = ["_bucket", "_sum", "_count", ""]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix).filter(|name| families.contains_key(*name)));
                let family = families.get_mut(family.expect("a family")).expect("a family");
                let labels = labels.trim_end_matches('}').split("\",").filter_map(|label| label.split_once("=\""));
                for (label, value) in labels {
                    if label == "le" {
                        let bound: f64 = value.trim_end_matches('"').parse().expect("a bound");
                        if bound.is_finite() && !family.buckets.contains(&bound) {
                            family.buckets.push(bound);
                        }
                    } else {
                        family.labels.insert(label.to_owned());
                    }
                }
            }
        }
    }
    families
}

/// A configured controller with the requests of the recording at their recorded time.
struct Replay {
    controller: Arc<FlowController>,
    /// The time since the start.
    now: Duration,
    /// The requests that have not ended.
    requests: Vec<JoinHandle<()>>,
}

impl Replay {
    async fn new(state: &serde_json::Value) -> Self {
        let options = FlowControlOptions {
            server_concurrency_limit: number(state, "Server") as usize,
            charges_actual_cost: false,
        };
        let controller = Arc::new(FlowController::new(options));
        let objects = |name| items(state, name).iter().map(object).collect::<Vec<Value>>();
        controller.configure(&objects("Schemas"), &objects("Levels"));
        let mut replay = Self { controller, now: Duration::ZERO, requests: Vec::new() };
        // The end of a request in nanoseconds, and its place.
        let mut ends: Vec<(u64, usize)> = Vec::new();
        for (place, request) in items(state, "Requests").iter().enumerate() {
            let at = number(request, "At");
            replay.advance(at).await;
            replay.start(request).await;
            let ends_after = number(request, "Execute").max(number(request, "Cancel"));
            if ends_after > 0 {
                ends.push((at + ends_after, place));
            }
        }
        ends.sort_unstable();
        for (at, place) in ends {
            replay.advance(at).await;
            replay.requests[place].abort();
            while !replay.requests[place].is_finished() {
                tokio::task::yield_now().await;
            }
        }
        replay.advance(number(state, "Now")).await;
        replay
    }

    async fn advance(&mut self, to: u64) {
        let to = Duration::from_nanos(to);
        tokio::time::advance(to - self.now).await;
        self.now = to;
    }

    async fn start(&mut self, request: &serde_json::Value) {
        let (controller, request) = (self.controller.clone(), request.clone());
        self.requests.push(tokio::spawn(async move {
            let estimate = WorkEstimate {
                initial_seats: number(&request, "Initial"),
                final_seats: number(&request, "Final"),
                additional_latency: Duration::from_nanos(number(&request, "Latency")),
            };
            let groups = groups(&request);
            let attributes = attributes(&request, &groups);
            let class = controller.classify(&attributes);
            if let Ok(execution) = controller.admit(&class, estimate, Duration::MAX).await {
                let details = Arc::new(Details { request: request.clone(), groups: groups.clone() });
                execution.describe(&details);
                std::future::pending::<()>().await;
                drop((execution, details));
            }
        }));
        tokio::task::yield_now().await;
    }
}

/// A request as dumps show it.
struct Details {
    request: serde_json::Value,
    groups: Vec<Str>,
}

impl RequestDetails for Details {
    fn attributes(&self) -> RequestAttributes<'_> {
        attributes(&self.request, &self.groups)
    }
}

/// A table with its times as nanoseconds since the first of them, and without padding. The lines are sorted.
fn without_times<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<Vec<String>> {
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut table: Vec<Vec<String>> = lines.map(cells).collect();
    let time = |cell: &String| Time::parse_rfc3339(cell).ok().filter(|_| !cell.starts_with("0001"));
    let first = table.iter().flatten().filter_map(time).min().expect("a time");
    for cell in table.iter_mut().flatten() {
        if let Some(time) = time(cell) {
            *cell = format!("{:?}", time.since(first));
        }
    }
    table[1..].sort();
    table
}

#[tokio::test(start_paused = true)]
async fn dumps_have_the_texts_of_upstream() {
    let state: serde_json::Value = serde_json::from_str(&recorded("dumps.json")).expect("JSON");
    let replay = Replay::new(&state).await;
    let recorded =
        |name: &str| -> Vec<&str> { items(&state["Dumps"], name).iter().filter_map(|line| line.as_str()).collect() };
    let check = |name: &str, found: &str| {
        let mut lines: Vec<&str> = found.lines().collect();
        lines[1..].sort_unstable();
        assert_eq!(lines.join("\n"), recorded(name).join("\n"), "{name}");
    };
    check("dump_priority_levels", &replay.controller.dump_priority_levels());
    check("dump_queues", &replay.controller.dump_queues());
    for (name, found) in [
        ("dump_requests", replay.controller.dump_requests(false)),
        ("dump_requests?includeRequestDetails=1", replay.controller.dump_requests(true)),
    ] {
        assert_eq!(without_times(found.lines()), without_times(recorded(name).into_iter()), "{name}");
    }
}

fn exposition(controller: &FlowController) -> String {
    let mut exposition = Exposition::default();
    controller.write_metrics(&mut exposition);
    exposition.into_text()
}

/// The metrics after a jump of a progress meter, which has counted very many seats of a request. Another request had to
/// wait although there were free seats.
async fn after_epoch_advance(state: &serde_json::Value) -> String {
    const SEATS: u64 = 400_000_000;
    let options = FlowControlOptions { server_concurrency_limit: 1_000_000_000, charges_actual_cost: false };
    let controller = FlowController::new(options);
    let objects = |name| items(state, name).iter().map(object).collect::<Vec<Value>>();
    controller.configure(&objects("Schemas"), &objects("Levels"));
    let attributes = RequestAttributes { user: "jane", verb: "get", path: "/", ..RequestAttributes::default() };
    let class = controller.classify(&attributes);
    let admit = || controller.admit(&class, WorkEstimate::seats(SEATS), Duration::ZERO);
    let execution = admit().await;
    assert!(admit().await.is_err());
    for _ in 0..4 {
        tokio::time::advance(Duration::from_secs(100)).await;
        exposition(&controller);
    }
    drop(execution);
    exposition(&controller)
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_texts_of_upstream() {
    let state: serde_json::Value = serde_json::from_str(&recorded("dumps.json")).expect("JSON");
    let replay = Replay::new(&state).await;
    let attributes = RequestAttributes {
        user: "jane",
        verb: "create",
        is_resource: true,
        resource: "pods",
        ..RequestAttributes::default()
    };
    let class = replay.controller.classify(&attributes);
    replay.controller.estimate(&class, 0, Default::default);
    let mut found = families(&exposition(&replay.controller));
    found.extend(families(&after_epoch_advance(&state).await));
    for row in rows("metrics.jsonl") {
        let name = text(&row, "Name");
        let expected = Family {
            help: text(&row, "Help").to_owned(),
            kind: text(&row, "Type").to_owned(),
            labels: items(&row, "Labels").iter().filter_map(|label| label.as_str().map(str::to_owned)).collect(),
            buckets: items(&row, "Buckets").iter().filter_map(serde_json::Value::as_f64).collect(),
        };
        assert_eq!(found.remove(name), Some(expected), "{name}");
    }
    // Metrics of the actual use are Pintle's own.
    let others: Vec<_> = found.keys().filter(|name| name.starts_with("apiserver_flowcontrol_")).collect();
    assert_eq!(others, [""; 0]);
}
