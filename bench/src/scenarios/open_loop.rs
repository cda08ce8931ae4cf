//! Latencies at half of saturation. A closed loop finds the maximum throughput, and an open loop runs at half of it.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::create::create_workload;
use crate::Result;
use crate::client::{Protocol, get, with_body};
use crate::load::{Load, Workload};
use crate::machine;
use crate::objects::{config_map, config_maps_path, fill};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "open-loop",
    description: "latencies of GETs, creates and updates at half of saturation, open loop",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients of both loops.
const CLIENTS: usize = 64;
/// The number of objects that are read and updated in turn.
const OBJECTS: u64 = 1024;
/// The budget for the p99 in addition to the disk's own, in milliseconds.
const MAX_P99_MS: f64 = 10.0;

/// A kind of request.
struct RequestKind {
    name: &'static str,
    protocol: Protocol,
    expect: StatusCode,
    /// True if the request waits for a sync.
    syncs: bool,
    /// Creates the workload for a namespace and the number of the loop.
    workload: fn(&str, usize) -> Workload,
}

const GETS: RequestKind = RequestKind {
    name: "gets",
    protocol: Protocol::Http1,
    expect: StatusCode::OK,
    syncs: false,
    workload: |namespace, _| {
        let collection = config_maps_path(namespace);
        Arc::new(move |client, sent| Some(get(format!("{collection}/o-{}", (client as u64 + sent) % OBJECTS))))
    },
};

const KINDS: [RequestKind; 4] = [
    GETS,
    RequestKind { name: "gets, HTTP/2, one connection", protocol: Protocol::Http2, ..GETS },
    RequestKind {
        name: "creates",
        expect: StatusCode::CREATED,
        syncs: true,
        workload: |namespace, run| create_workload(namespace, format!("c{run}")),
        ..GETS
    },
    RequestKind {
        name: "updates",
        syncs: true,
        workload: |namespace, run| {
            let collection = config_maps_path(namespace);
            Arc::new(move |client, sent| {
                // In a closed loop each client updates its own objects. In an open loop objects are updated in
                // sequence, so the same object is seldom updated concurrently.
                let number = (client as u64 * (OBJECTS / CLIENTS as u64) + sent) % OBJECTS;
                let name = format!("o-{number}");
                let seed = (run as u64) << 40 | (client as u64) << 32 | sent;
                Some(with_body(Method::PUT, format!("{collection}/{name}"), config_map(&name, seed)))
            })
        },
        ..GETS
    },
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("open").await?;
    let make = |number| config_map(&format!("o-{number}"), number);
    fill(&target.server, &config_maps_path(&namespace), OBJECTS, make).await?;
    let disk = machine::measure_disk(bench.scratch(), bench.plan.duration)?;
    bench.report.section(format!("open loop at half of saturation, {CLIENTS} clients"));
    for (at, kind) in KINDS.iter().enumerate() {
        let with = |load: Load| load.protocol(kind.protocol).expect_status(kind.expect);
        let saturation_load = with(Load::closed(CLIENTS, bench.plan.duration));
        let saturation = saturation_load.run(&target.server, &(kind.workload)(&namespace, 2 * at)).await?.rate();
        let half = with(Load::open(CLIENTS, saturation / 2.0, bench.plan.open_loop_duration));
        let half = half.run(&target.server, &(kind.workload)(&namespace, 2 * at + 1)).await?;
        let latencies = half.percentiles();
        let limit = if kind.syncs { MAX_P99_MS + disk.p99 } else { MAX_P99_MS };
        let note = format!("{:.0}/s of {saturation:.0}/s", half.rate());
        let row = bench.report.row(format!("{}: p99", kind.name), latencies.p99, "ms").scheduled_latencies(latencies);
        row.cpu(half.cpu_micros()).at_most(limit).note(note);
    }
    target.tear_down().await
}
