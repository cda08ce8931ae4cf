//! A start on a store that holds many objects: how long until the server is ready, and what it weighs then.

use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use pintle_store::{Change, Embedded, Options, Span, Store};

use super::megabytes;
use super::start::Times;
use crate::Result;
use crate::load::middle;
use crate::objects::{config_map, config_maps, create};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::Process;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "stored",
    does: "start to ready on a store with many objects, and the memory they take",
    starts_servers: true,
    run: |bench| Box::pin(run(bench)),
};

/// The object that is copied to fill a store. Copies have names of the same length.
const SEED: &str = "seed-0000000";
/// Writers that fill a store.
const WRITERS: usize = 256;
/// What an object may take beside one and a half times its JSON, in bytes.
const OVERHEAD: f64 = 400.0;
/// What the window of history may take, in bytes: what the server has it take if it is not told otherwise.
const WINDOW: f64 = (256 << 20) as f64;

async fn run(bench: &mut Bench) -> Result<()> {
    let (binary, folder, count) = (bench.binary()?, bench.scratch().join("full"), bench.plan.stored);
    let process = Process::pintle(&binary, &folder).await?;
    let seed = create(config_maps("default"), config_map(SEED, 1));
    process.server.connect().await?.exchange(seed, StatusCode::CREATED).await?;
    process.stop().await?;
    let bytes = fill(&folder, count).await? as f64;

    let (mut times, mut weights, mut peaks) = (Times::default(), Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let process = Process::pintle(&binary, &folder).await?;
        times.add(&process);
        weights.extend(process.server.settled(&bench.plan).await?.map(megabytes));
        peaks.extend(process.server.meter.peak()?.map(megabytes));
        process.stop().await?;
    }
    let report = &mut bench.report;
    report.section("start to ready");
    let name = format!("{} objects of {:.0} bytes stored", thousands(count as f64), bytes / count as f64);
    times.report(&name, 5000.0 * count as f64 / 300_000.0, report);
    report.section("memory");
    let weight = middle(weights);
    let note = format!("{:.2}x the JSON bytes; while starting {:.0} MB", weight * 1e6 / bytes, middle(peaks));
    let limit = (bytes * 1.5 + count as f64 * OVERHEAD + WINDOW.min(bytes)) / 1e6;
    report
        .row(format!("{} objects stored, after the start", thousands(count as f64)), weight, "MB")
        .at_most(limit)
        .note(note);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Copies the seed until the store holds `count`, and says how many bytes they are.
async fn fill(folder: &Path, count: usize) -> Result<u64> {
    let store = Arc::new(Embedded::open(folder, Options::default())?);
    let records = store.range(Span::all(), None, None).await?.records;
    let seed = records.into_iter().find(|record| record.key.ends_with(SEED)).ok_or("the store has no seed")?;
    let value = Arc::new(String::from_utf8(seed.value.to_vec())?);
    let uid = value.split_once(r#""uid":""#).and_then(|(_, rest)| rest.get(..12)).ok_or("the seed has no uid")?;
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
