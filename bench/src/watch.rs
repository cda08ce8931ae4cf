//! Watch fan-out in its simple form: many watchers of one collection, and writers that create in it as fast as they are
//! answered. An event counts when a watcher has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use http_body_util::BodyExt;

use crate::client::plain;
use crate::load::{Round, Script, closed_loop, median, middle};
use crate::process::Process;
use crate::report::Report;
use crate::{Plan, Result, objects};

/// Watchers of the collection.
const WATCHERS: usize = 100;
/// Connections that create.
const WRITERS: usize = 16;
/// How long the last event may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures creates alone, then creates that are watched: the difference is what the watchers cost.
pub(crate) async fn measure(server: &Process, plan: &Plan, report: &mut Report) -> Result<()> {
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    // What a create leaves behind in memory, without watchers and with them.
    let (mut kept_alone, mut kept_watched) = (Vec::new(), Vec::new());
    for number in 0..plan.rounds {
        let quiet = format!("bench-quiet-{number}");
        objects::namespace(server, &quiet).await?;
        let before = server.resident()?;
        let round = creates(server, &quiet, plan).await?;
        kept_alone.push(kept(before, server.resident()?, round.done));
        alone.push(round);
        let namespace = format!("bench-watch-{number}");
        objects::namespace(server, &namespace).await?;
        let before = server.resident()?;
        let round = fan_out(server, &namespace, plan).await?;
        kept_watched.push(kept(before, server.resident()?, round.creates));
        watched.push(round);
    }
    let alone = median(alone, Round::micros).micros();
    let events = median(watched.iter().map(|w| w.events.clone()).collect(), Round::rate);
    let creates = watched.iter().map(|w| w.creates).sum::<u64>() as f64 / plan.rounds as f64;
    report.section("watch: 100 watchers of one collection, 16 connections create in it at full speed");
    let note = format!("{:.0} creates/s", events.rate() / WATCHERS as f64);
    report.row("events delivered", events.rate(), "/s").note(note);
    let share = alone / WATCHERS as f64;
    let note = format!("{:.1} µs with the creates; {creates:.0} creates per round", events.micros());
    report.row("CPU of the server per event", (events.micros() - share).max(0.0), "µs").at_most(2.0).note(note);
    let note = format!("{:.0} bytes without watchers", middle(kept_alone));
    report.row("memory kept per create", middle(kept_watched), "bytes").note(note);
    Ok(())
}

/// Resident bytes that came with each create.
fn kept(before: u64, after: u64, creates: u64) -> f64 {
    after.saturating_sub(before) as f64 / creates.max(1) as f64
}

async fn creates(server: &Process, namespace: &str, plan: &Plan) -> Result<Round> {
    let collection = objects::collection(namespace);
    let script: Script =
        Arc::new(move |worker, sent| Some(objects::create(&collection, &format!("w-{worker}-{sent}"), sent)));
    closed_loop(server, WRITERS, plan.time, StatusCode::CREATED, &script).await
}

/// What a round with watchers saw.
struct Watched {
    /// Events, as if each were a request.
    events: Round,
    creates: u64,
}

async fn fan_out(server: &Process, namespace: &str, plan: &Plan) -> Result<Watched> {
    let path = format!("{}?watch=true", objects::collection(namespace));
    let counters: Vec<Arc<AtomicU64>> = (0..WATCHERS).map(|_| Arc::default()).collect();
    let mut readers = Vec::with_capacity(WATCHERS);
    for counter in &counters {
        let mut connection = server.endpoint.connect().await?;
        let response = connection.send(plain(Method::GET, path.as_str())).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("watch: {}", response.status()).into());
        }
        let (counter, mut body) = (counter.clone(), response.into_body());
        readers.push(tokio::spawn(async move {
            // An event is a line.
            while let Some(Ok(frame)) = body.frame().await {
                if let Some(bytes) = frame.data_ref() {
                    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
                    counter.fetch_add(lines as u64, Ordering::Relaxed);
                }
            }
            drop(connection);
        }));
    }
    let started = Instant::now();
    let cpu = server.cpu()?;
    let creates = creates(server, namespace, plan).await?.done;
    let count = || counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum::<u64>();
    let expected = creates * WATCHERS as u64;
    let deadline = Instant::now() + PATIENCE;
    while count() < expected && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (elapsed, cpu, done) = (started.elapsed(), server.cpu()?.saturating_sub(cpu), count());
    for reader in readers {
        reader.abort();
    }
    // Connections and their buffers are no part of what events leave behind.
    tokio::time::sleep(Duration::from_millis(500)).await;
    if done != expected {
        return Err(format!("watch: {done} events came of {expected}").into());
    }
    Ok(Watched { events: Round { done, elapsed, cpu, ..Round::default() }, creates })
}
