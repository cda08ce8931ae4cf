//! Measures the storage engines: `cargo run --release -p pintle-store --example engines [-- [ENGINE…] [--folder DIR]
//! [--scale PERCENT]]`. The engines are `embedded`, `memory` and `raw`. `raw` appends the same bytes and calls
//! fdatasync, which is the upper bound.

#![allow(clippy::print_stdout, reason = "this program's purpose is to print")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop where it is")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use pintle_store::{
    Change, EmbeddedOptions, EmbeddedStore, HistoryRetention, Key, KeyInterval, MemoryStore, Revision, Store,
};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// The size of a value, similar to a small Pod.
const VALUE: usize = 1200;

/// The sizes of the runs with `--scale 100`.
const LIVE: u64 = 100_000;
const UPDATES: u64 = 1_000_000;
const RUN: Duration = Duration::from_secs(5);

fn main() {
    let mut engines = Vec::new();
    let mut folder = std::env::temp_dir();
    let mut scale = 100;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--folder" => folder = PathBuf::from(arguments.next().unwrap()),
            "--scale" => scale = arguments.next().unwrap().parse().unwrap(),
            engine => engines.push(engine.to_owned()),
        }
    }
    if engines.is_empty() {
        engines = ["raw", "embedded", "memory"].map(str::to_owned).to_vec();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    for engine in engines {
        let scratch = tempfile::tempdir_in(&folder).unwrap();
        let scratch = scratch.path();
        match engine.as_str() {
            "raw" => writers(&runtime, "raw", scale, |writers| {
                Target::Raw(Raw::open(&scratch.join(format!("raw-{writers}"))))
            }),
            "memory" => {
                writers(&runtime, "memory", scale, |_| Target::Store(Arc::new(MemoryStore::new())));
            }
            "embedded" => {
                writers(&runtime, "embedded", scale, |writers| {
                    Target::Store(embedded(&scratch.join(format!("writers-{writers}")), HistoryRetention::default()))
                });
                churn(&runtime, scratch, scale);
            }
            other => println!("{other}: no such engine"),
        }
    }
}

fn embedded(folder: &Path, retention: HistoryRetention) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(folder, EmbeddedOptions { retention, ..EmbeddedOptions::default() }).unwrap())
}

#[derive(Clone)]
enum Target {
    Store(Arc<dyn Store>),
    Raw(Arc<Raw>),
}

impl Target {
    async fn write(&self, key: String, value: Vec<u8>) {
        match self {
            Target::Store(store) => drop(store.commit(Change::put(key, value)).await.unwrap()),
            Target::Raw(raw) => raw.append(value).await,
        }
    }
}

/// Durable commits per second with 1, 8 and 64 writers that each wait for their commit.
fn writers(runtime: &Runtime, name: &str, scale: u32, open: impl Fn(usize) -> Target) {
    for count in [1, 8, 64] {
        let target = open(count);
        let before = cpu_time();
        let (rate, mut latencies) = runtime.block_on(load(&target, count, RUN * scale / 100, LIVE));
        latencies.sort_unstable();
        let cpu = (cpu_time() - before) / latencies.len().max(1) as u32;
        println!(
            "{name:9} {count:3} writers: {rate:8.0} commits/s, latency p50 {:?} p99 {:?} max {:?}; CPU {cpu:?} each, writers included",
            at(&latencies, 50),
            at(&latencies, 99),
            latencies.last().copied().unwrap_or_default(),
        );
        if let Target::Store(store) = target {
            runtime.block_on(store.close()).unwrap();
        }
    }
}

async fn load(target: &Target, count: usize, time: Duration, keys: u64) -> (f64, Vec<Duration>) {
    let started = Instant::now();
    let next = Arc::new(AtomicU64::new(1));
    let writers: Vec<_> = (0..count)
        .map(|_| {
            let (target, next) = (target.clone(), next.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while started.elapsed() < time {
                    let number = scatter(next.fetch_add(1, Ordering::Relaxed)) % keys;
                    let begun = Instant::now();
                    target.write(key(number), value(number)).await;
                    latencies.push(begun.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await.unwrap());
    }
    (latencies.len() as f64 / started.elapsed().as_secs_f64(), latencies)
}

/// Fills a store, opens it again, updates it a million times while it compacts, and reads it.
fn churn(runtime: &Runtime, scratch: &Path, scale: u32) {
    let folder = scratch.join("churn");
    let live = LIVE * u64::from(scale) / 100;
    let updates = UPDATES * u64::from(scale) / 100;
    let retention = HistoryRetention { bytes: (256 << 20) * u64::from(scale) / 100, ..HistoryRetention::default() };
    let store = embedded(&folder, retention);
    let started = Instant::now();
    runtime.block_on(fill(&store, live, 0));
    println!("embedded  created {live} keys in {:?}; file {}", started.elapsed(), size(&folder));
    runtime.block_on(store.close()).unwrap();
    drop(store);

    let started = Instant::now();
    let store = embedded(&folder, retention);
    let opened = started.elapsed();
    println!("embedded  resident after opening: {}", resident());
    let range = runtime.block_on(store.range(KeyInterval::all(), None, None)).unwrap();
    let read = started.elapsed() - opened;
    let count = range.records.len();
    println!("embedded  opened {count} keys in {opened:?}, read them all in another {read:?}");
    drop(range);

    let target = Target::Store(store.clone());
    // The first part runs without compaction, the further part with compaction all the time.
    for (what, part) in [("first", updates / 10), ("further", updates - updates / 10)] {
        let started = Instant::now();
        let mut latencies = runtime.block_on(update(&target, live, part));
        latencies.sort_unstable();
        println!(
            "embedded  {part} {what} updates by 64 writers: {:.0}/s, latency p50 {:?} p99 {:?} max {:?}; file {}; oldest {}",
            part as f64 / started.elapsed().as_secs_f64(),
            at(&latencies, 50),
            at(&latencies, 99),
            latencies.last().copied().unwrap_or_default(),
            size(&folder),
            runtime.block_on(store.oldest_revision()).unwrap(),
        );
    }

    let started = Instant::now();
    let reads = (live / 4).min(20_000);
    for number in 0..reads {
        let key = Key::from(key(scatter(number) % live));
        assert!(runtime.block_on(store.get(key, None)).unwrap().is_some());
    }
    println!("embedded  get: {:?} each", started.elapsed() / reads as u32);
    let oldest = runtime.block_on(store.oldest_revision()).unwrap();
    for at in [None, Some(oldest)] {
        let started = Instant::now();
        let range = runtime.block_on(store.range(KeyInterval::all(), at, None)).unwrap();
        let each = started.elapsed() / range.records.len() as u32;
        println!("embedded  range of {} at {at:?}: {each:?} per record", range.records.len());
    }
    let started = Instant::now();
    let (mut feed, mut delivered) = (runtime.block_on(store.changes(oldest)).unwrap(), 0);
    let current = runtime.block_on(store.current_revision()).unwrap();
    while feed.complete_to() < current {
        delivered += runtime.block_on(feed.next_batch()).unwrap().changes.len();
    }
    println!("embedded  history of {delivered} changes: {:?} each", started.elapsed() / delivered as u32);

    // After compacting everything, the free pages are returned to the file system.
    runtime.block_on(store.compact(Revision(current.0))).unwrap();
    let (mut before, mut since) = (u64::MAX, Instant::now());
    while since.elapsed() < Duration::from_secs(5) {
        let now = bytes(&folder);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("embedded  everything compacted: file {}", size(&folder));
    runtime.block_on(store.close()).unwrap();
    println!("embedded  closed: file {}", size(&folder));
    drop(store);
    let started = Instant::now();
    let store = embedded(&folder, retention);
    println!("embedded  reopened in {:?}", started.elapsed());
    drop(store);
}

async fn fill(store: &Arc<EmbeddedStore>, live: u64, round: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..64)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= live {
                        break;
                    }
                    store.commit(Change::put(key(number), value(number + round))).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn update(target: &Target, live: u64, updates: u64) -> Vec<Duration> {
    let next = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..64)
        .map(|_| {
            let (target, next) = (target.clone(), next.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= updates {
                        return latencies;
                    }
                    let begun = Instant::now();
                    target.write(key(scatter(number) % live), value(number)).await;
                    latencies.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await.unwrap());
    }
    latencies
}

/// Appends and syncs bytes; several callers share a sync. This is the minimum work of any engine.
struct Raw {
    queue: Mutex<mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>>,
}

impl Raw {
    fn open(path: &Path) -> Arc<Raw> {
        let (sender, receiver) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>();
        let mut file = File::create(path).unwrap();
        std::thread::spawn(move || {
            while let Ok(first) = receiver.recv() {
                let mut batch = vec![first];
                batch.extend(receiver.try_iter());
                let bytes: Vec<u8> = batch.iter().flat_map(|(bytes, _)| bytes).copied().collect();
                file.write_all(&bytes).unwrap();
                file.sync_data().unwrap();
                for (_, reply) in batch {
                    reply.send(()).unwrap();
                }
            }
        });
        Arc::new(Raw { queue: Mutex::new(sender) })
    }

    async fn append(&self, bytes: Vec<u8>) {
        let (reply, answer) = oneshot::channel();
        self.queue.lock().unwrap().send((bytes, reply)).unwrap();
        answer.await.unwrap();
    }
}

fn key(number: u64) -> String {
    format!("/registry/pods/namespace-{:03}/some-workload-{number:08}", number % 100)
}

/// Incompressible bytes.
fn value(number: u64) -> Vec<u8> {
    (0..VALUE as u64 / 8).flat_map(|at| scatter(number * 1000 + at).to_le_bytes()).collect()
}

/// Scrambles the bits of a number (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default()
}

fn bytes(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn size(folder: &Path) -> String {
    let wal = fs::metadata(folder.join("pintle.db-wal")).map_or(0, |file| file.len());
    format!("{} MB (of that WAL {} MB)", bytes(folder) / 1_000_000, wal / 1_000_000)
}

/// The CPU time of this process (Linux, in ticks of 10 ms), or zero.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11);
    Duration::from_millis(fields.take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// The resident memory of this process (Linux), or `?`.
fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim().to_owned()
}
