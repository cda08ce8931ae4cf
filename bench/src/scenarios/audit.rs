//! The cost of audit: the same requests to a server without audit and to servers that record them in a file, in
//! alternating rounds. Each server has its own store.

use http::StatusCode;

use super::create::create_workload;
use crate::Result;
use crate::client::{Protocol, get};
use crate::comparison::{Concurrency, alternate, alternate_creates};
use crate::load::{RoundResult, median, median_round};
use crate::objects::{config_map, config_maps_path, create, fill};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Target;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "audit",
    description: "GETs, creates and lists with audit, beside the same server without audit",
    requires_binary: true,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
/// The budgets for the CPU time of a GET and of a create at the level `Metadata`, compared with no audit.
const GET_BUDGET: f64 = 1.25;
const CREATE_BUDGET: f64 = 1.10;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut plain = bench.target().await?;
    let mut metadata = audited(bench, "Metadata", &[]).await?;
    let mut whole = audited(bench, "RequestResponse", &[]).await?;
    let truncating = audited(bench, "RequestResponse", &["--audit-log-truncate-enabled=true"]).await?;
    let mut namespace = String::new();
    for target in [&mut plain, &mut metadata, &mut whole] {
        // The name is the same on all servers.
        namespace = target.namespace("audit").await?;
        let object = create(config_maps_path(&namespace), config_map("object", 1));
        target.server.connect().await?.execute(object, StatusCode::CREATED).await?;
    }
    let servers = [&plain.server, &metadata.server, &whole.server];

    let path = format!("{}/object", config_maps_path(&namespace));
    let concurrency = Concurrency { clients: CLIENTS, protocol: Protocol::Http1 };
    let gets = alternate(&servers, move || get(path.as_str()), concurrency, &bench.plan).await?;
    report_costs(bench, "GET of one object of 1 KiB", &gets, GET_BUDGET);

    let workload = |round: usize| create_workload(&namespace, format!("c{round}"));
    let creates = alternate_creates(&servers, workload, CLIENTS, &bench.plan).await?;
    report_costs(bench, "create of a ConfigMap of 1 KiB", &creates, CREATE_BUDGET);
    for target in [plain, metadata] {
        target.tear_down().await?;
    }

    let count = bench.plan.listed_objects;
    bench.report.section("Audit to a file: list of ConfigMaps of 1 KiB at the level RequestResponse".to_owned());
    for (target, name) in [(whole, "whole events"), (truncating, "events truncated at 100 KiB")] {
        list_memory(bench, target, name, count).await?;
    }
    Ok(())
}

/// Starts a server that records all requests at a level.
async fn audited(bench: &mut ScenarioContext, level: &str, options: &[&str]) -> Result<Target> {
    let file = |name: String| bench.scratch().join(name).to_string_lossy().into_owned();
    let number = std::fs::read_dir(bench.scratch())?.count();
    let policy = file(format!("audit-{number}.yaml"));
    std::fs::write(&policy, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: {level}\n"))?;
    let log = file(format!("audit-{number}.log"));
    let mut all = vec!["--audit-policy-file", &*policy, "--audit-log-path", &*log];
    all.extend(options);
    bench.target_with(&all).await
}

/// Adds the rows of rounds without audit, at the level `Metadata`, and at the level `RequestResponse`. The names of rows
/// are unique, because the results of the Go API server are found by them.
fn report_costs(bench: &mut ScenarioContext, request: &str, rounds: &[Vec<RoundResult>], budget: f64) {
    let cpu = |round: &RoundResult| round.cpu_micros().unwrap_or_default();
    bench.report.section(format!("Audit to a file: {request}, {CLIENTS} clients"));
    let request = request.split(' ').next().unwrap_or_default();
    for (number, name) in ["without audit", "level Metadata", "level RequestResponse"].into_iter().enumerate() {
        let of = &rounds[number];
        let middle = median_round(of.clone());
        bench.report.row(format!("{request}, {name}"), middle.rate(), "/s").round(&middle);
        if number > 0 {
            let ratio = median(of.iter().zip(&rounds[0]).map(|(audited, plain)| cpu(audited) / cpu(plain)));
            let row = bench.report.row(format!("{request}, {name}: CPU, compared with no audit"), ratio, "");
            if number == 1 {
                row.at_most(budget);
            }
        }
    }
}

/// Measures the peak memory of a list beside the size of its body.
async fn list_memory(bench: &mut ScenarioContext, mut target: Target, name: &str, count: u64) -> Result<()> {
    let collection = config_maps_path(&target.namespace("list").await?);
    fill(&target.server, &collection, count, |number| config_map(&format!("object-{number}"), number)).await?;
    let before = target.server.settled_memory(&bench.plan).await?;
    target.server.meter.reset_peak()?;
    let body = target.server.connect().await?.fetch(get(collection.as_str()), StatusCode::OK).await?;
    let peak = target.server.meter.peak_resident_bytes()?;
    let grown = peak.zip(before).map(|(peak, before)| peak.saturating_sub(before) as f64 / body.len() as f64);
    let note = format!("a list of {:.1} MB", body.len() as f64 / 1e6);
    bench.report.row_if_known(format!("{name}: memory beside the size of the list"), grown, "", |row| row.note(note));
    target.tear_down().await
}
