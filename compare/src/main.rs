//! `cargo xtask compare [--seed N] [--minutes M] [--only AREA[,AREA]] [--keep-going]`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pintle_compare::{AREAS, Difference, Sequence, Servers, random_sequence, run_to_the_end, shrink};

/// The name of the area of random sequences.
const RANDOM: &str = "random";

struct Options {
    seed: u64,
    duration: Duration,
    only: Vec<String>,
    keep_going: bool,
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { seed: 1, duration: Duration::from_secs(60), only: Vec::new(), keep_going: false };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        match argument.as_str() {
            "--seed" => options.seed = number(value()?)?,
            "--minutes" => options.duration = Duration::from_secs(60 * number(value()?)?),
            "--only" => {
                for name in value()?.split(',') {
                    if name != RANDOM && AREAS.iter().all(|area| area.name != name) {
                        return Err(format!("unknown area {name}\n{}", usage()));
                    }
                    options.only.push(name.to_owned());
                }
            }
            "--keep-going" => options.keep_going = true,
            other => return Err(format!("unknown argument {other}\n{}", usage())),
        }
    }
    Ok(options)
}

fn usage() -> String {
    let mut text = String::from(
        "usage: compare [--seed N] [--minutes M] [--only AREA[,AREA]] [--keep-going]\nareas:\n  random: sequences made from the seed, for M minutes (1)",
    );
    for area in AREAS {
        text.push_str(&format!("\n  {}: {}", area.name, area.description));
    }
    text
}

fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// How many sequences run at the same time. The Go API server delays the first create after a definition by two
/// seconds.
const WORKERS: usize = 8;

/// The sequences that are to be run, and what was found. All workers share it.
struct Run {
    servers: Servers,
    tables: Mutex<Vec<Sequence>>,
    next_seed: AtomicU64,
    /// When no more random sequence begins.
    end: Instant,
    keep_going: bool,
    requests: AtomicUsize,
    sequences: AtomicUsize,
    differences: AtomicUsize,
}

impl Run {
    /// The next sequence: the tables first, then random ones until the time is over.
    fn next(&self) -> Option<Sequence> {
        if !self.keep_going && self.differences.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let table = self.tables.lock().ok()?.pop();
        table.or_else(|| {
            (Instant::now() < self.end).then(|| random_sequence(self.next_seed.fetch_add(1, Ordering::Relaxed)))
        })
    }

    async fn work(self: Arc<Self>) {
        while let Some(sequence) = self.next() {
            self.sequences.fetch_add(1, Ordering::Relaxed);
            self.requests.fetch_add(sequence.steps.len(), Ordering::Relaxed);
            let found = run_to_the_end(&self.servers, &sequence).await;
            if found.is_empty() {
                continue;
            }
            // A difference counts if it can be shown again.
            let again = run_to_the_end(&self.servers, &sequence).await;
            let shown = found.into_iter().filter(|found| again.iter().any(|other| other.step.name == found.step.name));
            self.report(&sequence, shown.collect()).await;
        }
    }

    /// Prints the differences of a sequence: all of a table, the first of a random sequence after it was shortened.
    async fn report(&self, sequence: &Sequence, differences: Vec<Difference>) {
        let Some(first) = differences.first() else { return };
        self.differences.fetch_add(1, Ordering::Relaxed);
        if self.keep_going && !sequence.name.starts_with(RANDOM) {
            for difference in differences {
                print(&format!("DIFFERENCE {}, {difference}\n", sequence.name));
            }
            return;
        }
        let (shortest, difference) = shrink(&self.servers, sequence, first.clone()).await;
        print(&format!("DIFFERENCE {shortest}{difference}\n"));
    }
}

async fn compare(options: Options) -> bool {
    let is_selected = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let started = Instant::now();
    let mut tables: Vec<Sequence> =
        AREAS.iter().filter(|area| is_selected(area.name)).flat_map(pintle_compare::Area::sequences).collect();
    tables.reverse();
    let run = Arc::new(Run {
        servers: Servers::start().await,
        tables: Mutex::new(tables),
        next_seed: AtomicU64::new(options.seed),
        end: if is_selected(RANDOM) { started + options.duration } else { started },
        keep_going: options.keep_going,
        requests: AtomicUsize::new(0),
        sequences: AtomicUsize::new(0),
        differences: AtomicUsize::new(0),
    });
    let workers: Vec<_> = (0..WORKERS).map(|_| tokio::spawn(run.clone().work())).collect();
    for worker in workers {
        worker.await.expect("a worker does not panic");
    }
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    print(&format!(
        "{} requests in {} sequences, {} sequences differ, {:.0} s",
        count(&run.requests),
        count(&run.sequences),
        count(&run.differences),
        started.elapsed().as_secs_f64()
    ));
    count(&run.differences) == 0
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments) {
        Ok(options) => {
            let is_equal = pintle_testkit::run(compare(options));
            if is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            print(&message);
            ExitCode::from(2)
        }
    }
}
