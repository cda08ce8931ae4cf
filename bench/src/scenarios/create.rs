//! Durable creates by 1, 16 and 64 clients. Each create is acknowledged after its sync. The creates alternate with
//! measurements of the disk's sync rate.

use std::sync::Arc;

use http::StatusCode;

use crate::Result;
use crate::client::Protocol;
use crate::load::{Load, RoundResult, Workload, median, median_round};
use crate::machine;
use crate::objects::{config_map, config_maps_path, create};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "create",
    description: "durable creates by 1, 16 and 64 clients, compared with the disk's sync rate",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The numbers of clients, their protocol, and the name in the report.
const WRITERS: [(usize, Protocol, &str); 4] = [
    (1, Protocol::Http1, "1 client"),
    (16, Protocol::Http1, "16 clients"),
    (64, Protocol::Http1, "64 clients"),
    (64, Protocol::Http2, "64 clients, HTTP/2, one connection"),
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("create").await?;
    let mut disks = Vec::new();
    let mut rounds: [Vec<RoundResult>; WRITERS.len()] = Default::default();
    let mut ratios: [Vec<f64>; WRITERS.len()] = Default::default();
    for number in 0..bench.plan.rounds {
        let disk = machine::measure_disk(bench.scratch(), bench.plan.duration / 2)?;
        disks.push(disk);
        for (at, (clients, protocol, _)) in WRITERS.into_iter().enumerate() {
            let workload = create_workload(&namespace, format!("c{at}-{number}"));
            let load = Load::closed(clients, bench.plan.duration).protocol(protocol).expect_status(StatusCode::CREATED);
            let round = load.run(&target.server, &workload).await?;
            ratios[at].push(round.rate() / disk.rate);
            rounds[at].push(round);
        }
    }
    let report = &mut bench.report;
    report.section("durable creates of 1 KiB ConfigMaps");
    let p99 = median(disks.iter().map(|disk| disk.p99));
    let rate = median(disks.iter().map(|disk| disk.rate));
    let note = format!("p99 {p99:.2} ms");
    report.row("disk: sequential 4 KiB append and sync", rate, "/s").about_machine().note(note);
    for (((clients, _, name), rounds), ratios) in WRITERS.into_iter().zip(rounds).zip(ratios) {
        let round = median_round(rounds);
        let row = report.row(name, round.rate(), "/s").round(&round);
        if clients == 16 {
            row.cheaper_than_go(10.0);
        }
        let row = report.row(format!("{name}: ratio to the disk's sync rate"), median(ratios), "");
        // The ratio must be more than one write per sync: concurrent writes must share syncs.
        if clients == 64 {
            row.at_least(1.0);
        }
    }
    target.tear_down().await
}

/// A workload that creates ConfigMaps with new names.
pub(super) fn create_workload(namespace: &str, prefix: String) -> Workload {
    let collection = config_maps_path(namespace);
    Arc::new(move |client, sent| {
        Some(create(collection.as_str(), config_map(&format!("{prefix}-{client}-{sent}"), sent)))
    })
}
