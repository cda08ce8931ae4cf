//! Runs a target with mutations of its seeds.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::{FuzzTarget, Random, mutate};

/// The maximum length of an input in the corpus. Mutating longer inputs again and again would be slow.
const MAX_CORPUS_INPUT: usize = 4096;

/// The number of inputs in the corpus besides the seeds.
const CORPUS_SIZE: usize = 64;

/// An endless sequence of inputs for a target: its seeds, then their mutations. The same seed gives the same inputs.
#[derive(Debug)]
pub struct Inputs {
    random: Random,
    seeds: Vec<Vec<u8>>,
    /// The seeds and some of their mutations.
    corpus: Vec<Vec<u8>>,
    next_seed: usize,
}

impl Inputs {
    /// Creates the inputs of a target.
    #[must_use]
    pub fn new(target: &FuzzTarget, seed: u64) -> Self {
        let seeds = (target.seeds)();
        Self { random: Random::new(seed), corpus: seeds.clone(), seeds, next_seed: 0 }
    }

    /// Makes the next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        if let Some(seed) = self.seeds.get(self.next_seed) {
            self.next_seed += 1;
            return seed.clone();
        }
        // Most mutations start from a seed: after a few of them, hardly any input is still valid.
        let start = if self.random.once_in(4) { self.corpus.len() } else { self.seeds.len() };
        let (one, other) = (self.random.below(start), self.random.below(self.seeds.len()));
        let input = mutate(&mut self.random, &self.corpus[one], &self.seeds[other]);
        // Sometimes add the input to the corpus.
        if self.random.once_in(8) && input.len() < MAX_CORPUS_INPUT {
            let index = self.seeds.len() + self.random.below(CORPUS_SIZE);
            if index < self.corpus.len() {
                self.corpus[index].clone_from(&input);
            } else {
                self.corpus.push(input.clone());
            }
        }
        input
    }
}

/// The reason why an input is a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// The target panicked. The text is the place and the message of the panic.
    Panicked(String),
    /// The target took longer than the limit.
    Slow,
}

thread_local! {
    /// The place and the message of the thread's last panic.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Records panics instead of printing them, for [`check`].
pub fn record_panics() {
    static ONCE: Once = Once::new();
    let record = |info: &PanicHookInfo<'_>| {
        let message = info.payload_as_str().unwrap_or_default();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        LAST_PANIC.with(|last| *last.borrow_mut() = format!("{place}: {message}"));
    };
    ONCE.call_once(|| {
        drop(take_hook());
        set_hook(Box::new(record));
    });
}

/// Runs a target with an input.
///
/// # Errors
/// Returns why the input is a finding: the target panics, or needs more time than the limit. An input that seems slow
/// is run again to measure the time on the processor, since the machine may be busy.
pub fn check(target: &FuzzTarget, input: &[u8], limit: Duration) -> Result<(), Finding> {
    let run = || {
        let result = catch_unwind(AssertUnwindSafe(|| target.run(input)));
        result.map_err(|_| Finding::Panicked(LAST_PANIC.with(RefCell::take)))
    };
    let started = Instant::now();
    run()?;
    if started.elapsed() <= limit {
        return Ok(());
    }
    let (started, started_on_processor) = (Instant::now(), time_on_processor());
    run()?;
    let used = match (started_on_processor, time_on_processor()) {
        (Some(from), Some(to)) => to.saturating_sub(from),
        _ => started.elapsed(),
    };
    if used > limit { Err(Finding::Slow) } else { Ok(()) }
}

/// The time that this thread has spent on a processor; `None` where the system does not report it.
fn time_on_processor() -> Option<Duration> {
    let numbers = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(numbers.split(' ').next()?.parse().ok()?))
}
