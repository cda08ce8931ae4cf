//! Latencies at half of saturation: a closed loop finds out how much the server does, an open loop asks for half of it.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::create::creates;
use crate::Result;
use crate::client::{Protocol, get, with_body};
use crate::load::{Load, Script};
use crate::machine;
use crate::objects::{config_map, config_maps, fill};
use crate::scenario::{Bench, Scenario};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "open",
    does: "latencies of gets, creates and updates at half of saturation, open loop",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Clients of both loops.
const CLIENTS: usize = 64;
/// Objects that are read and changed in turn.
const OBJECTS: u64 = 1024;
/// The p99 that is allowed beside the disk's, in milliseconds.
const LIMIT: f64 = 10.0;

/// A kind of request.
struct Kind {
    name: &'static str,
    protocol: Protocol,
    expect: StatusCode,
    /// True if it waits for the disk.
    syncs: bool,
    /// The requests, for a namespace and the number of the loop.
    script: fn(&str, usize) -> Script,
}

const GETS: Kind = Kind {
    name: "gets",
    protocol: Protocol::Http1,
    expect: StatusCode::OK,
    syncs: false,
    script: |namespace, _| {
        let collection = config_maps(namespace);
        Arc::new(move |client, sent| Some(get(format!("{collection}/o-{}", (client as u64 + sent) % OBJECTS))))
    },
};

const KINDS: [Kind; 4] = [
    GETS,
    Kind { name: "gets, HTTP/2, one connection", protocol: Protocol::Http2, ..GETS },
    Kind {
        name: "creates",
        expect: StatusCode::CREATED,
        syncs: true,
        script: |namespace, run| creates(namespace, format!("c{run}")),
        ..GETS
    },
    Kind {
        name: "updates",
        syncs: true,
        script: |namespace, run| {
            let collection = config_maps(namespace);
            Arc::new(move |client, sent| {
                // Each client's own in a closed loop, one after the other in an open one: seldom the same at once.
                let number = (client as u64 * (OBJECTS / CLIENTS as u64) + sent) % OBJECTS;
                let name = format!("o-{number}");
                let seed = (run as u64) << 40 | (client as u64) << 32 | sent;
                Some(with_body(Method::PUT, format!("{collection}/{name}"), config_map(&name, seed)))
            })
        },
        ..GETS
    },
];

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("open").await?;
    let make = |number| config_map(&format!("o-{number}"), number);
    fill(&target.server, &config_maps(&namespace), OBJECTS, make).await?;
    let disk = machine::disk(bench.scratch(), bench.plan.time)?;
    bench.report.section(format!("open loop at half of saturation, {CLIENTS} clients"));
    for (at, kind) in KINDS.iter().enumerate() {
        let with = |load: Load| load.over(kind.protocol).expecting(kind.expect);
        let most = with(Load::closed(CLIENTS, bench.plan.time));
        let most = most.run(&target.server, &(kind.script)(&namespace, 2 * at)).await?.rate();
        let half = with(Load::open(CLIENTS, most / 2.0, bench.plan.open));
        let half = half.run(&target.server, &(kind.script)(&namespace, 2 * at + 1)).await?;
        let latencies = half.percentiles();
        let limit = if kind.syncs { LIMIT + disk.p99 } else { LIMIT };
        let note = format!("{:.0}/s of {most:.0}/s", half.rate());
        let row = bench.report.row(format!("{}: p99", kind.name), latencies.p99, "ms").since_due(latencies);
        row.cpu(half.micros()).at_most(limit).note(note);
    }
    target.finish().await
}
