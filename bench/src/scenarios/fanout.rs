//! Watch fan-out: many watchers of one collection, with writers at full speed or at a fixed rate. The CPU time of a
//! delivered event is the difference from the same creates without watchers. The delivery latency counts from the
//! scheduled time of a create until the last watcher has its event. The resourceVersions in the responses map creates
//! to events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use parking_lot::Mutex;

use super::PROTOBUF;
use super::create::create_workload;
use crate::Result;
use crate::baseline;
use crate::client::{Protocol, get, get_as, with_body};
use crate::comparison::start_baseline;
use crate::load::{Load, Percentiles, ResponseObserver, RoundResult, Workload, median, median_round};
use crate::objects::{config_map, config_maps_path, create, resource_version};
use crate::plan::Plan;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, Target};
use crate::watchers::{EventArrivals, Framing, STREAMS_PER_CONNECTION, WatchOptions};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fanout",
    description: "100 and 1,000 watchers of one collection, writers at full speed and at a fixed rate",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients that create.
const WRITERS: usize = 16;

/// The watchers and writers of one measurement.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) watchers: usize,
    pub(super) protocol: Protocol,
    /// The number of watches on one HTTP/2 connection.
    pub(super) streams_per_connection: usize,
    pub(super) framing: Framing,
    /// Creates per second. `None` is a closed loop at full speed.
    pub(super) creates_per_second: Option<f64>,
    /// The budgets: the maximum CPU time per delivered event in microseconds, and the minimum number of events per
    /// second.
    pub(super) max_cpu_micros_per_event: Option<f64>,
    pub(super) min_events_per_second: Option<f64>,
    /// True if the Go API server can serve the case. At full speed its watches do not keep up, and it closes them.
    pub(super) on_go_api_server: bool,
}

const FULL_SPEED: Case = Case {
    name: "100 watchers, full speed",
    watchers: 100,
    protocol: Protocol::Http1,
    streams_per_connection: STREAMS_PER_CONNECTION,
    framing: Framing::NewlineDelimited,
    creates_per_second: None,
    max_cpu_micros_per_event: Some(2.0),
    min_events_per_second: Some(200_000.0),
    on_go_api_server: false,
};

pub(super) const PACED: Case = Case {
    name: "100 watchers, 100 writes/s",
    creates_per_second: Some(100.0),
    max_cpu_micros_per_event: Some(9.0),
    min_events_per_second: None,
    on_go_api_server: true,
    ..FULL_SPEED
};

const OF_1000: Case = Case {
    name: OVER_HTTP1,
    watchers: 1000,
    creates_per_second: Some(10.0),
    max_cpu_micros_per_event: Some(15.0),
    ..PACED
};

/// The case over HTTP/1.1, and the case over HTTP/2 that is compared with it.
const OVER_HTTP1: &str = "1,000 watchers, 10 writes/s";
const OVER_HTTP2: &str = "1,000 watchers, 10 writes/s, 50 connections of HTTP/2";
/// The maximum ratio of the CPU time of an event over HTTP/2 to its CPU time over HTTP/1.1.
const MAX_HTTP2_RATIO: f64 = 1.2;

const CASES: [Case; 8] = [
    FULL_SPEED,
    Case { name: "1,000 watchers, full speed", watchers: 1000, ..FULL_SPEED },
    Case {
        name: "100 watchers, full speed, Protobuf over HTTP/2",
        protocol: Protocol::Http2,
        framing: Framing::LengthDelimited,
        ..FULL_SPEED
    },
    Case {
        name: "1,000 watchers, full speed, Protobuf",
        watchers: 1000,
        framing: Framing::LengthDelimited,
        ..FULL_SPEED
    },
    PACED,
    Case {
        name: "100 watchers, 100 writes/s, Protobuf over HTTP/2",
        protocol: Protocol::Http2,
        framing: Framing::LengthDelimited,
        ..PACED
    },
    OF_1000,
    Case {
        name: OVER_HTTP2,
        protocol: Protocol::Http2,
        streams_per_connection: 20,
        max_cpu_micros_per_event: None,
        ..OF_1000
    },
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    bench
        .report
        .section(format!("watch fan-out: creates of 1 KiB ConfigMaps by {WRITERS} clients, delivered to all watchers"));
    let is_on_go_api_server = bench.is_on_go_api_server();
    let cases = CASES.iter().filter(|case| case.on_go_api_server || !is_on_go_api_server);
    let mut over_http1 = None;
    for (at, case) in cases.enumerate() {
        // There is one long round at a fixed rate, or several short rounds at full speed.
        let (rounds, time) = if case.creates_per_second.is_some() {
            (1, bench.plan.open_loop_duration)
        } else {
            (bench.plan.rounds, bench.plan.duration)
        };
        let (mut without_watchers, mut with_watchers) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let unwatched_namespace = target.namespace(&format!("quiet-{at}-{round}")).await?;
            without_watchers.push(
                AnsweredCreate::load(case, time)
                    .run(&target.server, &create_workload(&unwatched_namespace, "w".to_owned()))
                    .await?,
            );
            with_watchers.push(fan_out(&mut target, case, time, &bench.plan, &format!("watch-{at}-{round}")).await?);
        }
        let cost = report(bench, case, median_round(without_watchers), with_watchers);
        if case.name == OVER_HTTP1 {
            over_http1 = cost;
        }
        if case.name == OVER_HTTP2 {
            let ratio = cost.zip(over_http1).map(|(cost, over_http1)| cost / over_http1.max(f64::MIN_POSITIVE));
            let name = format!("{OVER_HTTP2}: CPU per event, ratio to HTTP/1.1");
            bench.report.row_if_known(name, ratio, "", |row| row.at_most(MAX_HTTP2_RATIO));
        }
    }
    if !is_on_go_api_server {
        baseline_event_cost(bench, &mut target).await?;
    }
    target.tear_down().await
}

/// Measures the cost of an event in the baseline server, which only sends the same bytes to all watchers.
async fn baseline_event_cost(bench: &mut ScenarioContext, target: &mut Target) -> Result<()> {
    let collection = config_maps_path(&target.namespace("bare").await?);
    let mut connection = target.server.connect().await?;
    let object = connection.fetch(create(collection.as_str(), config_map("object", 1)), StatusCode::CREATED).await?;
    let baseline = start_baseline(bench.scratch(), &object, &Bytes::new()).await?;
    let server = &baseline.server;
    let workload: Workload = Arc::new(|_, _| Some(with_body(Method::POST, baseline::EVENTS, Bytes::new())));
    let load = || AnsweredCreate::load(&PACED, bench.plan.open_loop_duration);
    let without_watchers = load().run(server, &workload).await?;
    let requests = (0..PACED.watchers).map(|_| get(baseline::WATCH));
    let watchers = WatchOptions::new(PACED.protocol).open(server, requests).await?;
    let cpu = server.meter.cpu_time()?;
    let sent = load().run(server, &workload).await?.completed;
    let events = sent * PACED.watchers as u64;
    watchers.wait_for(events).await?;
    let cpu = server.meter.cpu_time_since(cpu)?;
    watchers.close().await;
    baseline.stop().await?;
    let total = RoundResult { completed: events, cpu, ..RoundResult::default() }.cpu_micros();
    let without_watchers = without_watchers.cpu_micros();
    let cost = total.zip(without_watchers).map(|(total, without)| (total - without / PACED.watchers as f64).max(0.0));
    let name = format!("{}: CPU per event of the baseline server", PACED.name);
    bench.report.row_if_known(name, cost, "µs", |row| row.cpu(cost).about_machine());
    Ok(())
}

/// Adds the rows of a case, and returns the CPU time of an event in microseconds.
fn report(
    bench: &mut ScenarioContext,
    case: &Case,
    without_watchers: RoundResult,
    with_watchers: Vec<FanoutRound>,
) -> Option<f64> {
    let memory_per_create = median(with_watchers.iter().filter_map(|round| round.memory_per_create));
    let creates = median(with_watchers.iter().map(|round| round.creates));
    let answered = median(with_watchers.iter().map(|round| round.after_response));
    let mut latencies: Vec<u32> = with_watchers.iter().flat_map(|round| round.latencies.iter().copied()).collect();
    latencies.sort_unstable();
    let percentiles = Percentiles::of(&latencies);
    let events = median_round(with_watchers.into_iter().map(|round| round.events).collect());

    let note = format!("{:.0} creates/s", events.rate() / case.watchers as f64);
    let row = bench.report.row(format!("{}: events", case.name), events.rate(), "/s").note(note);
    if let Some(rate) = case.min_events_per_second {
        row.at_least(rate);
    }
    let total = events.cpu_micros();
    let cost = total
        .zip(without_watchers.cpu_micros())
        .map(|(total, without_watchers)| (total - without_watchers / case.watchers as f64).max(0.0));
    bench.report.row_if_known(format!("{}: CPU per event", case.name), cost, "µs", |row| {
        let note = format!("{:.2} µs including the creates; {creates:.0} creates per round", total.unwrap_or_default());
        let row = row.cpu(cost).note(note);
        match case.max_cpu_micros_per_event {
            Some(limit) => row.at_most(limit),
            None => row,
        }
    });
    let note = format!("p50 from the create's response {answered:.2} ms");
    let row = bench.report.row(format!("{}: delivery to the last watcher, p99", case.name), percentiles.p99, "ms");
    row.scheduled_latencies(percentiles).note(note);
    if case.creates_per_second.is_none() && case.framing == Framing::NewlineDelimited {
        let name = format!("{}: memory per create", case.name);
        bench.report.row(name, memory_per_create, "bytes").note("resident, including the object");
    }
    cost
}

/// The result of a round with watchers.
pub(super) struct FanoutRound {
    /// The delivered events, counted like requests.
    events: RoundResult,
    creates: f64,
    /// The latency from each create's scheduled time until the last watcher had its event, in microseconds.
    pub(super) latencies: Vec<u32>,
    /// The median latency from the create's response, in milliseconds.
    after_response: f64,
    /// The additional resident bytes per create.
    memory_per_create: Option<f64>,
}

/// A completed create.
struct AnsweredCreate {
    revision: u64,
    due: Instant,
    answered: Instant,
}

impl AnsweredCreate {
    /// The load of a case.
    fn load(case: &Case, time: Duration) -> Load {
        match case.creates_per_second {
            None => Load::closed(WRITERS, time),
            Some(rate) => Load::open(WRITERS, rate, time),
        }
        .expect_status(StatusCode::CREATED)
    }
}

/// Opens the watchers of a case, creates objects for a time, and waits until all events have arrived.
pub(super) async fn fan_out(
    target: &mut Target,
    case: &Case,
    time: Duration,
    plan: &Plan,
    name: &str,
) -> Result<FanoutRound> {
    let namespace = target.namespace(name).await?;
    let server: &Server = &target.server;
    // The objects that the server creates in every namespace already exist, so the watch starts after them.
    let list = server.connect().await?.fetch(get(config_maps_path(&namespace)), StatusCode::OK).await?;
    let from = resource_version(&list).ok_or("the list has no resourceVersion")?;
    let path = format!("{}?watch=true&resourceVersion={from}", config_maps_path(&namespace));
    let arrivals = EventArrivals::new();
    let watch_options =
        WatchOptions::new(case.protocol).framed(case.framing).sharing(case.streams_per_connection).recording(&arrivals);
    let requests = (0..case.watchers).map(|_| match case.framing {
        Framing::NewlineDelimited => get(path.as_str()),
        Framing::LengthDelimited => get_as(path.as_str(), PROTOBUF),
    });
    let watchers = watch_options.open(server, requests).await?;
    let before = server.settled_memory(plan).await?;

    let writes = Arc::new(Mutex::new(Vec::new()));
    let observer: ResponseObserver = {
        let writes = writes.clone();
        Arc::new(move |answer| {
            let revision = resource_version(answer.body).unwrap_or_default();
            writes.lock().push(AnsweredCreate { revision, due: answer.due, answered: answer.answered });
        })
    };
    let (started, cpu) = (Instant::now(), server.meter.cpu_time()?);
    let load = AnsweredCreate::load(case, time).observed_by(observer);
    let creates = load.run(server, &create_workload(&namespace, "w".to_owned())).await?.completed;
    watchers.wait_for(creates * case.watchers as u64).await?;
    let (elapsed, cpu) = (started.elapsed(), server.meter.cpu_time_since(cpu)?);
    let after = server.settled_memory(plan).await?;
    watchers.close().await;

    let mut writes = std::mem::take(&mut *writes.lock());
    // Events arrive in the order of their resourceVersions.
    writes.sort_unstable_by_key(|write| write.revision);
    let latencies = |since: fn(&AnsweredCreate) -> Instant| {
        let numbered = writes.iter().enumerate();
        numbered.filter_map(|(number, write)| arrivals.latency_since(number, since(write))).collect::<Vec<u32>>()
    };
    let after_response = median(latencies(|write| write.answered).into_iter().map(|micros| f64::from(micros) / 1e3));
    let memory_per_create =
        after.zip(before).map(|(after, before)| after.saturating_sub(before) as f64 / creates.max(1) as f64);
    let events = RoundResult { completed: creates * case.watchers as u64, elapsed, cpu, ..RoundResult::default() };
    Ok(FanoutRound {
        events,
        creates: creates as f64,
        latencies: latencies(|write| write.due),
        after_response,
        memory_per_create,
    })
}
