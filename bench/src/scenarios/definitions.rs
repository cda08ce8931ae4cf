//! Many definitions: how long each takes until its kind is served, what it weighs, what clients ask next, and a start
//! with all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::Value;

use super::start::Times;
use crate::Result;
use crate::client::{Connection, Outgoing, accepting, get, with_body};
use crate::load::{Percentiles, middle};
use crate::objects::definition::{DEFINITIONS, definition, definition_path, things};
use crate::scenario::{Bench, Scenario};
use crate::target::{Process, Server};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "definitions",
    does: "many CustomResourceDefinitions: until each is served, their memory, discovery, a start with them",
    starts_servers: true,
    run: |bench| Box::pin(run(bench)),
};

/// Connections that define at once.
const CLIENTS: usize = 16;
/// How long a definition may take until its kind is served, in milliseconds.
const LIMIT: f64 = 50.0;
/// How long is waited before asking again whether a definition is established.
const PAUSE: Duration = Duration::from_millis(2);
/// What a definition may weigh beside its own bytes, in kilobytes.
const WEIGHT: f64 = 40.0;
/// How much longer a start may take with all of them, in milliseconds.
const START: f64 = 100.0;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn run(bench: &mut Bench) -> Result<()> {
    let (binary, folder, count) = (bench.binary()?, bench.scratch().join("definitions"), bench.plan.definitions);
    // The first start makes certificates.
    Process::pintle(&binary, &folder).await?.stop().await?;
    let empty = Process::pintle(&binary, &folder).await?;
    let without = empty.until_line.as_secs_f64() * 1e3;
    let server = empty.server.clone();
    let before = server.settled(&bench.plan).await?;

    let alone = define(&server, 0..count / 2, 1).await?;
    let together = define(&server, count / 2..count, CLIENTS).await?;
    let after = server.settled(&bench.plan).await?;
    let asked = ask(&server, count).await?;
    empty.stop().await?;

    let mut starts = Times::default();
    for _ in 0..bench.plan.rounds {
        let process = Process::pintle(&binary, &folder).await?;
        starts.add(&process);
        process.stop().await?;
    }
    let own = definition(0, 0).to_string().len() as f64 / 1e3;
    let report = &mut bench.report;
    report.section(format!("{count} definitions of {own:.0} KB"));
    for (name, took) in [("one after the other", alone), ("16 at once", together)] {
        let Percentiles { p50, p99, .. } = took;
        report.row(format!("created until established, {name}: p50"), p50, "ms").at_most(LIMIT);
        report.row(format!("created until established, {name}: p99"), p99, "ms");
    }
    if let Some((before, after)) = before.zip(after) {
        let each = after.saturating_sub(before) as f64 / count.max(1) as f64 / 1e3;
        let note = format!("{own:.0} KB are its own bytes, twice while its history is kept");
        report.row("memory of each", each, "KB").at_most(WEIGHT + 2.0 * own).note(note);
    }
    for (name, took) in asked {
        report.row(name, took, "ms");
    }
    starts.report("start with all of them", without + START, report);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Creates definitions, and says how long each took until it was established.
async fn define(server: &Server, numbers: std::ops::Range<u64>, clients: usize) -> Result<Percentiles> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let work = |mut connection: Connection| {
        let (next, end) = (next.clone(), numbers.end);
        tokio::spawn(async move {
            let mut took = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<_, Box<dyn std::error::Error + Send + Sync>>(took);
                }
                let started = Instant::now();
                make(&mut connection, number, 0).await?;
                took.push(u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
        })
    };
    let mut tasks = Vec::new();
    for _ in 0..clients {
        tasks.push(work(server.connect().await?));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await??);
    }
    took.sort_unstable();
    Ok(Percentiles::of(&took))
}

/// Creates a definition and waits until it is established.
pub(super) async fn make(connection: &mut Connection, number: u64, rules: usize) -> Result<()> {
    let body = definition(number, rules).to_string();
    connection.exchange(with_body(Method::POST, DEFINITIONS, body), StatusCode::CREATED).await?;
    loop {
        let body = connection.fetch(get(definition_path(number)), StatusCode::OK).await?;
        let found: Value = serde_json::from_slice(&body)?;
        let conditions = found["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(());
        }
        // Whoever asks all the time measures itself.
        tokio::time::sleep(PAUSE).await;
    }
}

/// What clients ask after a kind has appeared: each once right after one more definition, in milliseconds.
async fn ask(server: &Server, count: u64) -> Result<Vec<(&'static str, f64)>> {
    let mut connection = server.connect().await?;
    let mut found: [Vec<f64>; 3] = Default::default();
    for number in count..count + 5 {
        make(&mut connection, number, 0).await?;
        let requests: [Outgoing; 3] =
            [accepting("/apis", AGGREGATED), get("/openapi/v3"), get(things(number, "default"))];
        for (times, request) in found.iter_mut().zip(requests) {
            let started = Instant::now();
            connection.exchange(request, StatusCode::OK).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    let names = ["discovery right after one more", "the index of OpenAPI after that", "a list of its kind after that"];
    Ok(names.into_iter().zip(found.into_iter().map(middle)).collect())
}
