//! A run: rounds of writing, while followers follow, others list, and the server goes and comes back; after each round
//! everything that anybody was shown is judged.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_testkit::{Cluster, Options, Protocol};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::dice::Dice;
use crate::follower::{Begin, Follower, Habit, Plan};
use crate::form::Form;
use crate::journal::Journal;
use crate::judge::{Judge, Verdict, same};
use crate::kind::{KINDS, NAMESPACES};
use crate::reader::{self, Listing};
use crate::view::View;
use crate::world::{PATIENCE, World};
use crate::writer::{self, Writer};

/// How many write at the same time, and how many list.
const WRITERS: usize = 6;
const READERS: usize = 3;

/// What a run does.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Bytes of history; 0 is the usual window.
    pub(crate) window: usize,
    /// Whether the server goes and comes back in every round, killed and stopped by turns.
    pub(crate) restarts: bool,
    pub(crate) rounds: usize,
    /// How often is written in a round, by all writers together.
    pub(crate) writes: usize,
    /// How many lists are taken in a round.
    pub(crate) reads: usize,
    /// How many follow.
    pub(crate) followers: usize,
    /// Bytes by which objects are longer than they need to be.
    pub(crate) filler: usize,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) changes: usize,
    pub(crate) events: u64,
    pub(crate) relists: usize,
    pub(crate) gone: usize,
    pub(crate) bookmarks: usize,
    text: String,
}

/// Says, should the run fail, how to have the same one again.
struct Seed<'s>(&'s str, u64);

impl Drop for Seed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("{} failed; PINTLE_SEED={} begins the same run\n", self.0, self.1));
        }
    }
}

/// Writes to standard error even if the test's output is captured.
pub(crate) fn say(text: &str) {
    // A reader that is gone is no reason to fail.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs a scenario to its end, or panics at the first fault.
pub(crate) fn run(scenario: Scenario, seed: u64) -> Tally {
    let _seed = Seed(scenario.name, seed);
    pintle_testkit::run(async move { Run::start(scenario, seed).await.play().await })
}

/// A follower that runs, and its judge.
struct Followed {
    follower: Arc<Follower>,
    judge: Judge,
    task: JoinHandle<()>,
}

struct Run {
    scenario: Scenario,
    world: Arc<World>,
    first: Vec<JoinHandle<()>>,
    followed: Vec<Followed>,
    started: Instant,
}

impl Run {
    async fn start(scenario: Scenario, seed: u64) -> Self {
        let mut options = Options::default();
        if scenario.window > 0 {
            options.window.bytes = scenario.window;
        }
        let cluster = if scenario.restarts {
            Cluster::durable_with_options(options).await
        } else {
            Cluster::with_options(options).await
        };
        for namespace in NAMESPACES {
            let body = json!({"metadata": {"name": namespace}}).to_string();
            let _ = cluster.post("/api/v1/namespaces", body).await.expect(201);
        }
        let world = Arc::new(World::new(cluster, seed, scenario.window > 0));
        let first = |at| Plan {
            view: View::all(at),
            form: Form::Json,
            begin: Begin::WatchList,
            habit: Habit::Eager,
            protocol: Protocol::Any,
            first: true,
        };
        let first = (0..KINDS.len()).map(|at| spawn(&world, &Arc::new(Follower::new(first(at))))).collect();
        let mut begun = world.begun.subscribe();
        let all = tokio::time::timeout(PATIENCE, begun.wait_for(|begun| *begun == KINDS.len())).await;
        assert!(all.is_ok(), "the first watchers begin");
        drop(all);
        drop(begun);
        Self { scenario, world, first, followed: Vec::new(), started: Instant::now() }
    }

    async fn play(mut self) -> Tally {
        for round in 0..self.scenario.rounds {
            let listings = self.round(round).await;
            self.judge_writes();
            self.judge_lists(&listings);
            self.judge_followers().await;
        }
        for task in self.first.iter().chain(self.followed.iter().map(|followed| &followed.task)) {
            task.abort();
        }
        self.tally()
    }

    /// Lets everybody do their part, and waits until nobody writes.
    async fn round(&mut self, round: usize) -> Vec<Listing> {
        let Scenario { writes, reads, restarts, filler, .. } = self.scenario;
        // In every other round, those who do not always listen do not.
        self.world.resting.send_replace(round % 2 == 1);
        self.add_followers(round, 2);
        let running = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (world, done) = (self.world.clone(), running.clone());
                let protocol = if number % 2 == 0 { Protocol::Any } else { Protocol::Http1 };
                let writer = Writer::new(world.seed, round, number, filler);
                tokio::spawn(async move {
                    // In two halves, between which the server goes.
                    let writer = writer.write(&world, protocol, writes / WRITERS / 2).await;
                    done.fetch_add(1, Ordering::Relaxed);
                    writer.write(&world, protocol, writes / WRITERS / 2).await;
                })
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                let world = self.world.clone();
                tokio::spawn(async move { reader::read(&world, round, number, reads / READERS).await })
            })
            .collect();
        // Some come in the middle.
        self.add_followers(round, 1);
        if restarts {
            while running.load(Ordering::Relaxed) == 0 && !writers.iter().any(JoinHandle::is_finished) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.world.restart(round % 3 != 2).await;
        }
        for writer in writers {
            joined(writer).await;
        }
        let mut listings = Vec::new();
        for reader in readers {
            listings.extend(joined(reader).await);
        }
        for (at, ledger) in self.world.ledgers.iter().enumerate() {
            let last = writer::settle(&self.world, at, round).await;
            ledger.reaches(last).await;
        }
        self.world.resting.send_replace(false);
        listings
    }

    /// Adds a share of the followers that are still to come: a half, or all of them.
    fn add_followers(&mut self, round: usize, share: usize) {
        let have = self.followed.len();
        // All have come after a third of the rounds.
        let last = (round + 1) * 3 >= self.scenario.rounds && share == 1;
        let wanted = if last { self.scenario.followers } else { have + (self.scenario.followers - have).div_ceil(3) };
        for number in have..wanted {
            let follower = Arc::new(Follower::new(plan(self.world.seed, number)));
            let task = spawn(&self.world, &follower);
            self.followed.push(Followed { judge: Judge::new(follower.plan.view), follower, task });
        }
    }

    /// Every answer to a write is in the journal as it was given, every version in it was written once.
    fn judge_writes(&self) {
        for (kind, ledger) in KINDS.iter().zip(&self.world.ledgers) {
            let what = kind.plural;
            let journal = ledger.journal();
            for written in ledger.take_written() {
                let change = journal.from(journal.after(written.revision - 1)).first();
                let made = change.filter(|change| change.revision == written.revision).and_then(|change| change.after);
                let made = made.unwrap_or_else(|| panic!("{what}: no event of {written:?}"));
                assert!(written.mark.is_none_or(|mark| made.shape.mark == mark), "{what}: {made:?} is not {written:?}");
            }
            let deleted = journal.from(0).iter().filter(|change| change.after.is_none()).count();
            let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
            let (told, shared) = (count(&ledger.deleted), count(&ledger.shared));
            let at_most = if count(&ledger.unknown) > 0 { usize::MAX } else { told + shared };
            // Pods are marked and then removed: of two who delete one at the same time, both may be told that it is gone.
            let at_least = if what == "pods" { 0 } else { told };
            assert!(
                (at_least..=at_most).contains(&deleted),
                "{what}: {deleted} deletions, {told} and {shared} answered"
            );
            once(what, &journal);
        }
    }

    fn judge_lists(&self, listings: &[Listing]) {
        for listing in listings {
            let Listing { view, what, at, exactly, not_before, items, remaining } = listing;
            let journal = self.world.ledgers[view.at].journal();
            let expect = view.state(&journal, *at);
            if let Err(why) = same(items, &expect) {
                panic!("{what} at {at}: {why}");
            }
            assert!(at >= not_before && exactly.is_none_or(|exactly| *at == exactly), "{what}: is of {at}");
            for (by_then, remaining) in remaining {
                assert_eq!(by_then + remaining, expect.len(), "{what}: {remaining} remain after {by_then}");
            }
        }
    }

    async fn judge_followers(&mut self) {
        for Followed { follower, judge, task } in &mut self.followed {
            loop {
                judge.hear(follower.take());
                let verdict = judge.judge(&self.world.ledgers[follower.plan.view.at].journal());
                match verdict.unwrap_or_else(|why| panic!("{}: {why}", follower.describe())) {
                    Verdict::Complete => break,
                    Verdict::Behind(what) => tokio::select! {
                        heard = follower.hears() => assert!(heard, "{} says no more: {what}", follower.describe()),
                        ended = &mut *task => panic!("{} ended: {ended:?}", follower.describe()),
                    },
                }
            }
        }
        assert!(self.first.iter().all(|task| !task.is_finished()), "a first watcher ended");
    }

    fn tally(&self) -> Tally {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let counts = &self.world.counts;
        let changes = self.world.ledgers.iter().map(|ledger| ledger.journal().len()).sum();
        let events = self.followed.iter().map(|followed| followed.judge.events).sum();
        let text = format!(
            "{}: {changes} changes, {events} events judged, {} followers over {} watches, {} lists, {} bookmarks, \
             {} restarts, {} begun anew, {} lists too old, {:.0} s, {} MB resident at most\n",
            self.scenario.name,
            self.followed.len(),
            count(&counts.watches),
            count(&counts.lists),
            count(&counts.bookmarks),
            count(&counts.restarts),
            count(&counts.relists),
            count(&counts.gone),
            self.started.elapsed().as_secs_f64(),
            peak_memory(),
        );
        Tally {
            changes,
            events,
            relists: count(&counts.relists),
            gone: count(&counts.gone),
            bookmarks: count(&counts.bookmarks),
            text,
        }
    }
}

impl Tally {
    /// Prints what the run came to.
    pub(crate) fn report(&self) {
        say(&self.text);
    }
}

fn spawn(world: &Arc<World>, follower: &Arc<Follower>) -> JoinHandle<()> {
    let (world, follower) = (world.clone(), follower.clone());
    tokio::spawn(async move { follower.follow(&world).await })
}

async fn joined<T>(task: JoinHandle<T>) -> T {
    task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Each combination of a view with what else there is comes up, since the numbers have no common divisor.
fn plan(seed: u64, number: usize) -> Plan {
    let views = View::every();
    let of = |n: usize| (number + Dice::of(seed, "plan", n).roll(n)) % n;
    let habits = [Habit::Eager, Habit::Hops, Habit::Naps, Habit::Brief, Habit::Stalls];
    let begins =
        [Begin::WatchList, Begin::List, Begin::CachedList, Begin::Unset, Begin::WatchList, Begin::Chunks, Begin::Zero];
    let forms =
        [Form::Json, Form::Json, Form::Protobuf, Form::Json, Form::Table, Form::Json, Form::Json, Form::Metadata];
    Plan {
        view: views[(number * 7 + Dice::of(seed, "view", 0).roll(views.len())) % views.len()],
        form: forms[of(8)],
        begin: begins[of(7)],
        habit: habits[of(5)],
        protocol: [Protocol::Any, Protocol::Http1, Protocol::Any][of(3)],
        first: false,
    }
}

/// Each mark comes up where it was written, and stays only with the object.
fn once(what: &str, journal: &Journal) {
    let mut marks = std::collections::HashMap::new();
    for change in journal.from(0) {
        let Some(made) = change.after else { continue };
        let kept = journal.before(change).is_some_and(|before| before.shape.mark == made.shape.mark);
        let other = if kept { None } else { marks.insert(made.shape.mark, change.revision) };
        assert!(other.is_none(), "{what}: what was written at {other:?} came again: {change:?}");
    }
}

/// The most memory that the process has had, server, clients and journal together, in MB; 0 where nobody says.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or_default() / 1024
}
