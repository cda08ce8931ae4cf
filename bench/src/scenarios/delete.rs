//! Durable deletes, one by one and as deletecollection.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode};

use crate::Result;
use crate::client::plain;
use crate::load::{Load, RoundResult, Workload, median_round};
use crate::objects::{config_map, config_maps_path, fill};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "delete",
    description: "deletes by 16 clients, and deletecollection",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients that delete.
const CLIENTS: u64 = 16;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps_path(&target.namespace("delete").await?);
    let (count, server) = (bench.plan.deletes_per_client * CLIENTS, target.server.clone());
    let make = |number| config_map(&format!("gone-{number}"), number);
    let (mut delete_rounds, mut collection_rounds) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        fill(&server, &collection, count, make).await?;
        let path = collection.clone();
        let workload: Workload = Arc::new(move |client, sent| {
            let number = sent * CLIENTS + client as u64;
            (number < count).then(|| plain(Method::DELETE, format!("{path}/gone-{number}")))
        });
        delete_rounds.push(Load::closed(CLIENTS as usize, bench.plan.duration * 30).run(&server, &workload).await?);

        fill(&server, &collection, count, make).await?;
        let mut connection = server.connect().await?;
        let (cpu, started) = (server.meter.cpu_time()?, Instant::now());
        connection.execute(plain(Method::DELETE, collection.as_str()), StatusCode::OK).await?;
        let elapsed = started.elapsed();
        let cpu = server.meter.cpu_time_since(cpu)?;
        collection_rounds.push(RoundResult { completed: count, elapsed, cpu, ..RoundResult::default() });
    }
    let report = &mut bench.report;
    report.section(format!("other durable writes, {CLIENTS} clients"));
    let (deletes, delete_collection) = (median_round(delete_rounds), median_round(collection_rounds));
    report.row("deletes", deletes.rate(), "/s").round(&deletes).cheaper_than_go(10.0);
    let note = format!("{count} objects");
    report
        .row("deletecollection: objects", delete_collection.rate(), "/s")
        .cpu(delete_collection.cpu_micros())
        .note(note);
    target.tear_down().await
}
