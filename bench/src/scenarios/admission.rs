//! What admission costs: creates of ConfigMaps and of pods that pass the default chain of plugins.

use std::sync::Arc;

use http::StatusCode;

use super::create::create_workload;
use crate::Result;
use crate::load::{Load, RoundResult, Workload, median};
use crate::objects::{create, pod, pods_path};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "admission",
    description: "creates of ConfigMaps and pods with the default admission plugins",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
/// The budget of a pod's create in microseconds of CPU.
const POD_BUDGET: f64 = 110.0;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("admission").await?;
    let mut costs: [Vec<f64>; 2] = Default::default();
    for number in 0..bench.plan.rounds {
        let config_maps = create_workload(&namespace, format!("c{number}"));
        let pods = create_pods(&namespace, format!("p{number}"));
        for (workload, costs) in [config_maps, pods].iter().zip(&mut costs) {
            let load = Load::closed(CLIENTS, bench.plan.duration).expect_status(StatusCode::CREATED);
            costs.push(cpu(&load.run(&target.server, workload).await?));
        }
    }
    let [config_maps, pods] = costs.map(median);
    bench.report.section(format!("Admission: CPU of a create, {CLIENTS} clients"));
    bench.report.row("ConfigMap of 1 KiB", config_maps, "µs");
    bench.report.row("pod of 2 KiB", pods, "µs").at_most(POD_BUDGET);
    target.tear_down().await
}

fn cpu(round: &RoundResult) -> f64 {
    round.cpu_micros().unwrap_or_default()
}

/// A workload that creates pods with new names on one node.
fn create_pods(namespace: &str, prefix: String) -> Workload {
    let collection = pods_path(namespace);
    Arc::new(move |client, sent| Some(create(collection.as_str(), pod(&format!("{prefix}-{client}-{sent}"), "", sent))))
}
