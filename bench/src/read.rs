//! Reads: the memory that loaded objects take, gets of one object and lists of many, each in turns with the bare server
//! that sends the same bytes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Method, StatusCode};

use crate::client::plain;
use crate::load::{Round, Script, closed_loop, median, middle};
use crate::process::Process;
use crate::report::Report;
use crate::{Plan, Result, bare, objects};

/// Connections that get.
const GETTERS: usize = 16;
/// Connections that load objects.
const LOADERS: usize = 64;
/// The namespace that is listed.
const NAMESPACE: &str = "bench-list";
/// The namespace that is filled first, for the memory that a server takes once.
const WARM: &str = "bench-warm";
/// What an event of the window takes beside the objects that it shares (as the cache counts it).
const EVENT: f64 = 200.0;
/// What a round begins with that does not count.
const WARM_UP: Duration = Duration::from_millis(200);

/// Loads the objects, then reads them in each way.
pub(crate) async fn measure(
    server: &Process,
    folder: &Path,
    scratch: &Path,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    objects::namespace(server, NAMESPACE).await?;
    let collection = objects::collection(NAMESPACE);
    // What a server needs once, for connections and buffers, is no cost of the objects: it is there before they are.
    objects::namespace(server, WARM).await?;
    load(server, &objects::collection(WARM), plan.listed as u64 / 2).await?;
    let before = settled(server).await?;
    load(server, &collection, plan.listed as u64).await?;
    let after = settled(server).await?;

    let path = format!("{collection}/{}", name(0));
    let mut connection = server.endpoint.connect().await?;
    let object = connection.fetch(plain(Method::GET, path.as_str()), StatusCode::OK).await?;
    let list = connection.fetch(plain(Method::GET, collection.as_str()), StatusCode::OK).await?;
    drop(connection);
    memory(before, after, list.len(), plan, report);

    let (object_file, list_file) = (scratch.join("object.json"), scratch.join("list.json"));
    std::fs::write(&object_file, &object)?;
    std::fs::write(&list_file, &list)?;
    let bare = Process::bare(folder, &object_file, &list_file).await?;

    report.section("get of one object, 16 connections");
    let got = in_turns(&bare, bare::OBJECT, server, &path, GETTERS, plan).await?;
    let note = format!("{} bytes; bare server {:.0}/s", object.len(), got.bare.rate());
    report.row("gets", got.pintle.rate(), "/s").note(note);
    report.row("ratio to the bare server", got.ratio, "").at_least(0.6);
    let note = format!("bare server {:.1} µs; ratio {:.2}", got.bare.micros(), got.bare.micros() / got.pintle.micros());
    report.row("CPU of the server per get", got.pintle.micros(), "µs").note(note);
    latencies(&got.pintle, report);

    report.section("list of 10,000 objects, 1 connection");
    let listed = in_turns(&bare, bare::LIST, server, &collection, 1, plan).await?;
    let note = format!("{:.1} MB each, {:.1} lists/s", list.len() as f64 / 1e6, listed.pintle.rate());
    report.row("identity", listed.pintle.megabytes(), "MB/s").note(note);
    let note = format!("bare server {:.0} MB/s", listed.bare.megabytes());
    report.row("ratio to the bare server", listed.ratio, "").at_least(0.5).note(note);
    let cpu = |round: &Round| round.micros() / 1e3;
    let note = format!("bare server {:.1} ms", cpu(&listed.bare));
    report.row("CPU of the server per list", cpu(&listed.pintle), "ms").note(note);

    let script: Script = Arc::new(move |_, _| {
        let mut request = plain(Method::GET, collection.as_str());
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        Some(request)
    });
    let rounds = rounds(server, 1, plan, &script).await?;
    let zipped = median(rounds, Round::rate);
    let original = list.len() as f64 * zipped.done as f64 / 1e6;
    let note = format!(
        "{:.0} MB/s of time; to {:.0} % of the size",
        original / zipped.elapsed.as_secs_f64(),
        zipped.bytes as f64 / original / 1e4
    );
    report.row("gzip, per second of CPU", original / zipped.cpu.as_secs_f64(), "MB/s").at_least(150.0).note(note);
    bare.stop().await
}

/// The name of a listed object.
fn name(number: u64) -> String {
    format!("listed-{number:06}")
}

async fn load(server: &Process, collection: &str, count: u64) -> Result<()> {
    let collection = collection.to_owned();
    let script: Script = Arc::new(move |worker, sent| {
        let number = sent * LOADERS as u64 + worker as u64;
        (number < count).then(|| objects::create(&collection, &name(number), number))
    });
    closed_loop(server, LOADERS, Duration::from_secs(600), StatusCode::CREATED, &script).await?;
    Ok(())
}

/// The resident memory once what was freed has been given back.
async fn settled(server: &Process) -> Result<u64> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resident()
}

fn memory(before: u64, after: u64, list: usize, plan: &Plan, report: &mut Report) {
    report.section("memory, loaded");
    let (json, count) = (list as f64, plan.listed as f64);
    let added = after.saturating_sub(before) as f64;
    // The objects, and the events by which they came: those stay for as long as the window reaches back to them.
    let budget = (json * 1.5 + count * 400.0 + count * EVENT) / 1e6;
    let note = format!("{:.2}x their JSON; {:.0} bytes each beside it", added / json, (added - json) / count);
    report.row(format!("added by {} objects", plan.listed), added / 1e6, "MB").at_most(budget).note(note);
}

pub(crate) fn latencies(round: &Round, report: &mut Report) {
    let note = format!("p50 {:.2} ms", round.quantile(0.5));
    report.row("p99", round.quantile(0.99), "ms").note(note);
}

/// The two servers, measured in turns.
struct Turns {
    bare: Round,
    pintle: Round,
    /// The median of the turns' ratios of rates.
    ratio: f64,
}

async fn in_turns(
    bare: &Process,
    bare_path: &'static str,
    server: &Process,
    path: &str,
    connections: usize,
    plan: &Plan,
) -> Result<Turns> {
    let path = path.to_owned();
    let ceiling: Script = Arc::new(move |_, _| Some(plain(Method::GET, bare_path)));
    let script: Script = Arc::new(move |_, _| Some(plain(Method::GET, path.as_str())));
    let (mut bares, mut pintles, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let one = warm(bare, connections, plan, &ceiling).await?;
        let other = warm(server, connections, plan, &script).await?;
        ratios.push(other.rate() / one.rate());
        bares.push(one);
        pintles.push(other);
    }
    Ok(Turns { bare: median(bares, Round::rate), pintle: median(pintles, Round::rate), ratio: middle(ratios) })
}

async fn rounds(server: &Process, connections: usize, plan: &Plan, script: &Script) -> Result<Vec<Round>> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(warm(server, connections, plan, script).await?);
    }
    Ok(rounds)
}

async fn warm(server: &Process, connections: usize, plan: &Plan, script: &Script) -> Result<Round> {
    closed_loop(server, connections, WARM_UP, StatusCode::OK, script).await?;
    closed_loop(server, connections, plan.time, StatusCode::OK, script).await
}
