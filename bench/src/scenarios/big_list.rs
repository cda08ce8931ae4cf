//! Lists of very many pods: how long they take beside writing their bytes, what memory they need beside the objects, and
//! what they do to those who ask for little at the same time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::{PROTOBUF, TABLE, megabytes};
use crate::Result;
use crate::bare;
use crate::client::{Outgoing, Protocol, accepting, get};
use crate::load::{Load, Percentiles, Round, Script};
use crate::objects::{fill, pod, pods};
use crate::peer::{self, Peer};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::Server;
use crate::turns::{Asking, bare_server, in_turns};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "big-list",
    does: "lists of 100,000 pods of 2 KiB: time, memory, and small requests beside fifty of them",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// One client, which takes all that the server and the machine give.
const ALONE: Asking = Asking { clients: 1, protocol: Protocol::Http1 };
/// Lists that are under way at once when memory is weighed.
const IN_FLIGHT: [usize; 2] = [1, 10];
/// Lists that are under way while small requests are timed.
const STORM: usize = 50;
/// Small requests: how many per second, by how many clients.
const SMALL_RATE: f64 = 200.0;
const SMALL_CLIENTS: usize = 16;
/// How long the lists are under way before small requests begin.
const LEAD: Duration = Duration::from_secs(1);
/// What may be kept of encodings: the server's own bound of 64 MiB, and what the allocator adds.
const KEPT: f64 = 80.0;
/// Objects in the lists that the peer was measured with.
const PEER_OBJECTS: f64 = 10_000.0;

/// A form in which the list is asked for: its name, the media type, how many times the time of writing the JSON it may
/// take, and what the peer takes for 10,000.
type Form = (&'static str, Option<&'static str>, Option<f64>, Option<Peer>);

const FORMS: [Form; 3] = [
    ("JSON", None, Some(2.0), Some(peer::LIST)),
    ("table", Some(TABLE), Some(6.0), None),
    ("Protobuf", Some(PROTOBUF), None, Some(peer::LIST_PROTOBUF)),
];

async fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.plan.pods;
    let mut target = bench.target().await?;
    let collection = pods(&target.namespace("pods").await?);
    let make = |number| pod(&format!("pod-{number:06}"), &format!("node-{}", number % 1000), number);
    fill(&target.server, &collection, count, make).await?;
    memory(bench, &target.server, &collection).await?;

    let list = target.server.connect().await?.fetch(get(collection.as_str()), StatusCode::OK).await?;
    let bare = bare_server(bench.scratch(), &Bytes::new(), &list).await?;
    let size = list.len() as u64;
    drop(list);
    let section = format!(
        "list of {} pods ({:.0} MB of JSON, {} bytes each)",
        thousands(count as f64),
        megabytes(size),
        size / count
    );
    bench.report.section(section);
    for (name, form, limit, peer) in FORMS {
        let ask = asking_for(&collection, form);
        let listed = in_turns((&bare, bare::LIST), &target.server, ask, ALONE, &bench.plan).await?;
        let Round { bytes, done, .. } = listed.server;
        let note = format!(
            "{:.0} MB; bare server {:.0} ms for the JSON",
            megabytes(bytes) / done.max(1) as f64,
            listed.bare.seconds() * 1e3
        );
        // For as many as the peer was measured with.
        let cpu = listed.server.micros().map(|cpu| cpu * PEER_OBJECTS / count as f64);
        bench.report.row(format!("{name}: time"), listed.server.seconds() * 1e3, "ms").note(note);
        let row = bench.report.row(format!("{name}: CPU per 10,000 pods"), cpu.unwrap_or_default() / 1e3, "ms");
        let row = row.cpu(cpu);
        if let Some(peer) = peer {
            row.peer(peer).note("the peer's are of 1 KiB");
        }
        let row = bench.report.row(format!("{name}: time beside writing the JSON"), 1.0 / listed.ratio, "");
        if let Some(limit) = limit {
            row.at_most(limit);
        }
    }
    // What the machine and the runtime make of it, before the server adds its own.
    let ceiling = storm(&bare.server, (bare::OBJECT.to_owned(), bare::LIST.to_owned()), bench.plan.open).await?;
    let small = (format!("{collection}/pod-000000"), collection.clone());
    let found = storm(&target.server, small, bench.plan.open).await?;
    bench.report.section(format!("small requests ({SMALL_RATE}/s, open loop) beside {STORM} such lists"));
    let note = format!(
        "alone {:.2} ms; the lists {:.0} MB/s; bare server {:.0} ms, {:.0} MB/s",
        found.alone.p99, found.megabytes, ceiling.beside.p99, ceiling.megabytes
    );
    bench.report.row("gets, p99", found.beside.p99, "ms").since_due(found.beside).at_most(50.0).note(note);
    let limit = 10.0 * STORM as f64;
    bench.report.row_if(format!("memory for {STORM} lists at once"), found.extra, "MB", |row| row.at_most(limit));
    bare.stop().await?;
    target.finish().await
}

/// Makes requests for the list in a form.
fn asking_for(collection: &str, form: Option<&'static str>) -> impl Fn() -> Outgoing + Send + Sync + 'static {
    let path = collection.to_owned();
    move || form.map_or_else(|| get(path.as_str()), |form| accepting(path.as_str(), form))
}

/// The memory that lists need beside the objects, by the peak while they are under way.
async fn memory(bench: &mut Bench, server: &Server, collection: &str) -> Result<()> {
    bench.report.section("memory");
    for (name, form, ..) in FORMS {
        if form == Some(PROTOBUF) {
            // What is kept of it is bounded, and not the request's.
            let Some(before) = server.settled(&bench.plan).await? else { return Ok(()) };
            let cpu = server.meter.cpu()?;
            server.connect().await?.fetch(asking_for(collection, form)(), StatusCode::OK).await?;
            let cpu = server.meter.cpu_since(cpu)?.map(|cpu| cpu.as_secs_f64() * 1e3);
            let kept = server.settled(&bench.plan).await?.unwrap_or_default().saturating_sub(before);
            bench.report.row("what is kept of Protobuf", megabytes(kept), "MB").at_most(KEPT);
            bench.report.row_if("the first list in Protobuf, CPU", cpu, "ms", |row| row);
        }
        for clients in IN_FLIGHT {
            // Once: what the first takes from the system, the next may find there.
            let Some(before) = server.settled(&bench.plan).await? else { return Ok(()) };
            server.meter.forget_peak()?;
            let request = asking_for(collection, form);
            let script: Script = Arc::new(move |_, sent| (sent == 0).then(&request));
            Load::closed(clients, Duration::from_secs(60)).run(server, &script).await?;
            let peak = server.meter.peak()?.unwrap_or_default();
            let extra = megabytes(peak.saturating_sub(before)) / clients as f64;
            let pods = thousands(bench.plan.pods as f64);
            let name = match clients {
                1 => format!("a list of {pods} pods, {name}"),
                _ => format!("each of {clients} at once, {name}"),
            };
            bench.report.row(name, extra, "MB").at_most(10.0);
        }
    }
    Ok(())
}

/// What small requests see of large ones.
struct Storm {
    /// Without any.
    alone: Percentiles,
    /// Beside them.
    beside: Percentiles,
    /// How fast the large ones were read, in millions of bytes per second.
    megabytes: f64,
    /// The memory that they took, in millions of bytes.
    extra: Option<f64>,
}

/// Small requests alone, and while many lists are read at full speed.
async fn storm(server: &Server, (one, all): (String, String), time: Duration) -> Result<Storm> {
    let alone = small(server, &one, time / 2).await?.percentiles();
    let script: Script = Arc::new(move |_, _| Some(get(all.as_str())));
    server.meter.forget_peak()?;
    let before = server.meter.resident()?;
    let reading = {
        let server = server.clone();
        tokio::spawn(async move { Load::closed(STORM, time + LEAD).run(&server, &script).await })
    };
    tokio::time::sleep(LEAD).await;
    let beside = small(server, &one, time).await?.percentiles();
    let megabytes_read = reading.await??.megabytes();
    let extra = server.meter.peak()?.zip(before).map(|(peak, before)| megabytes(peak.saturating_sub(before)));
    Ok(Storm { alone, beside, megabytes: megabytes_read, extra })
}

/// Gets of one object, from a thread of their own, so that what reads the lists does not keep them waiting.
async fn small(server: &Server, path: &str, time: Duration) -> Result<Round> {
    let (server, path) = (server.clone(), path.to_owned());
    let asking = tokio::task::spawn_blocking(move || {
        let script: Script = Arc::new(move |_, _| Some(get(path.as_str())));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(Load::open(SMALL_CLIENTS, SMALL_RATE, time).run(&server, &script))
    });
    asking.await?
}
