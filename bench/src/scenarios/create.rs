//! Durable creates, each answered when it is synced: by one, by some and by many connections, in turns with the disk's
//! own rate.

use std::sync::Arc;

use http::StatusCode;

use crate::Result;
use crate::client::Protocol;
use crate::load::{Load, Round, Script, median, middle};
use crate::machine;
use crate::objects::{config_map, config_maps, create};
use crate::peer;
use crate::scenario::{Bench, Scenario};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "create",
    does: "durable creates by 1, 16 and 64 clients beside the disk's rate",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Clients that create, and how.
const WRITERS: [(usize, Protocol, &str); 4] = [
    (1, Protocol::Http1, "1 client"),
    (16, Protocol::Http1, "16 clients"),
    (64, Protocol::Http1, "64 clients"),
    (64, Protocol::Http2, "64 clients, HTTP/2, one connection"),
];

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("create").await?;
    let mut disks = Vec::new();
    let mut rounds: [Vec<Round>; WRITERS.len()] = Default::default();
    let mut ratios: [Vec<f64>; WRITERS.len()] = Default::default();
    for number in 0..bench.plan.rounds {
        let disk = machine::disk(bench.scratch(), bench.plan.time / 2)?;
        disks.push(disk);
        for (at, (clients, protocol, _)) in WRITERS.into_iter().enumerate() {
            let script = creates(&namespace, format!("c{at}-{number}"));
            let load = Load::closed(clients, bench.plan.time).over(protocol).expecting(StatusCode::CREATED);
            let round = load.run(&target.server, &script).await?;
            ratios[at].push(round.rate() / disk.rate);
            rounds[at].push(round);
        }
    }
    let report = &mut bench.report;
    report.section("durable creates of 1 KiB ConfigMaps");
    let p99 = middle(disks.iter().map(|disk| disk.p99));
    let rate = middle(disks.iter().map(|disk| disk.rate));
    report.row("the disk: 4 KiB appended and synced, alone", rate, "/s").note(format!("p99 {p99:.2} ms"));
    for (((clients, _, name), rounds), ratios) in WRITERS.into_iter().zip(rounds).zip(ratios) {
        let round = median(rounds);
        let row = report.row(name, round.rate(), "/s").round(&round);
        // The peer was measured with as many.
        if clients == 16 {
            row.cheaper_than(peer::CREATE, 10.0);
        }
        let row = report.row(format!("{name}: ratio to the disk"), middle(ratios), "");
        // Beyond one sync per write: that is what sharing them is for.
        if clients == 64 {
            row.at_least(1.0);
        }
    }
    target.finish().await
}

/// Creates ever new ConfigMaps.
pub(super) fn creates(namespace: &str, prefix: String) -> Script {
    let collection = config_maps(namespace);
    Arc::new(move |client, sent| {
        Some(create(collection.as_str(), config_map(&format!("{prefix}-{client}-{sent}"), sent)))
    })
}
