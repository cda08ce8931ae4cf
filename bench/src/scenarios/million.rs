//! A million objects: the memory after they are created in a row, and the time and memory of a start with them.

use super::megabytes;
use super::start::StartTimes;
use crate::Result;
use crate::load::median;
use crate::objects::{config_map, config_maps_path, fill};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::ServerProcess;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "million",
    description: "a million creates by 64 clients, and the start with them: time and memory (full plan only)",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The budget of a start with a million objects, in milliseconds.
const START_LIMIT: f64 = 5000.0;
/// The memory budget of an object of 1.1 KB, in bytes, including its history and the server.
const LIMIT_PER_OBJECT: f64 = 1700.0;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let Some(count) = bench.plan.many_objects else {
        bench.report.remark("million: skipped, it is a part of the full plan");
        return Ok(());
    };
    let (binary, folder, objects) = (bench.binary()?, bench.scratch().join("million"), count as f64);
    let limit = objects * LIMIT_PER_OBJECT / 1e6;
    let process = ServerProcess::pintle(&binary, &folder).await?;
    let collection = config_maps_path("default");
    fill(&process.server, &collection, count, |number| config_map(&format!("many-{number:07}"), number)).await?;
    let created = process.server.settled_memory(&bench.plan).await?.map(megabytes);
    process.stop().await?;

    let (mut start_times, mut memory_samples) = (StartTimes::default(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let process = ServerProcess::pintle(&binary, &folder).await?;
        start_times.add(&process);
        memory_samples.extend(process.server.settled_memory(&bench.plan).await?.map(megabytes));
        process.stop().await?;
    }
    let report = &mut bench.report;
    report.section("start to ready");
    start_times.report(&format!("{} objects stored", thousands(objects)), START_LIMIT * objects / 1e6, report);
    report.section("memory");
    report.row_if_known(format!("after {} creates by 64 clients", thousands(objects)), created, "MB", |row| {
        row.at_most(limit)
    });
    let name = format!("{} stored objects, after a start", thousands(objects));
    report.row(name, median(memory_samples), "MB").at_most(limit);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
