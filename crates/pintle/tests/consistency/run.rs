//! A run of a workload: rounds in which writers write, reflectors watch, listers list, and the server restarts. After
//! each round, all observations are checked against the recorded history.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_integration::{Cluster, Options, ProcessMemory, Protocol};
use pintle_store::Vfs;
use pintle_store_powerloss::Disk;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::checker::{CheckResult, HistoryChecker, check_list};
use crate::crds::CrdWriter;
use crate::faults;
use crate::format::ResponseFormat;
use crate::history::History;
use crate::kind::{self, KINDS, NAMESPACES};
use crate::lister::{self, ListResult};
use crate::query::ResourceQuery;
use crate::random::SeededRandom;
use crate::reflector::{InitialState, Reflector, ReflectorConfig, WatchPattern};
use crate::replicas::Replicas;
use crate::shared::{SharedState, TIMEOUT};
use crate::writer::{self, Writer};

/// The number of concurrent writers.
const WRITERS: usize = 6;
/// The number of concurrent listers.
const LISTERS: usize = 3;
/// The maximum time after which a starting server's process is killed.
const MAX_KILLED_START: Duration = Duration::from_millis(400);

/// The number of rounds after which a long run reports its progress.
const PROGRESS_INTERVAL: usize = 50;

/// The fault of every round, while clients read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    None,
    /// The server restarts, gracefully in each third round and killed in the others.
    Restarts,
    /// The disk fails.
    DiskFaults,
    /// The server is a process of the binary, which gets SIGKILL at a random moment.
    Kills,
    /// There are several servers over an etcd of several members. Members, servers and the connections between them
    /// fail.
    EtcdFaults {
        /// Whether etcd compacts its history during a fault. A disconnected server then has to read everything again.
        compactions: bool,
    },
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The size of the watch history in bytes; 0 for the default.
    pub(crate) history_bytes: usize,
    pub(crate) disturbance: Disturbance,
    pub(crate) rounds: usize,
    /// The number of writes in a round, by all writers together.
    pub(crate) writes: usize,
    /// The number of lists in a round, by all listers together.
    pub(crate) lists: usize,
    pub(crate) reflectors: usize,
    /// The number of bytes that are added to each object.
    pub(crate) padding: usize,
}

/// The counts of a run.
#[derive(Debug)]
pub(crate) struct RunSummary {
    pub(crate) changes: usize,
    /// Checked events.
    pub(crate) events: u64,
    pub(crate) relists: usize,
    pub(crate) expired_lists: usize,
    pub(crate) bookmarks: usize,
    text: String,
}

/// Prints the command that repeats a failed run.
struct SeedReporter<'s> {
    scenario: &'s str,
    seed: u64,
}

impl Drop for SeedReporter<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            write_stderr(&format!("{} failed; repeat it with PINTLE_SEED={}\n", self.scenario, self.seed));
        }
    }
}

/// Writes to standard error even if the test's output is captured.
pub(crate) fn write_stderr(text: &str) {
    // A closed standard error does not fail the test.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs a scenario. Panics at the first violation.
pub(crate) fn run(scenario: Scenario, seed: u64) -> RunSummary {
    let _seed = SeedReporter { scenario: scenario.name, seed };
    pintle_integration::run(async move { WorkloadRun::start(scenario, seed).await.run().await })
}

/// A running reflector and its checker.
struct RunningReflector {
    reflector: Arc<Reflector>,
    checker: HistoryChecker,
    task: JoinHandle<()>,
}

struct WorkloadRun {
    scenario: Scenario,
    /// The disk, if it fails in this run.
    disk: Option<Disk>,
    /// The etcd, if it fails in this run.
    replicas: Option<Replicas>,
    shared: Arc<SharedState>,
    /// The tasks of the reference reflectors, one for each kind.
    references: Vec<JoinHandle<()>>,
    reflectors: Vec<RunningReflector>,
    /// The client that writes CRDs, between its runs.
    crds: Option<CrdWriter>,
    started: Instant,
}

impl WorkloadRun {
    async fn start(scenario: Scenario, seed: u64) -> Self {
        let mut options = Options::default();
        if scenario.history_bytes > 0 {
            options.history.bytes = scenario.history_bytes;
        }
        let disturbance = scenario.disturbance;
        let disk = (disturbance == Disturbance::DiskFaults).then(|| faults::disk(scenario.name));
        options.vfs =
            disk.as_ref().map(|_| Vfs { name: scenario.name.to_owned(), rewrite: Disk::rewrite, write: Disk::write });
        let mut replicas = None;
        let servers = match disturbance {
            Disturbance::None => vec![Cluster::with_options(options).await],
            Disturbance::Restarts | Disturbance::DiskFaults => vec![Cluster::durable_with_options(options).await],
            Disturbance::Kills => vec![Cluster::of_process(Path::new(env!("CARGO_BIN_EXE_pintle")), options).await],
            Disturbance::EtcdFaults { compactions } => {
                let (started, servers) = Replicas::start(&options, seed, compactions).await;
                replicas = Some(started);
                servers
            }
        };
        let cluster = &servers[0];
        for namespace in NAMESPACES {
            let body = json!({"metadata": {"name": namespace}}).to_string();
            let _ = cluster.post("/api/v1/namespaces", body).await.expect(201);
            if disturbance == Disturbance::Kills {
                // The binary's admission of pods needs the service account.
                let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
                cluster.get_until_status(&account, 200).await;
            }
        }
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, kind::crd().to_string()).await.expect(201);
        for server in &servers {
            for kind in KINDS {
                server.get_until_status(&kind.path(None), 200).await;
            }
        }
        let has_short_history =
            scenario.history_bytes > 0 || disturbance == Disturbance::EtcdFaults { compactions: true };
        let shared = Arc::new(SharedState::new(servers, seed, has_short_history));
        let config = |kind_index| ReflectorConfig {
            query: ResourceQuery::all(kind_index),
            format: ResponseFormat::Json,
            initial_state: InitialState::WatchList,
            pattern: WatchPattern::Continuous,
            protocol: Protocol::Any,
            is_reference: true,
        };
        let spawn_reference = |kind_index| spawn(&shared, &Arc::new(Reflector::new(config(kind_index))));
        let references = (0..KINDS.len()).map(spawn_reference).collect();
        let mut started = shared.started_references.subscribe();
        let all_started = tokio::time::timeout(TIMEOUT, started.wait_for(|count| *count == KINDS.len())).await;
        assert!(all_started.is_ok(), "the reference reflectors start");
        drop(all_started);
        drop(started);
        let crds = (disturbance == Disturbance::Kills).then(|| CrdWriter::new(seed));
        let (reflectors, started) = (Vec::new(), Instant::now());
        Self { scenario, disk, replicas, shared, references, reflectors, crds, started }
    }

    async fn run(mut self) -> RunSummary {
        for round in 0..self.scenario.rounds {
            let lists = self.run_round(round).await;
            self.check_writes();
            self.check_lists(&lists);
            self.check_reflectors().await;
            if (round + 1).is_multiple_of(PROGRESS_INTERVAL) {
                self.report_progress(round + 1);
            }
        }
        for task in self.references.iter().chain(self.reflectors.iter().map(|running| &running.task)) {
            task.abort();
        }
        self.summary()
    }

    /// Runs the workload of a round, and waits until all writes are recorded.
    async fn run_round(&mut self, round: usize) -> Vec<ListResult> {
        let Scenario { writes, lists, disturbance, padding, .. } = self.scenario;
        // Reflectors that pause do so in every other round.
        self.shared.paused.send_replace(round % 2 == 1);
        self.add_reflectors(round, false);
        self.shared.is_disturbed.store(self.replicas.is_some(), Ordering::Relaxed);
        let half_done = Arc::new(AtomicUsize::new(0));
        let first_request = self.shared.counters.requests.load(Ordering::Relaxed);
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (shared, half_done) = (self.shared.clone(), half_done.clone());
                let protocol = if number % 2 == 0 { Protocol::Any } else { Protocol::Http1 };
                let writer = Writer::new(shared.seed, round, number, padding);
                tokio::spawn(async move {
                    // The server restarts after the first half.
                    let writer = writer.write(&shared, protocol, writes / WRITERS / 2).await;
                    half_done.fetch_add(1, Ordering::Relaxed);
                    let mut writer = writer.write(&shared, protocol, writes / WRITERS / 2).await;
                    while shared.is_disturbed.load(Ordering::Relaxed) {
                        writer = writer.write(&shared, protocol, 1).await;
                    }
                })
            })
            .collect();
        let listers: Vec<_> = (0..LISTERS)
            .map(|number| {
                let shared = self.shared.clone();
                tokio::spawn(async move { lister::run(&shared, round, number, lists / LISTERS).await })
            })
            .collect();
        let crds = self.crds.take().map(|crds| {
            let shared = self.shared.clone();
            tokio::spawn(async move { crds.write(&shared, writes / WRITERS / 2).await })
        });
        // More reflectors start while others write.
        self.add_reflectors(round, true);
        if let Some(replicas) = &mut self.replicas {
            replicas.inject(&self.shared, round).await;
            self.shared.is_disturbed.store(false, Ordering::Relaxed);
        }
        if disturbance == Disturbance::Restarts || self.disk.is_some() {
            while half_done.load(Ordering::Relaxed) == 0 && !writers.iter().any(JoinHandle::is_finished) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            match &self.disk {
                Some(disk) => faults::inject(&self.shared, disk, round).await,
                None => self.shared.restart(round % 3 != 2).await,
            }
        }
        if disturbance == Disturbance::Kills {
            self.kill(round, first_request, &writers).await;
        }
        for writer in writers {
            join(writer).await;
        }
        if let Some(crds) = crds {
            self.crds = Some(join(crds).await);
        }
        let mut results = Vec::new();
        for lister in listers {
            results.extend(join(lister).await);
        }
        let mut newest = 0;
        for (kind_index, record) in self.shared.records.iter().enumerate() {
            let last = writer::write_final_change(&self.shared, kind_index, round).await;
            record.wait_for_revision(last).await;
            newest = newest.max(last);
        }
        self.shared.end_round(newest);
        if self.replicas.is_some() {
            for server in &self.shared.servers {
                // After this consistent read, the server is up to date.
                server.get_until_status(&KINDS[0].path(None), 200).await;
            }
            self.shared.caught_up.store(newest, Ordering::Relaxed);
        }
        self.shared.paused.send_replace(false);
        results
    }

    /// Kills the server's process after a random number of requests since the first of the round.
    async fn kill(&self, round: usize, first_request: usize, writers: &[JoinHandle<()>]) {
        let mut random = SeededRandom::for_part(self.shared.seed, "kill", round);
        let requests = first_request + random.below(self.scenario.writes);
        while self.shared.counters.requests.load(Ordering::Relaxed) < requests
            && !writers.iter().any(JoinHandle::is_finished)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The next request may be in any state.
        tokio::time::sleep(Duration::from_micros(random.below(5000) as u64)).await;
        let mut killed_starts = Vec::new();
        while random.one_in(4) {
            killed_starts.push(MAX_KILLED_START.mul_f64(random.below(1000) as f64 / 1000.0));
        }
        self.shared.kill_process(&killed_starts).await;
    }

    /// Starts a third of the remaining reflectors; all of them if `while_writing` is set and a third of the rounds is
    /// over.
    fn add_reflectors(&mut self, round: usize, while_writing: bool) {
        let count = self.reflectors.len();
        let is_last = (round + 1) * 3 >= self.scenario.rounds && while_writing;
        let remaining = self.scenario.reflectors - count;
        let target = if is_last { self.scenario.reflectors } else { count + remaining.div_ceil(3) };
        for number in count..target {
            let reflector = Arc::new(Reflector::new(reflector_config(self.shared.seed, number)));
            let task = spawn(&self.shared, &reflector);
            let checker = HistoryChecker::new(reflector.config.query);
            self.reflectors.push(RunningReflector { reflector, checker, task });
        }
    }

    /// Checks that every acknowledged write is in the history, and that every version was written once.
    fn check_writes(&self) {
        for (kind, record) in KINDS.iter().zip(&self.shared.records) {
            let plural = kind.plural;
            let history = record.history();
            for write in record.take_writes() {
                let change = history.changes_from(history.index_after(write.revision - 1)).first();
                let version = change.filter(|change| change.revision == write.revision).and_then(|change| change.after);
                let version = version.unwrap_or_else(|| panic!("{plural}: no event for {write:?}"));
                let has_write_id = write.write_id.is_none_or(|write_id| version.attributes.write_id == write_id);
                assert!(has_write_id, "{plural}: {version:?} is not {write:?}");
            }
            let deleted = history.changes_from(0).iter().filter(|change| change.after.is_none()).count();
            let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
            let (acknowledged, ambiguous) = (count(&record.deleted), count(&record.ambiguous_deletes));
            let at_most = if count(&record.unanswered) > 0 { usize::MAX } else { acknowledged + ambiguous };
            // A pod is deleted in two writes. The server may acknowledge its removal to two concurrent requests.
            let at_least = if plural == "pods" { 0 } else { acknowledged };
            assert!(
                (at_least..=at_most).contains(&deleted),
                "{plural}: {deleted} deletions, {acknowledged} acknowledged, {ambiguous} ambiguous"
            );
            check_write_ids(plural, &history);
            let refused = record.refused();
            let stored = history.changes_from(0).iter().filter_map(|change| change.after);
            let wrong = stored.map(|version| version.attributes.write_id).find(|write_id| refused.contains(write_id));
            assert!(wrong.is_none(), "{plural}: the write {wrong:?} was refused, and is stored");
        }
    }

    fn check_lists(&self, lists: &[ListResult]) {
        for list in lists {
            let ListResult { query, description, revision, exact_revision, min_revision, items, foreign, .. } = list;
            let history = self.shared.records[query.kind_index].history();
            let expected = query.objects_at(&history, *revision);
            if let Err(violation) = check_list(items, &expected) {
                panic!("{description} at {revision}: {violation}");
            }
            let is_exact = exact_revision.is_none_or(|exact| *revision == exact);
            assert!(revision >= min_revision && is_exact, "{description}: wrong revision {revision}");
            for (listed, remaining) in &list.remaining_item_counts {
                let total = expected.len() + foreign;
                assert_eq!(listed + remaining, total, "{description}: {remaining} remain after {listed}");
            }
        }
    }

    async fn check_reflectors(&mut self) {
        for RunningReflector { reflector, checker, task } in &mut self.reflectors {
            loop {
                checker.add(reflector.take_observations());
                let result = checker.check(&self.shared.records[reflector.config.query.kind_index].history());
                match result.unwrap_or_else(|violation| panic!("{}: {violation}", reflector.describe())) {
                    CheckResult::Complete => break,
                    CheckResult::Incomplete(missing) => tokio::select! {
                        is_observed = reflector.wait_for_observation() => {
                            assert!(is_observed, "{} observes nothing more: {missing}", reflector.describe());
                        }
                        result = &mut *task => panic!("{} ended: {result:?}", reflector.describe()),
                    },
                }
            }
        }
        assert!(self.references.iter().all(|task| !task.is_finished()), "a reference reflector ended");
    }

    /// Prints the progress of a long run.
    fn report_progress(&self, rounds: usize) {
        let changes: usize = self.shared.records.iter().map(|record| record.history().len()).sum();
        write_stderr(&format!(
            "{}: {rounds} of {} rounds, {changes} changes, {:.0} s, {} MB peak resident memory\n",
            self.scenario.name,
            self.scenario.rounds,
            self.started.elapsed().as_secs_f64(),
            peak_memory(),
        ));
    }

    fn summary(&self) -> RunSummary {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        let changes = self.shared.records.iter().map(|record| record.history().len()).sum();
        let events = self.reflectors.iter().map(|running| running.checker.events).sum();
        let text = format!(
            "{}: {changes} changes, {events} checked events, {} reflectors, {} watches, {} lists, {} bookmarks, \
             {} restarts (the longest start {} ms), {} acknowledged writes of CRDs, {} relists, {} expired lists, \
             {:.0} s, {} MB peak resident memory\n",
            self.scenario.name,
            self.reflectors.len(),
            count(&counters.watches),
            count(&counters.lists),
            count(&counters.bookmarks),
            count(&counters.restarts),
            count(&counters.longest_start),
            self.crds.as_ref().map_or(0, |crds| crds.acknowledged),
            count(&counters.relists),
            count(&counters.expired_lists),
            self.started.elapsed().as_secs_f64(),
            peak_memory(),
        );
        RunSummary {
            changes,
            events,
            relists: count(&counters.relists),
            expired_lists: count(&counters.expired_lists),
            bookmarks: count(&counters.bookmarks),
            text,
        }
    }
}

impl RunSummary {
    /// Prints the summary.
    pub(crate) fn print(&self) {
        write_stderr(&self.text);
    }
}

fn spawn(shared: &Arc<SharedState>, reflector: &Arc<Reflector>) -> JoinHandle<()> {
    let (shared, reflector) = (shared.clone(), reflector.clone());
    tokio::spawn(async move { reflector.run(&shared).await })
}

async fn join<T>(task: JoinHandle<T>) -> T {
    task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// The configuration of a reflector. The lengths of the lists have no common divisor. So every combination occurs if
/// there are enough reflectors.
fn reflector_config(seed: u64, number: usize) -> ReflectorConfig {
    let queries = ResourceQuery::every();
    let index = |length: usize| (number + SeededRandom::for_part(seed, "config", length).below(length)) % length;
    let patterns = [
        WatchPattern::Continuous,
        WatchPattern::FewEvents,
        WatchPattern::Disconnects,
        WatchPattern::ShortTimeout,
        WatchPattern::StopsReading,
    ];
    let initial_states = [
        InitialState::WatchList,
        InitialState::List,
        InitialState::CachedList,
        InitialState::WatchWithoutRevision,
        InitialState::WatchList,
        InitialState::ChunkedList,
        InitialState::WatchFromZero,
    ];
    let formats = [
        ResponseFormat::Json,
        ResponseFormat::Json,
        ResponseFormat::Protobuf,
        ResponseFormat::Json,
        ResponseFormat::Table,
        ResponseFormat::Json,
        ResponseFormat::Json,
        ResponseFormat::Metadata,
    ];
    let offset = SeededRandom::for_part(seed, "query", 0).below(queries.len());
    let query = queries[(number * 7 + offset) % queries.len()];
    ReflectorConfig {
        query,
        format: formats[index(8)].for_kind(query.kind()),
        initial_state: initial_states[index(7)],
        pattern: patterns[index(5)],
        protocol: [Protocol::Any, Protocol::Http1, Protocol::Any][index(3)],
        is_reference: false,
    }
}

/// Checks that each write identifier appears once, and then only in later versions of the same object.
fn check_write_ids(plural: &str, history: &History) {
    let mut write_ids = std::collections::HashMap::new();
    for change in history.changes_from(0) {
        let Some(version) = change.after else { continue };
        let write_id = version.attributes.write_id;
        let is_unchanged = history.version_before(change).is_some_and(|before| before.attributes.write_id == write_id);
        let other = if is_unchanged { None } else { write_ids.insert(write_id, change.revision) };
        assert!(other.is_none(), "{plural}: the write at {other:?} appears again in {change:?}");
    }
}

/// The peak resident memory of the process in MB, including clients and histories; 0 if the platform does not report
/// it.
fn peak_memory() -> u64 {
    ProcessMemory::own().map_or(0, |memory| memory.peak >> 20) as u64
}
