//! A server over an etcd that syncs its log. The CPU time is the API server's alone. etcd's own CPU time is a row
//! beside it, and is the same for both servers. The Go API server is measured over its own etcd with the same requests.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pintle_etcd_process::{EtcdProcess, EtcdSettings};
use pintle_store::{Change, EtcdOptions, EtcdStore, Key, KeyInterval, Store};

use super::create::create_workload;
use super::fanout::{Case, PACED, fan_out};
use super::megabytes;
use super::start::StartTimes;
use super::update::UPDATES;
use super::update_cases::{CLIENTS, OBJECTS_PER_CLIENT, measure, nth_name};
use crate::Result;
use crate::client::{Protocol, get};
use crate::comparison::{Concurrency, measure_rounds};
use crate::load::{Load, Percentiles, median, median_round};
use crate::objects::{config_map, config_maps_path, create, fill};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{ProcessMeter, Server, ServerProcess};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "etcd",
    description: "a server over an etcd: writes, reads, watchers, and the start with many stored objects",
    requires_binary: true,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of writers that fill an etcd.
const WRITERS: usize = 256;
/// The name of the object that is copied to fill an etcd. The names of the copies have the same length.
const SEED: &str = "seed-0000000";
/// The maximum CPU time of the server for a write, in microseconds.
const WRITE_BUDGET: f64 = 60.0;
/// The maximum ratio of the CPU time of a consistent list over etcd to its CPU time over the embedded store.
const LIST_BUDGET: f64 = 1.3;
/// The maximum time until the last of 1,000 watchers has an event, in milliseconds.
const DELIVERY_BUDGET: f64 = 30.0;
/// The maximum time until a server over an etcd with 300,000 objects is ready, in milliseconds.
const START_BUDGET: f64 = 6000.0;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let etcd = start_etcd()?;
    bench.report.section(format!("over etcd, {CLIENTS} clients; CPU time without etcd's"));
    measure_writes(bench, &etcd).await?;
    // Each server has new keys, and an etcd that was served with other keys is refused.
    let read = measure_reads(bench, Some(&start_etcd()?)).await?;
    if bench.is_on_go_api_server() {
        return Ok(());
    }
    let embedded = measure_reads(bench, None).await?;
    let ratio = read.list / embedded.list.max(f64::MIN_POSITIVE);
    bench.report.row("LIST of 10,000: CPU, ratio to the embedded store", ratio, "").at_most(LIST_BUDGET);
    let note = format!("{:.1} µs over etcd, {:.1} µs over the embedded store", read.get, embedded.get);
    bench.report.row("GET: CPU, ratio to the embedded store", read.get / embedded.get.max(0.1), "").note(note);
    measure_start(bench).await
}

/// Starts an empty etcd on the measured disk.
pub(super) fn start_etcd() -> Result<EtcdProcess> {
    let settings = EtcdSettings { syncs: true, quota: 8 << 30, ..EtcdSettings::default() };
    Ok(std::thread::spawn(move || EtcdProcess::with_settings(&settings)).join().map_err(|_| "etcd does not start")?)
}

fn meter_of(etcd: &EtcdProcess) -> ProcessMeter {
    ProcessMeter::new(u32::try_from(etcd.pid().as_raw_nonzero().get()).into_iter().collect())
}

async fn measure_writes(bench: &mut ScenarioContext, etcd: &EtcdProcess) -> Result<()> {
    let mut target = bench.target_over(Some(&etcd.url())).await?;
    let namespace = target.namespace("etcd-writes").await?;
    let etcd_meter = meter_of(etcd);
    let (mut rounds, mut etcd_micros) = (Vec::new(), Vec::new());
    for number in 0..bench.plan.rounds {
        let workload = create_workload(&namespace, format!("e-{number}"));
        let load = Load::closed(CLIENTS, bench.plan.duration).expect_status(StatusCode::CREATED);
        let before = etcd_meter.cpu_time()?;
        let round = load.run(&target.server, &workload).await?;
        let cpu = etcd_meter.cpu_time_since(before)?.unwrap_or_default();
        etcd_micros.push(cpu.as_secs_f64() * 1e6 / round.completed.max(1) as f64);
        rounds.push(round);
    }
    let round = median_round(rounds);
    let report = &mut bench.report;
    report.row("creates", round.rate(), "/s").round(&round).cheaper_than_go(10.0);
    report.row_if_known("creates: CPU of the server", round.cpu_micros(), "µs", |row| row.at_most(WRITE_BUDGET));
    report.row("creates: CPU of etcd", median(etcd_micros), "µs");

    let collection = config_maps_path(&target.namespace("etcd-updates").await?);
    let count = CLIENTS as u64 * OBJECTS_PER_CLIENT;
    fill(&target.server, &collection, count, |number| config_map(&nth_name(number), number)).await?;
    measure(bench, &target.server, &collection, &UPDATES).await?;

    let case = Case {
        name: "1,000 watchers",
        watchers: bench.plan.watches.min(1000),
        creates_per_second: Some(10.0),
        ..PACED
    };
    let round = fan_out(&mut target, &case, bench.plan.open_loop_duration, &bench.plan, "etcd-watch").await?;
    let mut latencies = round.latencies;
    latencies.sort_unstable();
    let percentiles = Percentiles::of(&latencies);
    let row = bench.report.row("1,000 watchers, 10 writes/s: delivery to the last watcher, p99", percentiles.p99, "ms");
    row.scheduled_latencies(percentiles).at_most(DELIVERY_BUDGET);
    target.tear_down().await
}

/// The CPU time of reads, in microseconds.
struct ReadCost {
    get: f64,
    list: f64,
}

/// Measures reads over an etcd, or over the embedded store. Only the reads over etcd are reported.
async fn measure_reads(bench: &mut ScenarioContext, etcd: Option<&EtcdProcess>) -> Result<ReadCost> {
    let mut target = bench.target_over(etcd.map(EtcdProcess::url).as_deref()).await?;
    let collection = config_maps_path(&target.namespace("etcd-reads").await?);
    let count = bench.plan.listed_objects;
    fill(&target.server, &collection, count, |number| config_map(&format!("listed-{number:06}"), number)).await?;
    let mut cost = ReadCost { get: 0.0, list: 0.0 };
    let object = format!("{collection}/listed-000001");
    for (name, clients, path, sum) in
        [("GET", CLIENTS, object, &mut cost.get), ("LIST of 10,000, 1 client", 1, collection, &mut cost.list)]
    {
        let concurrency = Concurrency { clients, protocol: Protocol::Http1 };
        let round = measure_rounds(&target.server, move || get(path.as_str()), concurrency, &bench.plan).await?;
        *sum = round.cpu_micros().unwrap_or_default();
        if etcd.is_some() {
            bench.report.row(name, round.rate(), "/s").round(&round).cheaper_than_go(10.0);
        }
    }
    target.tear_down().await?;
    Ok(cost)
}

/// Measures the start over an etcd with many objects.
async fn measure_start(bench: &mut ScenarioContext) -> Result<()> {
    let (etcd, count) = (start_etcd()?, bench.plan.stored_objects);
    let (binary, folder) = (bench.binary()?, bench.scratch().join("replica"));
    let process = ServerProcess::pintle_over(&binary, &folder, &etcd.url()).await?;
    let seed = create(config_maps_path("default"), config_map(SEED, 1));
    process.server.connect().await?.execute(seed, StatusCode::CREATED).await?;
    process.stop().await?;
    let compacted = fill_etcd(&etcd.url(), count).await?;
    // The start must not read the history of the fill.
    let _ = etcd.call("kv/compaction", &serde_json::json!({"revision": compacted.to_string()}));
    let (mut times, mut memory) = (StartTimes::default(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let process = ServerProcess::pintle_over(&binary, &folder, &etcd.url()).await?;
        times.add(&process);
        let server: &Server = &process.server;
        memory.extend(server.settled_memory(&bench.plan).await?.map(megabytes));
        process.stop().await?;
    }
    let name = format!("start over etcd with {} objects", thousands(count as f64));
    times.report(&name, START_BUDGET * count as f64 / 300_000.0, &mut bench.report);
    bench.report.row(format!("{name}: memory of the server"), median(memory), "MB");
    Ok(())
}

/// Copies the seed object in its stored form until etcd has `count` objects, and returns the last revision.
async fn fill_etcd(url: &str, count: usize) -> Result<u64> {
    let store = Arc::new(EtcdStore::open(EtcdOptions { servers: vec![url.to_owned()], ..EtcdOptions::default() })?);
    let records = store.range(KeyInterval::prefix("/registry/configmaps/default/"), None, None).await?.records;
    let seed = records.into_iter().find(|record| record.key.ends_with(SEED)).ok_or("etcd has no seed object")?;
    let name_at = positions(&seed.value, SEED.as_bytes());
    let (seed_key, value) = (seed.key, seed.value);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, value, key, name_at) = (store.clone(), value.clone(), seed_key.clone(), name_at.clone());
            tokio::spawn(async move {
                for number in (writer + 1..count).step_by(WRITERS) {
                    let name = format!("seed-{number:07}");
                    let mut copy = value.to_vec();
                    for at in &name_at {
                        copy[*at..*at + name.len()].copy_from_slice(name.as_bytes());
                    }
                    store.commit(Change::create(Key::from(key.replace(SEED, &name)), Bytes::from(copy))).await?;
                }
                Ok::<_, pintle_store::Error>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    let last = store.current_revision().await?;
    store.close().await?;
    Ok(last.get())
}

/// The offsets at which a text occurs.
fn positions(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text).map(|(at, _)| at).collect()
}
