//! Durable deletions, one by one and of a whole collection.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode};

use crate::Result;
use crate::client::plain;
use crate::load::{Load, Round, Script, median};
use crate::objects::{config_map, config_maps, fill};
use crate::peer;
use crate::scenario::{Bench, Scenario};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "delete",
    does: "deletions by 16 clients, and of a collection at once",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Clients that delete.
const CLIENTS: u64 = 16;

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps(&target.namespace("delete").await?);
    let (count, server) = (bench.plan.deletes * CLIENTS, target.server.clone());
    let make = |number| config_map(&format!("gone-{number}"), number);
    let (mut singles, mut wholes) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        fill(&server, &collection, count, make).await?;
        let path = collection.clone();
        let script: Script = Arc::new(move |client, sent| {
            let number = sent * CLIENTS + client as u64;
            (number < count).then(|| plain(Method::DELETE, format!("{path}/gone-{number}")))
        });
        singles.push(Load::closed(CLIENTS as usize, bench.plan.time * 30).run(&server, &script).await?);

        fill(&server, &collection, count, make).await?;
        let mut connection = server.connect().await?;
        let (cpu, started) = (server.meter.cpu()?, Instant::now());
        connection.exchange(plain(Method::DELETE, collection.as_str()), StatusCode::OK).await?;
        let elapsed = started.elapsed();
        let cpu = server.meter.cpu_since(cpu)?;
        wholes.push(Round { done: count, elapsed, cpu, ..Round::default() });
    }
    let report = &mut bench.report;
    report.section(format!("other durable writes, {CLIENTS} clients"));
    let (single, whole) = (median(singles), median(wholes));
    report.row("deletes", single.rate(), "/s").round(&single).cheaper_than(peer::DELETE, 10.0);
    let note = format!("{count} objects; the peer 584/s on its machine");
    report.row("deletecollection, objects", whole.rate(), "/s").cpu(whole.micros()).note(note);
    target.finish().await
}
