//! Runs the fuzz targets with many inputs, on all processors: `cargo xtask fuzz`. Prints a line per target, and each
//! distinct finding with its first input.
#![allow(clippy::print_stdout)] // the output is a report

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pintle_fuzz::{Finding, FuzzTarget, Inputs, TARGETS, check, record_panics};

/// An input that takes longer than this is a finding.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The number of findings after which a target is not run further.
const MAX_FINDINGS: usize = 50;

/// The number of bytes of an input that are printed.
const MAX_SHOWN: usize = 2_000;

/// The number of executions in a part of a target's run. Parts are small, so that all processors are used until the
/// end.
const PART: u64 = 100_000;

/// A part of the executions of a target.
struct Part {
    target: usize,
    executions: u64,
    seed: u64,
}

/// The progress of a target so far.
#[derive(Default)]
struct Progress {
    executions: u64,
    time: Duration,
    longest: Duration,
    parts_left: usize,
    findings: usize,
    distinct: BTreeMap<Finding, Vec<u8>>,
}

fn main() -> ExitCode {
    let (mut executions, mut seed, mut only) = (1_000_000, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        match name.as_str() {
            "--executions" => executions = value.parse().expect("a number of executions"),
            "--seed" => seed = value.parse().expect("a seed"),
            "--only" => only = value.split(',').map(str::to_owned).collect(),
            other => panic!("unknown argument {other}"),
        }
    }
    let chosen: Vec<&FuzzTarget> =
        TARGETS.iter().filter(|target| only.is_empty() || only.iter().any(|name| name == target.name)).collect();
    assert!(!chosen.is_empty(), "no such target");
    let mut parts = Vec::new();
    let mut progress = Vec::new();
    for target in 0..chosen.len() {
        let before = parts.len();
        let mut left: u64 = executions;
        while left > 0 {
            let size = left.min(PART);
            // Each part has its own inputs.
            parts.push(Part { target, executions: size, seed: seed * 1_000_003 + left });
            left -= size;
        }
        progress.push(Mutex::new(Progress { parts_left: parts.len() - before, ..Progress::default() }));
    }
    record_panics();
    let (parts, next, failed) = (Arc::new(parts), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let work = || {
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let target = chosen[part.target];
                    run_part(target, part, &progress[part.target], &failed);
                }
            };
            pintle_value::threads::thread_builder("fuzz").spawn_scoped(scope, work).expect("a thread");
        }
    });
    if failed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run_part(target: &FuzzTarget, part: &Part, progress: &Mutex<Progress>, failed: &AtomicBool) {
    let lock = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let mut inputs = Inputs::new(target, part.seed);
    let (started, mut longest, mut done) = (Instant::now(), Duration::ZERO, 0);
    let has_failed = lock().findings >= MAX_FINDINGS;
    for _ in 0..if has_failed { 0 } else { part.executions } {
        let input = inputs.next_input();
        let begun = Instant::now();
        let checked = check(target, &input, TIME_LIMIT);
        longest = longest.max(begun.elapsed());
        done += 1;
        let Err(finding) = checked else { continue };
        failed.store(true, Ordering::Relaxed);
        let mut progress = lock();
        progress.findings += 1;
        // Messages contain the input, so findings are distinguished by their place in the code.
        let kind = match &finding {
            Finding::Panicked(text) => Finding::Panicked(text.split(": ").next().unwrap_or_default().to_owned()),
            Finding::Slow => Finding::Slow,
        };
        if progress.distinct.insert(kind, input.clone()).is_none() {
            // Printing all of a long input would hide the rest of the report.
            let shown = input[..input.len().min(MAX_SHOWN)].escape_ascii();
            println!("{}: {finding:?}\n  seed {}, {} bytes: b\"{shown}\"", target.name, part.seed, input.len());
        }
        if progress.findings >= MAX_FINDINGS {
            break;
        }
    }
    let mut progress = lock();
    progress.executions += done;
    progress.time += started.elapsed();
    progress.longest = progress.longest.max(longest);
    progress.parts_left -= 1;
    if progress.parts_left == 0 {
        let Progress { executions, time, longest, findings, distinct, .. } = &*progress;
        println!(
            "{:24} {executions:>10} executions, {:>7.1} s, longest {:>6.1} ms, {findings} findings ({} distinct)",
            target.name,
            time.as_secs_f64(),
            longest.as_secs_f64() * 1e3,
            distinct.len(),
        );
    }
}
