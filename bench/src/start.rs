//! How long a start takes, until the server says where it is and until a client has its first answer over TLS: on an
//! empty folder, on one that has been used, and on one with many objects. And what an idle server weighs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use pintle_store::{Change, Embedded, Options, Span, Store};

use crate::load::middle;
use crate::process::Process;
use crate::report::Report;
use crate::{Plan, Result, objects};

/// How long an idle server is left alone before it is weighed.
const IDLE: Duration = Duration::from_secs(2);
/// The object that is copied to fill a store. Copies have names of the same length.
const SEED: &str = "seed-0000000";
/// Writers that fill a store.
const WRITERS: usize = 256;

/// Times of one kind of start, in milliseconds.
#[derive(Default)]
struct Times {
    line: Vec<f64>,
    answer: Vec<f64>,
}

impl Times {
    fn add(&mut self, server: &Process) {
        self.line.push(server.until_line.as_secs_f64() * 1e3);
        self.answer.push(server.until_answer.as_secs_f64() * 1e3);
    }

    fn report(self, name: &str, limit: f64, report: &mut Report) {
        let ready = middle(self.line);
        let note = format!("first answer over TLS after {:.1} ms", middle(self.answer));
        report.row(name, ready, "ms").at_most(limit).note(note);
    }
}

/// Starts on an empty folder, which makes certificates, and again on the same.
pub(crate) async fn empty(pintle: &Path, scratch: &Path, plan: &Plan, report: &mut Report) -> Result<()> {
    report.section("start to ready");
    let (mut first, mut second, mut idle) = (Times::default(), Times::default(), Vec::new());
    for round in 0..plan.starts {
        let folder = scratch.join(format!("start-{round}"));
        let server = Process::pintle(pintle, &folder).await?;
        first.add(&server);
        server.stop().await?;
        let server = Process::pintle(pintle, &folder).await?;
        second.add(&server);
        if round < plan.rounds {
            tokio::time::sleep(IDLE).await;
            idle.push(server.resident()? as f64 / 1e6);
        }
        server.stop().await?;
    }
    first.report("empty folder, first start (makes certificates)", 100.0, report);
    second.report("empty store, second start", 100.0, report);
    report.section("memory, idle");
    report.row("resident, 2 s after the start", middle(idle), "MB").at_most(30.0);
    Ok(())
}

/// Starts on a store with many objects.
pub(crate) async fn full(pintle: &Path, scratch: &Path, plan: &Plan, report: &mut Report) -> Result<()> {
    let folder = scratch.join("full");
    let server = Process::pintle(pintle, &folder).await?;
    let seed = objects::create(&objects::collection("default"), SEED, 1);
    server.endpoint.connect().await?.exchange(seed, StatusCode::CREATED).await?;
    server.stop().await?;
    let bytes = fill(&folder, plan.stored).await?;

    let mut times = Times::default();
    let mut weights = Vec::new();
    for _ in 0..plan.rounds {
        let server = Process::pintle(pintle, &folder).await?;
        times.add(&server);
        weights.push(server.resident()? as f64);
        server.stop().await?;
    }
    report.section("start to ready");
    let limit = 2000.0 * plan.stored as f64 / 100_000.0;
    times.report(&format!("{} objects of {} bytes stored", plan.stored, bytes / plan.stored as u64), limit, report);
    report.section("memory, idle");
    let note = format!("{:.2}x the JSON bytes", middle(weights.clone()) / bytes as f64);
    report.row(format!("resident, {} objects stored", plan.stored), middle(weights) / 1e6, "MB").note(note);
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
                    let value = value.replace(SEED, &name).replace(&*uid, &format!("{number:08x}-{:03x}", writer));
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
