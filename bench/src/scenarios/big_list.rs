//! Lists of very many pods. Measures the time compared with writing the bytes, the memory in addition to the objects,
//! and the effect on concurrent small requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::{PROTOBUF, TABLE, megabytes};
use crate::Result;
use crate::baseline;
use crate::client::{HttpRequest, Protocol, get, get_as};
use crate::comparison::{Concurrency, compare_with_baseline, start_baseline};
use crate::load::{Load, Percentiles, RoundResult, Workload};
use crate::objects::{fill, pod, pods_path};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "big-list",
    description: "lists of 100,000 Pods of 2 KiB: time, memory, and small requests during fifty such lists",
    requires_binary: false,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// One client, which reads as fast as the server and the machine allow.
const ALONE: Concurrency = Concurrency { clients: 1, protocol: Protocol::Http1 };
/// The numbers of concurrent lists when memory is measured.
const IN_FLIGHT: [usize; 2] = [1, 10];
/// The number of concurrent lists while small requests are timed.
const CONCURRENT_LISTS: usize = 50;
/// The rate of small requests per second, and the number of their clients.
const SMALL_RATE: f64 = 200.0;
const SMALL_CLIENTS: usize = 16;
/// The time that the lists run before small requests start.
const WARM_UP: Duration = Duration::from_secs(1);
/// The maximum size of the encoding cache in MB: the server's limit of 64 MiB, and the allocator's overhead.
const ENCODING_CACHE_MB: f64 = 80.0;
/// The number of objects for which the CPU time is reported.
const CPU_OBJECTS: f64 = 10_000.0;

/// A format of the list: its name, its media type, and the maximum ratio of its time to the time of writing the JSON.
type ListFormat = (&'static str, Option<&'static str>, Option<f64>);

const FORMATS: [ListFormat; 3] =
    [("JSON", None, Some(2.0)), ("table", Some(TABLE), Some(6.0)), ("Protobuf", Some(PROTOBUF), None)];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let count = bench.plan.pods;
    let mut target = bench.target().await?;
    let collection = pods_path(&target.namespace("pods").await?);
    let make = |number| pod(&format!("pod-{number:06}"), &format!("node-{}", number % 1000), number);
    fill(&target.server, &collection, count, make).await?;
    memory(bench, &target.server, &collection).await?;

    let list = target.server.connect().await?.fetch(get(collection.as_str()), StatusCode::OK).await?;
    let baseline = start_baseline(bench.scratch(), &Bytes::new(), &list).await?;
    let size = list.len() as u64;
    drop(list);
    let section = format!(
        "LIST of {} Pods ({:.0} MB of JSON, {} bytes each)",
        thousands(count as f64),
        megabytes(size),
        size / count
    );
    bench.report.section(section);
    for (name, media_type, limit) in FORMATS {
        let request = list_request(&collection, media_type);
        let comparison =
            compare_with_baseline((&baseline, baseline::LIST), &target.server, request, ALONE, &bench.plan).await?;
        let RoundResult { bytes, completed, .. } = comparison.server;
        let note = format!(
            "{:.0} MB; baseline {:.0} ms for the JSON",
            megabytes(bytes) / completed.max(1) as f64,
            comparison.baseline.seconds_per_request() * 1e3
        );
        let cpu = comparison.server.cpu_micros().map(|cpu| cpu * CPU_OBJECTS / count as f64);
        bench.report.row(format!("{name}: time"), comparison.server.seconds_per_request() * 1e3, "ms").note(note);
        let row = bench.report.row(format!("{name}: CPU per 10,000 Pods"), cpu.unwrap_or_default() / 1e3, "ms");
        row.cpu(cpu);
        let row = bench.report.row(format!("{name}: time, ratio to writing the JSON"), 1.0 / comparison.ratio, "");
        if let Some(limit) = limit {
            row.at_most(limit);
        }
    }
    // The baseline server shows the latency that the machine and the runtime cause.
    let baseline_latency = measure_during_lists(
        &baseline.server,
        (baseline::OBJECT.to_owned(), baseline::LIST.to_owned()),
        bench.plan.open_loop_duration,
    )
    .await?;
    let get_one_object = (format!("{collection}/pod-000000"), collection.clone());
    let found = measure_during_lists(&target.server, get_one_object, bench.plan.open_loop_duration).await?;
    bench.report.section(format!("small requests ({SMALL_RATE}/s, open loop) during {CONCURRENT_LISTS} such lists"));
    let note = format!(
        "without lists {:.2} ms; lists {:.0} MB/s; baseline {:.0} ms, {:.0} MB/s",
        found.without_lists.p99, found.megabytes, baseline_latency.with_lists.p99, baseline_latency.megabytes
    );
    bench
        .report
        .row("GET, p99", found.with_lists.p99, "ms")
        .scheduled_latencies(found.with_lists)
        .at_most(50.0)
        .note(note);
    let limit = 10.0 * CONCURRENT_LISTS as f64;
    bench.report.row_if_known(format!("memory for {CONCURRENT_LISTS} concurrent lists"), found.extra, "MB", |row| {
        row.at_most(limit)
    });
    baseline.stop().await?;
    target.tear_down().await
}

/// Creates requests for the list in one format.
fn list_request(
    collection: &str,
    media_type: Option<&'static str>,
) -> impl Fn() -> HttpRequest + Send + Sync + 'static {
    let path = collection.to_owned();
    move || media_type.map_or_else(|| get(path.as_str()), |media_type| get_as(path.as_str(), media_type))
}

/// Measures the peak memory of lists in addition to the objects.
async fn memory(bench: &mut ScenarioContext, server: &Server, collection: &str) -> Result<()> {
    bench.report.section("memory");
    for (name, media_type, ..) in FORMATS {
        if media_type == Some(PROTOBUF) {
            // The encoding cache is bounded and does not belong to the request.
            let Some(before) = server.settled_memory(&bench.plan).await? else { return Ok(()) };
            let cpu = server.meter.cpu_time()?;
            server.connect().await?.fetch(list_request(collection, media_type)(), StatusCode::OK).await?;
            let cpu = server.meter.cpu_time_since(cpu)?.map(|cpu| cpu.as_secs_f64() * 1e3);
            let cache_size = server.settled_memory(&bench.plan).await?.unwrap_or_default().saturating_sub(before);
            bench.report.row("encoding cache, Protobuf", megabytes(cache_size), "MB").at_most(ENCODING_CACHE_MB);
            bench.report.row_if_known("first list in Protobuf, CPU", cpu, "ms", |row| row);
        }
        for clients in IN_FLIGHT {
            // This is not repeated, because a second list reuses the memory that the first took from the system.
            let Some(before) = server.settled_memory(&bench.plan).await? else { return Ok(()) };
            server.meter.reset_peak()?;
            let request = list_request(collection, media_type);
            let workload: Workload = Arc::new(move |_, sent| (sent == 0).then(&request));
            Load::closed(clients, Duration::from_secs(60)).run(server, &workload).await?;
            let peak = server.meter.peak_resident_bytes()?.unwrap_or_default();
            let extra = megabytes(peak.saturating_sub(before)) / clients as f64;
            let pods = thousands(bench.plan.pods as f64);
            let name = match clients {
                1 => format!("one list of {pods} Pods, {name}"),
                _ => format!("each of {clients} concurrent lists, {name}"),
            };
            bench.report.row(name, extra, "MB").at_most(10.0);
        }
    }
    Ok(())
}

/// The latency of small requests with and without concurrent lists.
struct SmallRequestLatency {
    /// Without concurrent lists.
    without_lists: Percentiles,
    /// With concurrent lists.
    with_lists: Percentiles,
    /// The throughput of the concurrent lists in MB/s.
    megabytes: f64,
    /// The additional peak memory in MB.
    extra: Option<f64>,
}

/// Measures small requests alone, and while many lists are read at full speed.
async fn measure_during_lists(
    server: &Server,
    (one, all): (String, String),
    time: Duration,
) -> Result<SmallRequestLatency> {
    let without_lists = get_one_object(server, &one, time / 2).await?.percentiles();
    let workload: Workload = Arc::new(move |_, _| Some(get(all.as_str())));
    server.meter.reset_peak()?;
    let before = server.meter.resident_bytes()?;
    let reading = {
        let server = server.clone();
        tokio::spawn(async move { Load::closed(CONCURRENT_LISTS, time + WARM_UP).run(&server, &workload).await })
    };
    tokio::time::sleep(WARM_UP).await;
    let with_lists = get_one_object(server, &one, time).await?.percentiles();
    let megabytes_read = reading.await??.megabytes_per_second();
    let extra =
        server.meter.peak_resident_bytes()?.zip(before).map(|(peak, before)| megabytes(peak.saturating_sub(before)));
    Ok(SmallRequestLatency { without_lists, with_lists, megabytes: megabytes_read, extra })
}

/// GETs one object repeatedly. The GETs run in a dedicated thread, so that the clients that read the lists do not delay
/// them.
pub(super) async fn get_one_object(server: &Server, path: &str, time: Duration) -> Result<RoundResult> {
    let (server, path) = (server.clone(), path.to_owned());
    let asking = tokio::task::spawn_blocking(move || {
        let workload: Workload = Arc::new(move |_, _| Some(get(path.as_str())));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(Load::open(SMALL_CLIENTS, SMALL_RATE, time).run(&server, &workload))
    });
    asking.await?
}
