//! Durable writes, each answered when it is synced: creates by one, by some and by many connections beside the disk's
//! own rate, then updates, patches and deletes.

use std::path::Path;
use std::sync::Arc;

use http::{Method, StatusCode};

use crate::client::{plain, with_body};
use crate::load::{Round, Script, closed_loop, median, middle};
use crate::process::Process;
use crate::report::Report;
use crate::{Plan, Result, machine, objects};

/// Connections that create.
const WRITERS: [usize; 3] = [1, 16, 64];
/// Connections of the other writes.
const CONNECTIONS: usize = 16;
/// Objects of each connection that are changed in turn.
const OWN: u64 = 16;
/// The namespace that is written to.
const NAMESPACE: &str = "bench-write";

/// Writes in every way.
pub(crate) async fn measure(server: &Process, scratch: &Path, plan: &Plan, report: &mut Report) -> Result<()> {
    objects::namespace(server, NAMESPACE).await?;
    creates(server, scratch, plan, report).await?;
    changes(server, plan, report).await
}

async fn creates(server: &Process, scratch: &Path, plan: &Plan, report: &mut Report) -> Result<()> {
    let mut disks = Vec::new();
    let mut rounds: [Vec<Round>; WRITERS.len()] = Default::default();
    let mut ratios: [Vec<f64>; WRITERS.len()] = Default::default();
    for number in 0..plan.rounds {
        let disk = machine::disk(scratch, plan.time / 2)?;
        disks.push(disk);
        for (at, connections) in WRITERS.into_iter().enumerate() {
            let script = create_script(format!("c{connections}-{number}"));
            let round = closed_loop(server, connections, plan.time, StatusCode::CREATED, &script).await?;
            ratios[at].push(round.rate() / disk.rate);
            rounds[at].push(round);
        }
    }
    report.section("durable creates of 1 KiB ConfigMaps");
    let p99 = middle(disks.iter().map(|disk| disk.p99).collect());
    let rate = middle(disks.iter().map(|disk| disk.rate).collect());
    let note = format!("p99 {p99:.2} ms");
    report.row("the disk: 4 KiB appended and synced, one after the other", rate, "/s").note(note);
    for ((connections, rounds), ratios) in WRITERS.into_iter().zip(rounds).zip(ratios) {
        let round = median(rounds, Round::rate);
        describe(&format!("{connections} connections: creates"), &round, report);
        let row = report.row(format!("{connections} connections: ratio to the disk"), middle(ratios), "");
        // Beyond one sync per write: that is what sharing them is for.
        if connections == 64 {
            row.at_least(1.0);
        }
    }
    Ok(())
}

/// Creates ever new objects.
fn create_script(prefix: String) -> Script {
    let collection = objects::collection(NAMESPACE);
    Arc::new(move |worker, sent| Some(objects::create(&collection, &format!("{prefix}-{worker}-{sent}"), sent)))
}

/// One kind of change: its name, and the request for an object's path and a number that never comes twice.
type Change = (&'static str, fn(String, u64) -> crate::client::Outgoing);

const CHANGES: [Change; 3] = [
    ("updates (PUT)", |path, number| {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        with_body(Method::PUT, path, objects::config_map(&name, number))
    }),
    ("merge patches", |path, number| {
        objects::patch(path, "application/merge-patch+json", format!(r#"{{"data":{{"changed":"{number}"}}}}"#))
    }),
    ("strategic merge patches", |path, number| {
        let body = format!(r#"{{"data":{{"changed":"s{number}"}}}}"#);
        objects::patch(path, "application/strategic-merge-patch+json", body)
    }),
];

async fn changes(server: &Process, plan: &Plan, report: &mut Report) -> Result<()> {
    report.section("other durable writes, 16 connections");
    own(server, "own", OWN).await?;
    for (name, request) in CHANGES {
        let mut rounds = Vec::new();
        for number in 0..plan.rounds as u64 {
            let script: Script = Arc::new(move |worker, sent| {
                let path = format!("{}/own-{worker}-{}", objects::collection(NAMESPACE), sent % OWN);
                Some(request(path, (number << 32) + sent + 1))
            });
            rounds.push(closed_loop(server, CONNECTIONS, plan.time, StatusCode::OK, &script).await?);
        }
        describe(name, &median(rounds, Round::rate), report);
    }
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        own(server, "gone", plan.deletes).await?;
        let count = plan.deletes;
        let script: Script = Arc::new(move |worker, sent| {
            let path = format!("{}/gone-{worker}-{sent}", objects::collection(NAMESPACE));
            (sent < count).then(|| plain(Method::DELETE, path))
        });
        rounds.push(closed_loop(server, CONNECTIONS, plan.time * 30, StatusCode::OK, &script).await?);
    }
    describe("deletes", &median(rounds, Round::rate), report);
    Ok(())
}

/// Creates objects for each connection to change.
async fn own(server: &Process, prefix: &'static str, count: u64) -> Result<()> {
    let collection = objects::collection(NAMESPACE);
    let script: Script = Arc::new(move |worker, sent| {
        (sent < count).then(|| objects::create(&collection, &format!("{prefix}-{worker}-{sent}"), sent))
    });
    closed_loop(server, CONNECTIONS, std::time::Duration::from_secs(600), StatusCode::CREATED, &script).await?;
    Ok(())
}

fn describe(name: &str, round: &Round, report: &mut Report) {
    let note = format!(
        "{:.0} µs of CPU each, p50 {:.2} ms, p99 {:.2} ms",
        round.micros(),
        round.quantile(0.5),
        round.quantile(0.99)
    );
    report.row(name, round.rate(), "/s").note(note);
}
