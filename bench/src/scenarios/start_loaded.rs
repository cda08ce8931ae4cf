//! A start with a store that contains many objects: the time until the server is ready, and its memory afterwards.

use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, KeyInterval, Store};

use super::megabytes;
use super::start::StartTimes;
use crate::Result;
use crate::load::median;
use crate::objects::{config_map, config_maps_path, create};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::ServerProcess;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "start-loaded",
    description: "start time and memory with many stored objects",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The name of the object that is copied to fill a store. The names of the copies have the same length.
const SEED: &str = "seed-0000000";
/// The number of concurrent writers that fill a store.
const WRITERS: usize = 256;
/// The memory budget per object in addition to one and a half times its JSON, in bytes.
const OVERHEAD_PER_OBJECT: f64 = 400.0;
/// The server's default limit of the watch history, in bytes.
const HISTORY_LIMIT: f64 = (256 << 20) as f64;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (binary, folder, count) = (bench.binary()?, bench.scratch().join("full"), bench.plan.stored_objects);
    let process = ServerProcess::pintle(&binary, &folder).await?;
    let seed = create(config_maps_path("default"), config_map(SEED, 1));
    process.server.connect().await?.execute(seed, StatusCode::CREATED).await?;
    process.stop().await?;
    let bytes = fill(&folder, count).await? as f64;

    let (mut start_times, mut memory_samples, mut peaks) = (StartTimes::default(), Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let process = ServerProcess::pintle(&binary, &folder).await?;
        start_times.add(&process);
        memory_samples.extend(process.server.settled_memory(&bench.plan).await?.map(megabytes));
        peaks.extend(process.server.meter.peak_resident_bytes()?.map(megabytes));
        process.stop().await?;
    }
    let report = &mut bench.report;
    report.section("start to ready");
    let name = format!("{} objects of {:.0} bytes stored", thousands(count as f64), bytes / count as f64);
    start_times.report(&name, 5000.0 * count as f64 / 300_000.0, report);
    report.section("memory");
    let memory = median(memory_samples);
    let note = format!("{:.2}x the JSON bytes; peak during the start {:.0} MB", memory * 1e6 / bytes, median(peaks));
    let limit = (bytes * 1.5 + count as f64 * OVERHEAD_PER_OBJECT + HISTORY_LIMIT.min(bytes)) / 1e6;
    report
        .row(format!("{} stored objects, after the start", thousands(count as f64)), memory, "MB")
        .at_most(limit)
        .note(note);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Copies the seed object until the store contains `count` objects, and returns the total bytes of their values.
async fn fill(folder: &Path, count: usize) -> Result<u64> {
    let store = Arc::new(EmbeddedStore::open(folder, EmbeddedOptions::default())?);
    let records = store.range(KeyInterval::all(), None, None).await?.records;
    let seed = records.into_iter().find(|record| record.key.ends_with(SEED)).ok_or("the store has no seed object")?;
    let value = Arc::new(String::from_utf8(seed.value.to_vec())?);
    let uid =
        value.split_once(r#""uid":""#).and_then(|(_, rest)| rest.get(..12)).ok_or("the seed object has no uid")?;
    let uid: Arc<str> = uid.into();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, value, key, uid) = (store.clone(), value.clone(), seed.key.clone(), uid.clone());
            tokio::spawn(async move {
                for number in (writer + 1..count).step_by(WRITERS) {
                    let name = format!("seed-{number:07}");
                    let value = value.replace(SEED, &name).replace(&*uid, &format!("{number:08x}-{writer:03x}"));
                    store.commit(Change::create(key.replace(SEED, &name), value)).await?;
                }
                Ok::<_, pintle_store::Error>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    store.close().await?;
    Ok(value.len() as u64 * count as u64)
}
