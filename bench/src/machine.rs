//! Describes the machine of a run. Without it, absolute numbers mean nothing. It also measures the disk's sync rate,
//! which bounds every durable write that does not share its sync with another write.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::load::quantile;

/// The machine and the date of a run.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    date: String,
    kernel: String,
    processor: String,
    cores: usize,
    load: String,
}

/// Describes this machine at the current time.
pub(crate) fn describe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let now = time::OffsetDateTime::now_utc();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        date: format!("{}-{:02}-{:02}", now.year(), u8::from(now.month()), now.day()),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: model.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        load: read("/proc/loadavg").split_whitespace().next().unwrap_or("unknown").to_owned(),
    }
}

impl Machine {
    pub(crate) fn json(&self) -> Value {
        let Self { date, kernel, processor, cores, load } = self;
        json!({ "date": date, "kernel": kernel, "processor": processor, "cores": cores, "loadBefore": load })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, kernel, processor, cores, load } = self;
        write!(f, "{date}, {cores} cores ({processor}), Linux {kernel}, load before the run {load}")
    }
}

/// The disk's own throughput and latency, without a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskBaseline {
    /// Synced appends of 4 KiB per second.
    pub(crate) rate: f64,
    /// The 99th percentile latency of an append and sync, in milliseconds.
    pub(crate) p99: f64,
}

/// Appends 4 KiB to a file in `folder` and syncs it, repeatedly for `time`.
pub(crate) fn measure_disk(folder: &Path, time: Duration) -> Result<DiskBaseline> {
    let path = folder.join("disk");
    let mut file = File::create(&path)?;
    let block = [0x5a_u8; 4096];
    let mut latencies = Vec::new();
    let started = Instant::now();
    while started.elapsed() < time {
        let before = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        latencies.push(u32::try_from(before.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    let elapsed = started.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(path)?;
    latencies.sort_unstable();
    Ok(DiskBaseline { rate: latencies.len() as f64 / elapsed, p99: quantile(&latencies, 0.99) })
}
