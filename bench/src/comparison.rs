//! Measures a server and the baseline server in alternating rounds. Other load on the machine affects both servers
//! alike, so the ratio of each pair of rounds is more reliable than the absolute numbers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use crate::Result;
use crate::baseline;
use crate::client::{HttpRequest, Protocol, get};
use crate::load::{Load, RoundResult, Workload, median, median_round};
use crate::plan::Plan;
use crate::target::{Server, ServerProcess};

/// The duration of the warm-up before each round. Its requests are not counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// The result of measuring both servers in alternating rounds.
pub(crate) struct Comparison {
    /// The baseline server's median round.
    pub(crate) baseline: RoundResult,
    /// The measured server's median round.
    pub(crate) server: RoundResult,
    /// The median of the rounds' throughput ratios, measured server to baseline.
    pub(crate) ratio: f64,
}

/// The clients of a closed loop.
#[derive(Clone, Copy)]
pub(crate) struct Concurrency {
    /// The number of concurrent clients.
    pub(crate) clients: usize,
    /// The HTTP version that the clients use.
    pub(crate) protocol: Protocol,
}

/// Starts the baseline server, whose responses are an object and a list.
pub(crate) async fn start_baseline(scratch: &Path, object: &Bytes, list: &Bytes) -> Result<ServerProcess> {
    let (object_file, list_file) = (scratch.join("object.json"), scratch.join("list.json"));
    std::fs::write(&object_file, object)?;
    std::fs::write(&list_file, list)?;
    baseline::start(scratch, &object_file, &list_file).await
}

/// Runs alternating closed loops: GETs of `baseline_path` against the baseline server, and `request` against the
/// measured server.
pub(crate) async fn compare_with_baseline(
    (baseline, baseline_path): (&ServerProcess, &'static str),
    server: &Server,
    request: impl Fn() -> HttpRequest + Send + Sync + 'static,
    concurrency: Concurrency,
    plan: &Plan,
) -> Result<Comparison> {
    let baseline_workload: Workload = Arc::new(move |_, _| Some(get(baseline_path)));
    let workload: Workload = Arc::new(move |_, _| Some(request()));
    let (mut baselines, mut servers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let baseline_round = run_round(&baseline.server, concurrency, plan, &baseline_workload).await?;
        let server_round = run_round(server, concurrency, plan, &workload).await?;
        ratios.push(server_round.rate() / baseline_round.rate());
        baselines.push(baseline_round);
        servers.push(server_round);
    }
    Ok(Comparison { baseline: median_round(baselines), server: median_round(servers), ratio: median(ratios) })
}

/// Runs the plan's rounds of one request against several servers in turn, and returns all rounds of each server.
pub(crate) async fn alternate(
    servers: &[&Server],
    request: impl Fn() -> HttpRequest + Send + Sync + 'static,
    concurrency: Concurrency,
    plan: &Plan,
) -> Result<Vec<Vec<RoundResult>>> {
    let workload: Workload = Arc::new(move |_, _| Some(request()));
    let mut rounds: Vec<Vec<RoundResult>> = servers.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.rounds {
        for (server, rounds) in servers.iter().zip(&mut rounds) {
            rounds.push(run_round(server, concurrency, plan, &workload).await?);
        }
    }
    Ok(rounds)
}

/// Runs the plan's rounds of creates against several servers in turn, and returns all rounds of each server. Each round
/// has a workload of its own, whose names are new.
pub(crate) async fn alternate_creates(
    servers: &[&Server],
    workload_of: impl Fn(usize) -> Workload,
    clients: usize,
    plan: &Plan,
) -> Result<Vec<Vec<RoundResult>>> {
    let load = Load::closed(clients, plan.duration).expect_status(StatusCode::CREATED);
    let mut rounds: Vec<Vec<RoundResult>> = servers.iter().map(|_| Vec::new()).collect();
    for number in 0..plan.rounds {
        let workload = workload_of(number);
        for (server, rounds) in servers.iter().zip(&mut rounds) {
            rounds.push(load.run(server, &workload).await?);
        }
    }
    Ok(rounds)
}

/// Runs the plan's rounds of one request and returns the median round.
pub(crate) async fn measure_rounds(
    server: &Server,
    request: impl Fn() -> HttpRequest + Send + Sync + 'static,
    concurrency: Concurrency,
    plan: &Plan,
) -> Result<RoundResult> {
    let workload: Workload = Arc::new(move |_, _| Some(request()));
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(run_round(server, concurrency, plan, &workload).await?);
    }
    Ok(median_round(rounds))
}

async fn run_round(
    server: &Server,
    Concurrency { clients, protocol }: Concurrency,
    plan: &Plan,
    workload: &Workload,
) -> Result<RoundResult> {
    Load::closed(clients, WARM_UP).protocol(protocol).run(server, workload).await?;
    Load::closed(clients, plan.duration).protocol(protocol).run(server, workload).await
}
