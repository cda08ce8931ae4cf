//! Measures what the encryption of the embedded store costs: `cargo run --release -p pintle-store --example
//! encryption_costs [-- --folder DIR] [--commits N] [--rows N]`. It commits values of 1 KiB and opens a store of 100,000
//! rows, without encryption and with it.
//!
//! The last column estimates an encrypted VFS instead, which seals and opens whole pages. It multiplies the bytes that
//! the process writes and reads with SQLite (`/proc/self/io`, Linux) without encryption by the measured time of
//! AES-256-GCM for a page.

#![allow(clippy::print_stdout, reason = "this program's purpose is to print")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop where it is")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pintle_sealing::Cipher;
use pintle_store::{
    Change, EmbeddedOptions, EmbeddedStore, HistoryRetention, KeyInterval, KeyWrapError, KeyWrapper, Revision,
    SecretKey, Store, StoreEncryption, WrappedKey,
};
use tokio::runtime::Runtime;

const VALUE_BYTES: usize = 1024;
const PAGE_BYTES: usize = 4096;

/// How often each measurement is repeated; the best result counts.
const ROUNDS: usize = 3;

/// Wraps nothing, because wrapping is not measured.
#[derive(Debug)]
struct NoWrapper;

impl KeyWrapper for NoWrapper {
    fn wrap(&self, key: &SecretKey) -> Result<WrappedKey, KeyWrapError> {
        Ok(WrappedKey { wrapped_with: "none".to_owned(), bytes: key.bytes().to_vec() })
    }

    fn unwrap(&self, wrapped: &WrappedKey) -> Result<SecretKey, KeyWrapError> {
        SecretKey::from_slice(&wrapped.bytes).ok_or_else(|| KeyWrapError("not a key".to_owned()))
    }
}

fn main() {
    let mut folder = std::env::temp_dir();
    let (mut commits, mut rows) = (40_000, 100_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap();
        match argument.as_str() {
            "--folder" => folder = PathBuf::from(value),
            "--commits" => commits = value.parse().unwrap(),
            "--rows" => rows = value.parse().unwrap(),
            other => panic!("unknown argument {other}"),
        }
    }
    fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let page = page_cost();
    println!("AES-256-GCM: {page:?} for a page of {PAGE_BYTES} bytes");
    for writers in [1, 64] {
        let commits = if writers == 1 { commits / 16 } else { commits };
        let best =
            |encrypted| (0..ROUNDS).map(|_| commit(&runtime, &folder, encrypted, writers, commits)).min().unwrap();
        let (plain, sealed) = (best(false), best(true));
        let pages = plain.written.div_ceil(PAGE_BYTES as u64);
        println!(
            "{writers:2} writers, {commits} commits: plain {:.0}/s, CPU {:?} each; sealed rows {:.0}/s, CPU {:?} each; sealed pages: \
             CPU {:?} each ({:.1} pages written for each commit)",
            plain.rate(),
            plain.cpu_each(),
            sealed.rate(),
            sealed.cpu_each(),
            plain.cpu_each() + page * pages as u32 / plain.commits as u32,
            pages as f64 / plain.commits as f64,
        );
    }
    let (plain, read) = open(&runtime, &folder, false, rows);
    let (sealed, _) = open(&runtime, &folder, true, rows);
    // Two threads read the log.
    let pages = page * read.div_ceil(PAGE_BYTES as u64) as u32 / 2;
    println!(
        "open {rows} rows: plain {plain:?}; sealed rows {sealed:?}; sealed pages {:?} ({} MB read)",
        plain + pages,
        read / 1_000_000
    );
}

fn options(encrypted: bool) -> EmbeddedOptions {
    let encryption = encrypted.then(|| StoreEncryption::new(Arc::new(NoWrapper)));
    let retention = HistoryRetention { bytes: u64::MAX, ..HistoryRetention::default() };
    EmbeddedOptions { encryption, retention, ..EmbeddedOptions::default() }
}

/// The result of a load. Results are compared by their CPU time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    cpu: Duration,
    time: Duration,
    commits: u64,
    written: u64,
}

impl Load {
    fn rate(&self) -> f64 {
        self.commits as f64 / self.time.as_secs_f64()
    }

    fn cpu_each(&self) -> Duration {
        self.cpu / self.commits as u32
    }
}

/// Commits values by writers that each wait for their commit.
fn commit(runtime: &Runtime, folder: &Path, encrypted: bool, writers: usize, commits: u64) -> Load {
    let scratch = tempfile::tempdir_in(folder).unwrap();
    let store = Arc::new(EmbeddedStore::open(scratch.path(), options(encrypted)).unwrap());
    let (started, cpu, written) = (Instant::now(), cpu_time(), io_bytes("wchar"));
    fill(runtime, &store, writers, commits);
    let (time, cpu, written) = (started.elapsed(), cpu_time() - cpu, io_bytes("wchar") - written);
    runtime.block_on(store.close()).unwrap();
    Load { cpu, time, commits, written }
}

fn fill(runtime: &Runtime, store: &Arc<EmbeddedStore>, writers: usize, commits: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            runtime.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= commits {
                        break;
                    }
                    let key = format!("/registry/secrets/namespace-{:03}/secret-{number:08}", number % 100);
                    store.commit(Change::put(key, value(number))).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

/// The time of opening a store, and the bytes that this reads.
fn open(runtime: &Runtime, folder: &Path, encrypted: bool, rows: u64) -> (Duration, u64) {
    let scratch = tempfile::tempdir_in(folder).unwrap();
    let store = Arc::new(EmbeddedStore::open(scratch.path(), options(encrypted)).unwrap());
    fill(runtime, &store, 64, rows);
    runtime.block_on(store.close()).unwrap();
    drop(store);
    let opened = (0..ROUNDS).map(|_| {
        let (started, read) = (Instant::now(), io_bytes("rchar"));
        let store = EmbeddedStore::open(scratch.path(), options(encrypted)).unwrap();
        let result = (started.elapsed(), io_bytes("rchar") - read);
        assert_eq!(runtime.block_on(store.current_revision()).unwrap(), Revision(rows + 1));
        let started = Instant::now();
        let range = runtime.block_on(store.range(KeyInterval::all(), None, None)).unwrap();
        assert_eq!(range.records.len() as u64, rows);
        println!("  encrypted: {encrypted}; open {:?}, then read all values {:?}", result.0, started.elapsed());
        runtime.block_on(store.close()).unwrap();
        result
    });
    opened.min().unwrap()
}

/// The time of AES-256-GCM for a page.
fn page_cost() -> Duration {
    const PAGES: u32 = 20_000;
    let cipher = Cipher::new(&SecretKey::new([7; 32]));
    let page = vec![0; PAGE_BYTES];
    let round = || {
        let started = Instant::now();
        for number in 0..PAGES {
            let mut nonce = [0; 12];
            nonce[..4].copy_from_slice(&number.to_le_bytes());
            assert!(cipher.seal(nonce, &page, b"").is_ok());
        }
        started.elapsed() / PAGES
    };
    (0..ROUNDS).map(|_| round()).min().unwrap()
}

/// Incompressible bytes.
fn value(number: u64) -> Vec<u8> {
    (0..VALUE_BYTES as u64 / 8).flat_map(|at| scatter(number * 1000 + at).to_le_bytes()).collect()
}

/// Scrambles the bits of a number (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The bytes that this process has read (`rchar`) or written (`wchar`).
fn io_bytes(name: &str) -> u64 {
    let counts = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let count = counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
    count.unwrap_or(0)
}

/// The CPU time of this process (Linux, in ticks of 10 ms), or zero.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11);
    Duration::from_millis(fields.take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}
