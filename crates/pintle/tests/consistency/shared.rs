//! The state that the tasks of a run share: the cluster and its restarts, the recorded histories, the acknowledged
//! writes, and counters.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pintle_integration::{Client, Cluster, Protocol, Response};
use tokio::sync::watch;

use crate::history::{EventType, History};
use crate::kind::KINDS;
use crate::object::ObjectVersion;

/// The timeout for anything that has to happen eventually.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The minimum age of a server's history, without the time of a round. The server retains five minutes.
const MIN_WATCH_HISTORY: Duration = Duration::from_secs(200);

/// How many acknowledged writes of a kind may be missing from its history. The limit keeps the reference reflectors
/// within the smallest watch history. All other reflectors are checked against their histories.
const MAX_UNRECORDED_WRITES: usize = 200;

/// An acknowledged write: its revision, and its write identifier if the request set one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcknowledgedWrite {
    pub(crate) revision: u64,
    pub(crate) write_id: Option<u64>,
}

/// The records about a kind.
#[derive(Default)]
pub(crate) struct KindRecord {
    history: Mutex<History>,
    writes: Mutex<Vec<AcknowledgedWrite>>,
    /// The number of acknowledged deletions.
    pub(crate) deleted: AtomicUsize,
    /// The number of acknowledged deletions that another request may have done. These are deletions of a collection,
    /// and updates that removed the last finalizer.
    pub(crate) ambiguous_deletes: AtomicUsize,
    /// The number of writes without a definite response. They may have happened.
    pub(crate) unanswered: AtomicUsize,
    /// The identifiers of writes that a server refused because its store was not available. They have not happened.
    refused: Mutex<HashSet<u64>>,
    /// The newest acknowledged revision.
    acknowledged: AtomicU64,
    /// Acknowledged revisions that are not in the history yet.
    pending: Mutex<BTreeSet<u64>>,
    /// The number of changes in the history.
    length: watch::Sender<usize>,
}

/// Counters for the summary.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) lists: AtomicUsize,
    /// Lists that failed with 410 Gone.
    pub(crate) expired_lists: AtomicUsize,
    /// Reflectors that had to list again.
    pub(crate) relists: AtomicUsize,
    pub(crate) watches: AtomicUsize,
    pub(crate) bookmarks: AtomicUsize,
    pub(crate) restarts: AtomicUsize,
    /// Answered and unanswered requests of writers.
    pub(crate) requests: AtomicUsize,
    /// The longest start of the server, in milliseconds.
    pub(crate) longest_start: AtomicUsize,
}

/// Adds one.
pub(crate) fn increment(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The shared state of a run.
pub(crate) struct SharedState {
    /// The servers. Several of them share a store.
    pub(crate) servers: Vec<Cluster>,
    /// The number of clients that have connected to a server. It selects the next client's server.
    next_server: AtomicUsize,
    /// A revision that all servers have reached.
    pub(crate) caught_up: AtomicU64,
    /// Whether more faults follow in this round. Writers go on until the faults are over.
    pub(crate) is_disturbed: AtomicBool,
    pub(crate) seed: u64,
    /// Whether the watch history is so short that reflectors sometimes have to list again.
    has_short_history: bool,
    /// The end of each round, and the newest revision at that time.
    round_ends: Mutex<Vec<(Instant, u64)>>,
    /// One record for each of [`KINDS`].
    pub(crate) records: Vec<KindRecord>,
    pub(crate) counters: Counters,
    /// Revisions of bookmarks that no list has requested yet.
    pub(crate) bookmarks: Mutex<Vec<u64>>,
    /// The number of reference reflectors that are watching.
    pub(crate) started_references: watch::Sender<usize>,
    /// The number of starts of the server.
    generation: watch::Sender<u64>,
    /// Whether the run pauses the reflectors that can pause.
    pub(crate) paused: watch::Sender<bool>,
}

/// Locks, even if another task panicked: its panic fails the test anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedState {
    pub(crate) fn new(servers: Vec<Cluster>, seed: u64, has_short_history: bool) -> Self {
        Self {
            servers,
            next_server: AtomicUsize::new(0),
            caught_up: AtomicU64::new(0),
            is_disturbed: AtomicBool::new(false),
            seed,
            has_short_history,
            round_ends: Mutex::default(),
            records: KINDS.iter().map(|_| KindRecord::default()).collect(),
            counters: Counters::default(),
            bookmarks: Mutex::default(),
            started_references: watch::Sender::new(0),
            generation: watch::Sender::new(1),
            paused: watch::Sender::new(false),
        }
    }

    /// Records the newest revision at the end of a round.
    pub(crate) fn end_round(&self, newest: u64) {
        lock(&self.round_ends).push((Instant::now(), newest));
    }

    /// The newest revision at the end of the last round that ended before this age.
    pub(crate) fn revision_before(&self, age: Duration) -> Option<u64> {
        let ends = lock(&self.round_ends);
        ends.iter().rev().find(|(ended, _)| ended.elapsed() > age).map(|(_, newest)| *newest)
    }

    /// Whether servers may have dropped the history since a revision, because it is old or their histories are short.
    pub(crate) fn may_have_expired(&self, revision: Option<u64>) -> bool {
        let is_old = |revision| {
            let ends = lock(&self.round_ends);
            ends.iter().any(|(ended, newest)| *newest > revision && ended.elapsed() > MIN_WATCH_HISTORY)
        };
        self.has_short_history || revision.is_some_and(is_old)
    }

    /// The only server, or the first one.
    pub(crate) fn server(&self) -> &Cluster {
        &self.servers[0]
    }

    /// The oldest revision that an answer may have, even without a minimum revision in the request. One of several
    /// servers may lag behind the others.
    pub(crate) fn oldest_visible(&self, kind_index: usize) -> u64 {
        match self.is_replicated() {
            true => self.caught_up.load(Ordering::Relaxed),
            false => self.records[kind_index].history().last_revision(),
        }
    }

    /// Whether clients that fail go on with another server.
    pub(crate) fn is_replicated(&self) -> bool {
        self.servers.len() > 1
    }

    /// Kills the server or stops it gracefully, and starts it again.
    pub(crate) async fn restart(&self, kill: bool) {
        if kill {
            self.server().kill_server().await;
        } else {
            self.server().stop_server().await;
        }
        self.start_server().await;
    }

    /// Kills the process of the server, and starts it again. Before that, it starts the process once for each of
    /// `killed_starts`, and kills it after that time.
    pub(crate) async fn kill_process(&self, killed_starts: &[Duration]) {
        self.server().kill_server().await;
        for after in killed_starts {
            self.server().start_and_kill_server(*after).await;
        }
        self.start_server().await;
    }

    async fn start_server(&self) {
        let started = Instant::now();
        self.server().start_server().await;
        self.counters.longest_start.fetch_max(started.elapsed().as_millis() as usize, Ordering::Relaxed);
        self.generation.send_modify(|generation| *generation += 1);
        increment(&self.counters.restarts);
    }
}

impl KindRecord {
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    /// Appends an event of the reference reflector to the history.
    pub(crate) fn record_event(&self, event_type: EventType, object: ObjectVersion) {
        let length = {
            let mut history = self.history();
            history.push(event_type, object);
            let mut pending = lock(&self.pending);
            *pending = pending.split_off(&(object.revision + 1));
            history.len()
        };
        // Waiting tasks lock the history when they wake, so notify them after it is unlocked.
        self.length.send_replace(length);
    }

    /// Records an acknowledged write.
    pub(crate) fn record_write(&self, write: AcknowledgedWrite) {
        lock(&self.writes).push(write);
        self.acknowledged.fetch_max(write.revision, Ordering::Relaxed);
        let history = self.history();
        if write.revision > history.last_revision() {
            lock(&self.pending).insert(write.revision);
        }
    }

    /// Records that a write was refused.
    pub(crate) fn record_refusal(&self, write_id: u64) {
        lock(&self.refused).insert(write_id);
    }

    /// The identifiers of the writes that were refused.
    pub(crate) fn refused(&self) -> MutexGuard<'_, HashSet<u64>> {
        lock(&self.refused)
    }

    /// The newest acknowledged revision.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Takes the acknowledged writes that were recorded since the last call.
    pub(crate) fn take_writes(&self) -> Vec<AcknowledgedWrite> {
        std::mem::take(&mut lock(&self.writes))
    }

    /// Waits until fewer than [`MAX_UNRECORDED_WRITES`] acknowledged writes are missing from the history.
    pub(crate) async fn wait_for_backlog(&self) {
        let is_small = || lock(&self.pending).len() < MAX_UNRECORDED_WRITES;
        self.wait("the reference reflector falls behind", is_small).await;
    }

    /// Waits until the history reaches a revision.
    pub(crate) async fn wait_for_revision(&self, revision: u64) {
        self.wait("the reference reflector misses the last change", || self.history().last_revision() >= revision)
            .await;
    }

    async fn wait(&self, failure: &str, condition: impl Fn() -> bool) {
        let mut length = self.length.subscribe();
        let result = tokio::time::timeout(TIMEOUT, length.wait_for(|_| condition())).await;
        assert!(matches!(result, Ok(Ok(_))), "{failure}");
    }
}

/// How long a client waits before it goes on with another server.
const SWITCH_INTERVAL: Duration = Duration::from_millis(20);

/// The client of one task. It reconnects when the server restarts, or goes on with another server.
pub(crate) struct ReconnectingClient {
    protocol: Protocol,
    pub(crate) inner: Client,
    generation: u64,
    server: usize,
    /// Whether the client stays with the first server.
    is_pinned: bool,
    /// The time of the first failure after the last successful request.
    failing_since: Option<Instant>,
}

/// True for an answer that reports a temporarily unavailable server. Another server or a later attempt may succeed.
pub(crate) fn is_temporary(response: &Response) -> bool {
    [429, 500, 503, 504].contains(&response.status.as_u16())
}

impl ReconnectingClient {
    pub(crate) fn connect(shared: &SharedState, protocol: Protocol) -> Self {
        let server = shared.next_server.fetch_add(1, Ordering::Relaxed) % shared.servers.len();
        Self::connect_to(shared, protocol, server)
    }

    /// A client that uses the first server only.
    pub(crate) fn pinned(shared: &SharedState, protocol: Protocol) -> Self {
        Self { is_pinned: true, ..Self::connect_to(shared, protocol, 0) }
    }

    fn connect_to(shared: &SharedState, protocol: Protocol, server: usize) -> Self {
        let generation = *shared.generation.borrow();
        let inner = shared.servers[server].client(protocol);
        Self { protocol, inner, generation, server, is_pinned: false, failing_since: None }
    }

    /// After a failure, waits for the next start of the server, and reconnects. If there are several servers, goes on
    /// with the next one.
    pub(crate) async fn reconnect(&mut self, shared: &SharedState, error: &impl std::fmt::Display) {
        if shared.is_replicated() {
            let failing_since = *self.failing_since.get_or_insert_with(Instant::now);
            assert!(failing_since.elapsed() < TIMEOUT, "no server answers: {error}");
            tokio::time::sleep(SWITCH_INTERVAL).await;
            let server = if self.is_pinned { 0 } else { (self.server + 1) % shared.servers.len() };
            let is_pinned = self.is_pinned;
            *self = Self::connect_to(shared, self.protocol, server);
            (self.is_pinned, self.failing_since) = (is_pinned, Some(failing_since));
            return;
        }
        let mut generation = shared.generation.subscribe();
        let restarted = generation.wait_for(|generation| *generation > self.generation);
        let is_restarted = tokio::time::timeout(TIMEOUT, restarted).await.is_ok();
        assert!(is_restarted, "the server did not restart, but a request failed: {error}");
        *self = Self::connect(shared, self.protocol);
    }

    /// Reports that a request has succeeded.
    pub(crate) fn report_success(&mut self) {
        self.failing_since = None;
    }

    /// Sends a GET. On a connection error, sends it again to the restarted server or to another server.
    pub(crate) async fn get(&mut self, shared: &SharedState, path: &str, accept: &str) -> Response {
        loop {
            match self.inner.request("GET", path).header("accept", accept).try_send().await {
                Ok(response) if shared.is_replicated() && is_temporary(&response) => {
                    self.reconnect(shared, &response.text()).await;
                }
                Ok(response) => {
                    self.report_success();
                    return response;
                }
                Err(error) => self.reconnect(shared, &error).await,
            }
        }
    }
}
