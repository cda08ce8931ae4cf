//! Runs the tables and random sequences, several at a time, and collects the differences.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::areas::{AREAS, Area};
use crate::random::{random_aggregation_sequence, random_sequence};
use crate::run::{Difference, run_to_the_end};
use crate::sequence::{RANDOM, RANDOM_AGGREGATION, Sequence};
use crate::server::Servers;
use crate::shrink::shrink;

/// The scope of a comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the first random sequence. The next seeds follow. Each seed makes a sequence of each kind.
    pub seed: u64,
    /// How long new random sequences are started.
    pub duration: Duration,
    /// The maximum number of seeds.
    pub limit: u64,
    /// The areas. Empty means all.
    pub only: Vec<String>,
    /// True to go on after the first difference, and to report all differences of a table.
    pub keep_going: bool,
    /// True to let both servers serve CBOR (the feature gate `CBORServingAndStorage`), and to use it in random
    /// sequences.
    pub cbor: bool,
    /// Called with the text of each difference when it is found.
    pub report: fn(&str),
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Outcome {
    /// The number of requests that each server received, without the requests that shorten sequences.
    pub requests: usize,
    /// The number of sequences.
    pub sequences: usize,
    /// The differences, as they were reported.
    pub differences: Vec<String>,
}

/// The number of sequences that run at the same time. The Go API server delays the first create after a CRD by two
/// seconds.
const WORKERS: usize = 8;

/// The sequences to run, and the results. All workers share this struct.
struct Run {
    /// The servers for most sequences. `None` if there are no such sequences.
    servers: Option<Servers>,
    /// The servers for the sequences with other API servers.
    aggregating: Option<Servers>,
    tables: Mutex<Vec<Sequence>>,
    /// The kinds of random sequences.
    random: Vec<&'static str>,
    /// The number of the random sequences that have begun.
    random_count: AtomicU64,
    first_seed: u64,
    /// The time after which no random sequence begins.
    end: Instant,
    /// The seed after the last seed.
    last_seed: u64,
    keep_going: bool,
    cbor: bool,
    report: fn(&str),
    requests: AtomicUsize,
    sequences: AtomicUsize,
    differences: Mutex<Vec<String>>,
}

impl Run {
    /// The next sequence: the tables first, then random ones until the time is over.
    fn next(&self) -> Option<Sequence> {
        if !self.keep_going && !self.differences.lock().ok()?.is_empty() {
            return None;
        }
        let table = self.tables.lock().ok()?.pop();
        table.or_else(|| self.next_random())
    }

    fn next_random(&self) -> Option<Sequence> {
        let number = usize::try_from(self.random_count.fetch_add(1, Ordering::Relaxed)).ok()?;
        let kind = *self.random.get(number % self.random.len().max(1))?;
        let seed = self.first_seed + (number / self.random.len()) as u64;
        if Instant::now() >= self.end || seed >= self.last_seed {
            return None;
        }
        Some(if kind == RANDOM { random_sequence(seed, self.cbor) } else { random_aggregation_sequence(seed) })
    }

    /// The servers for a sequence.
    fn servers(&self, sequence: &Sequence) -> &Servers {
        let servers = if sequence.is_aggregation() { &self.aggregating } else { &self.servers };
        servers.as_ref().expect("servers for all sequences")
    }

    async fn work(self: Arc<Self>) {
        while let Some(sequence) = self.next() {
            self.sequences.fetch_add(1, Ordering::Relaxed);
            self.requests.fetch_add(sequence.steps.len(), Ordering::Relaxed);
            let mut found = run_to_the_end(self.servers(&sequence), &sequence).await;
            // A difference counts only if two more runs show it: the wall clock may have passed a second at a bad
            // moment.
            for _ in 0..2 {
                if found.is_empty() {
                    break;
                }
                let again = run_to_the_end(self.servers(&sequence), &sequence).await;
                found.retain(|found| again.iter().any(|other| other.step.name == found.step.name));
            }
            self.report(&sequence, found).await;
        }
    }

    /// Reports the differences of a sequence: all differences of a table, or the first difference of a random sequence
    /// after shortening it.
    async fn report(&self, sequence: &Sequence, differences: Vec<Difference>) {
        let Some(first) = differences.first() else { return };
        if self.keep_going && !sequence.is_random() {
            for difference in differences {
                self.add(format!("DIFFERENCE {}, {difference}\n", sequence.name));
            }
            return;
        }
        let (shortest, difference) = shrink(self.servers(sequence), sequence, first.clone()).await;
        self.add(format!("DIFFERENCE {shortest}{difference}\n"));
    }

    fn add(&self, difference: String) {
        (self.report)(&difference);
        if let Ok(mut differences) = self.differences.lock() {
            differences.push(difference);
        }
    }
}

/// Starts both servers and compares them.
///
/// # Panics
/// Panics if a server does not start or a table cannot be read.
pub async fn compare(options: Options) -> Outcome {
    let is_selected = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut tables: Vec<Sequence> =
        AREAS.iter().filter(|area| is_selected(area.name)).flat_map(Area::sequences).collect();
    tables.reverse();
    let random: Vec<&str> = [RANDOM, RANDOM_AGGREGATION].into_iter().filter(|kind| is_selected(kind)).collect();
    let needs = |aggregation: bool| {
        let kind = if aggregation { RANDOM_AGGREGATION } else { RANDOM };
        random.contains(&kind) || tables.iter().any(|table| table.is_aggregation() == aggregation)
    };
    let (servers, aggregating) =
        tokio::join!(async { if needs(false) { Some(Servers::start(options.cbor).await) } else { None } }, async {
            if needs(true) { Some(Servers::start_aggregating(options.cbor).await) } else { None }
        },);
    let run = Arc::new(Run {
        servers,
        aggregating,
        tables: Mutex::new(tables),
        random,
        random_count: AtomicU64::new(0),
        first_seed: options.seed,
        end: Instant::now() + options.duration,
        last_seed: options.seed.saturating_add(options.limit),
        keep_going: options.keep_going,
        cbor: options.cbor,
        report: options.report,
        requests: AtomicUsize::new(0),
        sequences: AtomicUsize::new(0),
        differences: Mutex::new(Vec::new()),
    });
    let workers: Vec<_> = (0..WORKERS).map(|_| tokio::spawn(run.clone().work())).collect();
    for worker in workers {
        worker.await.expect("a worker does not panic");
    }
    let run = Arc::into_inner(run).expect("all workers have ended");
    for servers in [run.servers, run.aggregating].into_iter().flatten() {
        servers.stop().await;
    }
    Outcome {
        requests: run.requests.into_inner(),
        sequences: run.sequences.into_inner(),
        differences: run.differences.into_inner().unwrap_or_default(),
    }
}
