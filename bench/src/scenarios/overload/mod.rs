//! Overload by one user. Another user of the same priority level, a leader election and nodes send requests beside it.
//! They have to be served as in a quiet phase. Flow control is on, on Pintle and on the Go API server.

mod noise;
mod objects;
mod traffic;
mod users;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::noise::{Noise, NoiseCounts, NoisyThreads};
use self::objects::Objects;
use self::traffic::{Outcome, Outcomes};
use super::megabytes;
use crate::Result;
use crate::report::{Report, thousands};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, Target};
use crate::webhook::Webhook;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "overload",
    description: "requests of other users, leader election and nodes beside one user's overload, with flow control",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The options of a server that is started. Pintle has the plugin by default, and the Go API server has neither.
const OPTIONS: [&str; 2] =
    ["--enable-priority-and-fairness=true", "--enable-admission-plugins=ValidatingAdmissionWebhook"];
/// The budget for the p99 beside the noisy user, compared with the quiet phase.
const MAX_RATIO: f64 = 3.0;
/// The duration of each part, in durations of an open loop.
const LOOPS: u32 = 2;
/// The time that the noisy user has before the other requests begin, as a part of the duration of an open loop.
const WARM_UP_DIVISOR: u32 = 5;
/// The time that the webhook takes, as a part of the duration of an open loop: five seconds in a full run.
const WEBHOOK_DIVISOR: u32 = 2;

/// The name of each part, and the requests of the noisy user in it.
const PARTS: [(&str, &[Noise]); 6] = [
    ("lists", &[Noise::Lists]),
    ("watches", &[Noise::Watches]),
    ("unread lists", &[Noise::UnreadLists]),
    ("slow webhook", &[Noise::SlowCreates]),
    ("large creates", &[Noise::LargeCreates]),
    ("all at once", &[Noise::Lists, Noise::Watches, Noise::UnreadLists, Noise::SlowCreates, Noise::LargeCreates]),
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let plan = bench.plan;
    let (time, webhook_time) = (plan.open_loop_duration * LOOPS, plan.open_loop_duration / WEBHOOK_DIVISOR);
    let webhook = Webhook::start_slow_admission(webhook_time).await?;
    let mut target = bench.target_or_existing(&OPTIONS).await?;
    let objects = Arc::new(Objects::create(&mut target, &plan, &webhook).await?);
    let server = target.server.clone();
    let threads = NoisyThreads::start()?;
    bench.report.section(format!(
        "overload by one user, {} pods: 50 GETs/s and 10 creates/s of another user, open loop",
        thousands(plan.listed_objects as f64)
    ));
    // The first requests open files and fill caches.
    traffic::run(&server, &objects, PARTS.len() + 1, plan.duration).await?;
    let quiet = traffic::run(&server, &objects, PARTS.len(), time).await?;
    report_quiet(&mut bench.report, &quiet);
    if !bench.has_existing_server() {
        let other = bench.target_with(&OPTIONS).await?;
        measure_other_server(bench, &target.server, &objects, &quiet, other, &webhook).await?;
    }
    for (part, (name, noises)) in PARTS.into_iter().enumerate() {
        let noise = threads.begin(noises, &server, &objects, part, plan.attack_divisor).await?;
        tokio::time::sleep(plan.open_loop_duration / WARM_UP_DIVISOR).await;
        server.meter.reset_peak()?;
        let cpu = server.meter.cpu_time()?;
        let began = Instant::now();
        let beside = traffic::run(&server, &objects, part, time).await?;
        let elapsed = began.elapsed();
        let cpu = server.meter.cpu_time_since(cpu)?;
        let peak = server.meter.peak_resident_bytes()?;
        let (counts, noise_time) = noise.end().await;
        report_beside(&mut bench.report, name, &quiet, &beside);
        let cores = cpu.map(|cpu| cpu.as_secs_f64() / elapsed.as_secs_f64());
        report_noise(&mut bench.report, name, &counts, noise_time, cores);
        bench
            .report
            .row_if_known(format!("{name}: peak memory"), peak.map(megabytes), "MB", |row| row.note("resident"));
        // Creates whose client has gone still wait for the webhook.
        tokio::time::sleep(plan.settle + webhook_time).await;
    }
    objects.delete(&server).await?;
    target.tear_down().await
}

/// Measures the requests while the noisy user lists the pods of another server. The difference from the quiet phase is the
/// work of the machine that both servers share, and no flow control can avoid it.
async fn measure_other_server(
    bench: &mut ScenarioContext,
    server: &Server,
    objects: &Objects,
    quiet: &Outcomes,
    mut other: Target,
    webhook: &Webhook,
) -> Result<()> {
    let plan = bench.plan;
    let listed = Arc::new(Objects::create(&mut other, &plan, webhook).await?);
    let threads = NoisyThreads::start()?;
    let noise = threads.begin(&[Noise::Lists], &other.server, &listed, 0, plan.attack_divisor).await?;
    tokio::time::sleep(plan.open_loop_duration / WARM_UP_DIVISOR).await;
    let beside = traffic::run(server, objects, PARTS.len() + 2, plan.open_loop_duration * LOOPS).await?;
    noise.end().await;
    for (name, before, outcome) in [("GETs", &quiet.gets, &beside.gets), ("creates", &quiet.creates, &beside.creates)] {
        let latencies = outcome.percentiles();
        let note = format!("{:.1} times the quiet phase", latencies.p99 / before.percentiles().p99);
        let row = bench.report.row(format!("lists of another server: {name}, p99"), latencies.p99, "ms");
        row.scheduled_latencies(latencies).note(note);
    }
    other.tear_down().await
}

fn report_quiet(report: &mut Report, quiet: &Outcomes) {
    for (name, outcome) in [("GETs", &quiet.gets), ("creates", &quiet.creates)] {
        let latencies = outcome.percentiles();
        let row = report.row(format!("quiet phase: {name}, p99"), latencies.p99, "ms").scheduled_latencies(latencies);
        row.note(requests(outcome));
    }
    let all = [&quiet.gets, &quiet.creates, &quiet.renewals, &quiet.node_requests];
    let not_served = all.iter().map(|outcome| outcome.not_served()).sum::<u64>();
    report.row("quiet phase: requests not served", not_served as f64, "").at_most(0.0);
}

/// Reports the requests beside the noisy user.
fn report_beside(report: &mut Report, part: &str, quiet: &Outcomes, beside: &Outcomes) {
    let both = [("GETs", &quiet.gets, &beside.gets), ("creates", &quiet.creates, &beside.creates)];
    for (name, before, outcome) in both {
        let (before, latencies) = (before.percentiles(), outcome.percentiles());
        report.row(format!("{part}: {name}, p99"), latencies.p99, "ms").scheduled_latencies(latencies);
        let ratio = latencies.p99 / before.p99;
        report.row(format!("{part}: {name}, p99 compared with the quiet phase"), ratio, "x").at_most(MAX_RATIO);
    }
    let not_served = beside.gets.not_served() + beside.creates.not_served();
    let row = report.row(format!("{part}: GETs and creates not served"), not_served as f64, "").at_most(0.0);
    row.note(format!("{} of them with 429", beside.gets.rejected + beside.creates.rejected));
    for (name, outcome) in [("lease renewals", &beside.renewals), ("node requests", &beside.node_requests)] {
        let note =
            format!("{}, {} with 429, p99 {:.1} ms", requests(outcome), outcome.rejected, outcome.percentiles().p99);
        let row = report.row(format!("{part}: {name} not served"), outcome.not_served() as f64, "");
        row.at_most(0.0).note(note);
    }
}

/// Reports the requests of the noisy user. `cores` is the server's use of processors.
fn report_noise(report: &mut Report, part: &str, counts: &NoiseCounts, time: Duration, cores: Option<f64>) {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let seconds = time.as_secs_f64();
    let cores = cores.map(|cores| format!(", server {cores:.2} cores")).unwrap_or_default();
    let note = format!(
        "{} in total, {} with 429, {} failed, {:.0} MB/s{cores}",
        of(&counts.served),
        of(&counts.rejected),
        of(&counts.failed),
        of(&counts.bytes) / 1e6 / seconds
    );
    report.row(format!("{part}: noisy requests served"), of(&counts.served) / seconds, "/s").note(note);
}

fn requests(outcome: &Outcome) -> String {
    format!("{} requests", outcome.requests())
}
