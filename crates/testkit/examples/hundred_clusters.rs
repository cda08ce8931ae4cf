//! Measures the start and the stop of a cluster in the process of a test, and the time and memory of a hundred
//! clusters. `cargo run --release -p pintle-testkit --example hundred_clusters`

use std::io::Write;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use pintle_testkit::TestCluster;

/// Number of clusters that are started one after the other.
const SINGLE: usize = 20;
/// Number of clusters that run at the same time.
const PARALLEL: usize = 100;

/// A list of measurements, as its median and its maximum in milliseconds.
fn summary(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    format!("median {:.1} ms, maximum {:.1} ms", millis(times.get(times.len() / 2)), millis(times.last()))
}

/// The resident memory of this process, in MB.
fn resident_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024 / 1_000_000)
}

async fn list_namespaces(cluster: &TestCluster) -> Result<usize, kube::Error> {
    Ok(Api::<Namespace>::all(cluster.client()).list(&ListParams::default()).await?.items.len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let (mut starts, mut requests, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..=SINGLE {
        let start = Instant::now();
        let cluster = TestCluster::start().await;
        let started = start.elapsed();
        let start = Instant::now();
        list_namespaces(&cluster).await?;
        let requested = start.elapsed();
        let start = Instant::now();
        cluster.stop().await?;
        if number == 0 {
            let millis = started.as_secs_f64() * 1000.0;
            writeln!(out, "start of the first cluster: {millis:.1} ms, {} MB resident", resident_megabytes())?;
            continue;
        }
        starts.push(started);
        requests.push(requested);
        stops.push(start.elapsed());
    }
    writeln!(out, "start: {}", summary(starts))?;
    writeln!(out, "new client and first request: {}", summary(requests))?;
    writeln!(out, "stop: {}", summary(stops))?;
    let before = resident_megabytes();
    let start = Instant::now();
    let tasks: Vec<_> = (0..PARALLEL).map(|_| tokio::spawn(TestCluster::start())).collect();
    let mut clusters = Vec::new();
    for task in tasks {
        clusters.push(task.await?);
    }
    let started = start.elapsed();
    writeln!(
        out,
        "{PARALLEL} clusters: ready after {started:.2?}, {} MB resident, {before} MB before",
        resident_megabytes()
    )?;
    let start = Instant::now();
    for cluster in &clusters {
        list_namespaces(cluster).await?;
    }
    writeln!(out, "a new client and a request to each: {:.2?}, {} MB resident", start.elapsed(), resident_megabytes())?;
    let start = Instant::now();
    for cluster in clusters {
        cluster.stop().await?;
    }
    writeln!(out, "stop of all: {:.2?}", start.elapsed())?;
    Ok(())
}
