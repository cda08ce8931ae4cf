//! Clusters in a test's process: the time to start, fork and stop a cluster, and the time and memory of many clusters
//! at once.

use super::megabytes;
use crate::Result;
use crate::load::median;
use crate::scenario::{Scenario, ScenarioContext};
use crate::test_clusters::measure;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "test-clusters",
    description: "clusters of the test kit: start, fork, stop, and many at once",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The budgets of a hundred clusters: the milliseconds until they are ready, and the MB of resident memory.
const HUNDRED: (f64, f64) = (2000.0, 600.0);

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (single, parallel) = bench.plan.test_clusters;
    let (mut ready, mut memory) = (Vec::new(), Vec::new());
    let (mut starts, mut forks, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let measured = measure(single, parallel)?;
        starts.extend(measured.starts);
        forks.extend(measured.forks);
        stops.extend(measured.stops);
        ready.push(measured.until_all_ready);
        memory.push(megabytes(measured.resident_bytes));
    }
    let share = parallel as f64 / 100.0;
    let report = &mut bench.report;
    report.section("clusters in the process of a test");
    report.row("start", median(starts), "ms").at_most(10.0);
    report.row("fork of a cluster with a CRD", median(forks), "ms").at_most(10.0);
    report.row("stop", median(stops), "ms").at_most(20.0);
    report
        .row(format!("{parallel} clusters at once, until all are ready"), median(ready), "ms")
        .at_most(HUNDRED.0 * share);
    report.row(format!("{parallel} clusters, memory of the process"), median(memory), "MB").at_most(HUNDRED.1 * share);
    Ok(())
}
