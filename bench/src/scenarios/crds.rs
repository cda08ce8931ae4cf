//! Many CRDs: the time until each is established, their memory, the requests that clients send next, and the start time
//! with all CRDs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::Value;

use super::start::StartTimes;
use crate::Result;
use crate::client::{Connection, HttpRequest, get, get_as, with_body};
use crate::load::{Percentiles, median};
use crate::objects::crd::{CRDS, crd, crd_path, custom_objects_path};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, ServerProcess};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "crds",
    description: "many CustomResourceDefinitions: time until established, memory, discovery, start time",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The number of concurrent clients that create CRDs.
const CLIENTS: usize = 16;
/// The budget for the time until a CRD is established, in milliseconds.
const MAX_ESTABLISHED_MS: f64 = 50.0;
/// The pause between two checks whether a CRD is established.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The memory budget of a CRD in addition to its own bytes, in KB.
const MAX_KB_PER_CRD: f64 = 40.0;
/// The budget for the additional start time with all CRDs, in milliseconds.
const MAX_EXTRA_START_MS: f64 = 100.0;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (binary, folder, count) = (bench.binary()?, bench.scratch().join("crds"), bench.plan.crds);
    // The first start generates certificates, so it is not measured.
    ServerProcess::pintle(&binary, &folder).await?.stop().await?;
    let empty = ServerProcess::pintle(&binary, &folder).await?;
    let without = empty.time_to_address.as_secs_f64() * 1e3;
    let server = empty.server.clone();
    let before = server.settled_memory(&bench.plan).await?;

    let sequential = create_crds(&server, 0..count / 2, 1).await?;
    let concurrent = create_crds(&server, count / 2..count, CLIENTS).await?;
    let after = server.settled_memory(&bench.plan).await?;
    let follow_ups = measure_follow_up_requests(&server, count).await?;
    empty.stop().await?;

    let mut starts = StartTimes::default();
    for _ in 0..bench.plan.rounds {
        let process = ServerProcess::pintle(&binary, &folder).await?;
        starts.add(&process);
        process.stop().await?;
    }
    let crd_kb = crd(0, 0).to_string().len() as f64 / 1e3;
    let report = &mut bench.report;
    report.section(format!("{count} CRDs of {crd_kb:.0} KB"));
    for (name, durations) in [("sequentially", sequential), ("16 concurrently", concurrent)] {
        let Percentiles { p50, p99, .. } = durations;
        report.row(format!("create until established, {name}: p50"), p50, "ms").at_most(MAX_ESTABLISHED_MS);
        report.row(format!("create until established, {name}: p99"), p99, "ms");
    }
    if let Some((before, after)) = before.zip(after) {
        let each = after.saturating_sub(before) as f64 / count.max(1) as f64 / 1e3;
        let note = format!("{crd_kb:.0} KB are its own bytes, counted twice while it is in the history");
        report.row("memory per CRD", each, "KB").at_most(MAX_KB_PER_CRD + 2.0 * crd_kb).note(note);
    }
    for (name, durations) in follow_ups {
        report.row(name, durations, "ms");
    }
    starts.report("start with all CRDs", without + MAX_EXTRA_START_MS, report);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Creates CRDs, and measures the time until each is established.
async fn create_crds(server: &Server, numbers: std::ops::Range<u64>, clients: usize) -> Result<Percentiles> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let work = |mut connection: Connection| {
        let (next, end) = (next.clone(), numbers.end);
        tokio::spawn(async move {
            let mut durations = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<_, Box<dyn std::error::Error + Send + Sync>>(durations);
                }
                let started = Instant::now();
                create_crd(&mut connection, number, 0).await?;
                durations.push(u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
        })
    };
    let mut tasks = Vec::new();
    for _ in 0..clients {
        tasks.push(work(server.connect().await?));
    }
    let mut durations = Vec::new();
    for task in tasks {
        durations.extend(task.await??);
    }
    durations.sort_unstable();
    Ok(Percentiles::of(&durations))
}

/// Creates a CRD and waits until it is established.
pub(super) async fn create_crd(connection: &mut Connection, number: u64, rules: usize) -> Result<()> {
    let body = crd(number, rules).to_string();
    connection.execute(with_body(Method::POST, CRDS, body), StatusCode::CREATED).await?;
    loop {
        let body = connection.fetch(get(crd_path(number)), StatusCode::OK).await?;
        let found: Value = serde_json::from_slice(&body)?;
        let conditions = found["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(());
        }
        // Polling without a pause would load the server that is measured.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Measures the requests that clients send after a kind was added. Each is measured once after one more CRD was
/// created. Results are in milliseconds.
async fn measure_follow_up_requests(server: &Server, count: u64) -> Result<Vec<(&'static str, f64)>> {
    let mut connection = server.connect().await?;
    let mut found: [Vec<f64>; 3] = Default::default();
    for number in count..count + 5 {
        create_crd(&mut connection, number, 0).await?;
        let requests: [HttpRequest; 3] =
            [get_as("/apis", AGGREGATED), get("/openapi/v3"), get(custom_objects_path(number, "default"))];
        for (times, request) in found.iter_mut().zip(requests) {
            let started = Instant::now();
            connection.execute(request, StatusCode::OK).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    let names =
        ["discovery after one more CRD", "OpenAPI v3 index after one more CRD", "LIST of its kind after one more CRD"];
    Ok(names.into_iter().zip(found.into_iter().map(median)).collect())
}
