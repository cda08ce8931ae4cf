//! GETs beside clients that send requests with the highest possible cost (`pintle_integration::COSTLY_REQUESTS`). It
//! measures the latency of the GETs and the longest response time of a costly request. It also measures the server's
//! memory during these requests and afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use pintle_integration::{COSTLY_REQUESTS, CostlyRequest};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::megabytes;
use crate::Result;
use crate::client::{Protocol, get, plain, with_body};
use crate::load::{Load, Workload};
use crate::scenario::ScenarioContext;
use crate::target::Server;

/// The number of connections that send costly requests, one after the other.
const ATTACKERS: usize = 4;
/// The budget for the longest response time, in seconds.
const MAX_ANSWER_SECONDS: f64 = 5.0;
/// The budget for the memory afterwards, as a multiple of the memory before.
const MAX_KEPT: f64 = 1.3;
/// The pause after the objects of a request were created.
const SETTLE: Duration = Duration::from_secs(3);
/// How long the allocator may take to give memory back. One second after memory was freed, mimalloc gives it back, but
/// only when one of the server's threads allocates memory. An idle server does that every few seconds.
const GIVE_BACK: Duration = Duration::from_secs(15);
/// The pause between two measurements of the memory.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The responses that the attackers have received.
#[derive(Default)]
struct Answers {
    longest_millis: AtomicU64,
    count: AtomicU64,
    unexpected: AtomicU64,
}

/// Runs all costly requests beside a workload of GETs, whose p99 is at most `max_p99` milliseconds.
pub(super) async fn run(
    bench: &mut ScenarioContext,
    server: &Server,
    runtime: &Handle,
    load: &Load,
    workload: &Workload,
    max_p99: f64,
) -> Result<()> {
    bench.report.section(format!("GETs beside {ATTACKERS} clients with costly requests"));
    for costly in COSTLY_REQUESTS {
        set_up(server, costly).await?;
        tokio::time::sleep(SETTLE).await;
        let before = server.meter.resident_bytes()?;
        server.meter.reset_peak()?;
        let answers = Arc::new(Answers::default());
        let mut attackers = attack(server, runtime, costly, &answers);
        let latencies = load.run(server, workload).await?.percentiles();
        let peak = server.meter.peak_resident_bytes()?;
        attackers.shutdown().await;
        let given_back = wait_until_given_back(server, before).await?;
        let count = answers.count.load(Ordering::Relaxed);
        let note = match (before, peak) {
            (Some(before), Some(peak)) => format!(
                "{count} answers, resident memory {:.0} MB before, at most {:.0} MB meanwhile",
                megabytes(before),
                megabytes(peak)
            ),
            _ => format!("{count} answers"),
        };
        let row = bench.report.row(format!("{}: p99 of GETs", costly.name), latencies.p99, "ms");
        row.scheduled_latencies(latencies).at_most(max_p99).note(note);
        let longest = answers.longest_millis.load(Ordering::Relaxed) as f64 / 1000.0;
        let row = bench.report.row(format!("{}: longest answer", costly.name), longest, "s");
        row.at_most(MAX_ANSWER_SECONDS);
        if let Some((kept, time)) = given_back {
            let row = bench.report.row(format!("{}: memory afterwards", costly.name), kept, "times before");
            row.at_most(MAX_KEPT).note(format!("after {:.1} s", time.as_secs_f64()));
        }
        if count == 0 {
            return Err(format!("{}: no answer", costly.name).into());
        }
        let unexpected = answers.unexpected.load(Ordering::Relaxed);
        if unexpected > 0 {
            return Err(format!("{}: {unexpected} of {count} answers have an unexpected code", costly.name).into());
        }
    }
    Ok(())
}

/// Waits until the resident memory is within its budget, at most for [`GIVE_BACK`]. Returns it as a multiple of the
/// memory `before`, and how long that took. Returns `None` if the server's memory is not known.
async fn wait_until_given_back(server: &Server, before: Option<u64>) -> Result<Option<(f64, Duration)>> {
    let started = Instant::now();
    loop {
        let Some((before, after)) = before.zip(server.meter.resident_bytes()?) else { return Ok(None) };
        let kept = after as f64 / before.max(1) as f64;
        if kept <= MAX_KEPT || started.elapsed() > GIVE_BACK {
            return Ok(Some((kept, started.elapsed())));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Creates the objects that a request needs, and waits until they are in force.
async fn set_up(server: &Server, costly: &CostlyRequest) -> Result<()> {
    let mut connection = server.connect().await?;
    for (path, object) in (costly.setup)() {
        connection.execute(with_body(Method::POST, path, object.to_string()), StatusCode::CREATED).await?;
    }
    let collection = costly.path.split('?').next().unwrap_or_default();
    while connection.execute(get(collection), StatusCode::OK).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn attack(server: &Server, runtime: &Handle, costly: &'static CostlyRequest, answers: &Arc<Answers>) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    let body = Bytes::from((costly.body)());
    for _ in 0..ATTACKERS {
        let (server, answers, body) = (server.clone(), answers.clone(), body.clone());
        let attacker = async move {
            // An error means that the server has closed the connection.
            while send_all(&server, costly, &body, &answers).await.is_err() {}
        };
        attackers.spawn_on(attacker, runtime);
    }
    attackers
}

/// Sends the request over one connection again and again, until the connection fails. It uses HTTP/2: the client's
/// HTTP/1.1 takes at most a hundred headers, so it would refuse a response with a hundred warnings.
async fn send_all(server: &Server, costly: &CostlyRequest, body: &Bytes, answers: &Answers) -> Result<()> {
    let mut connection = server.endpoint.connect(Protocol::Http2).await?;
    loop {
        let mut request = with_body(Method::POST, costly.path, body.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(costly.media_type));
        let started = Instant::now();
        let response = connection.send(request).await?;
        let code = response.status();
        let content = response.into_body().collect().await?.to_bytes();
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        answers.longest_millis.fetch_max(millis, Ordering::Relaxed);
        answers.count.fetch_add(1, Ordering::Relaxed);
        // The server may refuse a request if it has no memory for it beside the other requests.
        let is_busy = matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if !costly.codes.contains(&code.as_u16()) && !is_busy {
            answers.unexpected.fetch_add(1, Ordering::Relaxed);
        }
        if code == StatusCode::CREATED
            && !costly.path.contains("dryRun")
            && let Some(name) = created_name(&content)
        {
            let collection = costly.path.split('?').next().unwrap_or_default();
            let path = format!("{collection}/{name}");
            let _ = connection.send(plain(Method::DELETE, path)).await?.into_body().collect().await?;
        }
    }
}

/// The name of an object that was created, which the attackers delete again.
fn created_name(json: &[u8]) -> Option<String> {
    let object: serde_json::Value = serde_json::from_slice(json).ok()?;
    object["metadata"]["name"].as_str().map(str::to_owned)
}
