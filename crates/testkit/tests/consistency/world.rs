//! What the tasks of a run share: the cluster and its restarts, the journals, what writers were answered, and counts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pintle_testkit::{Client, Cluster, Protocol, Response};
use tokio::sync::watch;

use crate::journal::{Journal, Turn};
use crate::kind::KINDS;
use crate::object::Item;

/// How long something that has to come may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How many writes of a kind may be answered before their events are written down. It keeps the first watchers, whose
/// word all others are held against, within the smallest window.
const LEAD: usize = 200;

/// A write that was answered: the revision that it made, and the mark that it left, if it left one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) revision: u64,
    pub(crate) mark: Option<u64>,
}

/// What is known of a kind.
#[derive(Default)]
pub(crate) struct Ledger {
    journal: Mutex<Journal>,
    written: Mutex<Vec<Written>>,
    /// Deletions that were answered.
    pub(crate) deleted: AtomicUsize,
    /// Deletions that were answered together: of some of these, others may have been told.
    pub(crate) shared: AtomicUsize,
    /// Writes that were not answered: they may have happened.
    pub(crate) unknown: AtomicUsize,
    /// The newest revision of an answer.
    acknowledged: AtomicU64,
    /// Revisions of answers that are not written down yet.
    pending: Mutex<BTreeSet<u64>>,
    length: watch::Sender<usize>,
}

/// Counts, for the report.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) lists: AtomicUsize,
    /// Lists of a revision that was gone.
    pub(crate) gone: AtomicUsize,
    /// Watchers that had to begin anew.
    pub(crate) relists: AtomicUsize,
    pub(crate) watches: AtomicUsize,
    pub(crate) bookmarks: AtomicUsize,
    pub(crate) restarts: AtomicUsize,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A run's world.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) seed: u64,
    /// Whether history is so short that clients have to begin anew now and then.
    pub(crate) forgets: bool,
    pub(crate) ledgers: Vec<Ledger>,
    pub(crate) counts: Counts,
    /// Revisions that bookmarks told and nobody has listed yet.
    pub(crate) bookmarks: Mutex<Vec<u64>>,
    /// How many first watchers have begun.
    pub(crate) begun: watch::Sender<usize>,
    /// How often the server was started.
    generation: watch::Sender<u64>,
    /// Whether those who do not always listen are not listening.
    pub(crate) resting: watch::Sender<bool>,
}

/// Locks; a panic elsewhere fails the test anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(cluster: Cluster, seed: u64, forgets: bool) -> Self {
        Self {
            cluster,
            seed,
            forgets,
            ledgers: KINDS.iter().map(|_| Ledger::default()).collect(),
            counts: Counts::default(),
            bookmarks: Mutex::default(),
            begun: watch::Sender::new(0),
            generation: watch::Sender::new(1),
            resting: watch::Sender::new(false),
        }
    }

    /// Ends the server, like a process that is killed or cleanly, and starts it again.
    pub(crate) async fn restart(&self, kill: bool) {
        if kill {
            self.cluster.kill_server().await;
        } else {
            self.cluster.stop_server().await;
        }
        self.cluster.start_server().await;
        self.generation.send_modify(|generation| *generation += 1);
        count(&self.counts.restarts);
    }
}

impl Ledger {
    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// Writes down what the first watcher was told.
    pub(crate) fn note(&self, turn: Turn, item: Item) {
        let length = {
            let mut journal = self.journal();
            journal.push(turn, item);
            let mut pending = lock(&self.pending);
            *pending = pending.split_off(&(item.revision + 1));
            journal.len()
        };
        // Those who wait look into the journal.
        self.length.send_replace(length);
    }

    /// Writes down an answer to a write.
    pub(crate) fn acknowledge(&self, written: Written) {
        lock(&self.written).push(written);
        self.acknowledged.fetch_max(written.revision, Ordering::Relaxed);
        let journal = self.journal();
        if written.revision > journal.head() {
            lock(&self.pending).insert(written.revision);
        }
    }

    /// The newest revision that a writer knows of.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Takes all answers.
    pub(crate) fn take_written(&self) -> Vec<Written> {
        std::mem::take(&mut lock(&self.written))
    }

    /// Waits until so many changes are written down that another write may come.
    pub(crate) async fn keep_step(&self) {
        self.wait("the first watcher falls behind", || lock(&self.pending).len() < LEAD).await;
    }

    /// Waits until everything up to a revision is written down.
    pub(crate) async fn reaches(&self, revision: u64) {
        self.wait("the first watcher misses the end", || self.journal().head() >= revision).await;
    }

    async fn wait(&self, what: &str, until: impl Fn() -> bool) {
        let mut length = self.length.subscribe();
        let came = tokio::time::timeout(PATIENCE, length.wait_for(|_| until())).await;
        assert!(matches!(came, Ok(Ok(_))), "{what}");
    }
}

/// Connections of one task's own, made anew whenever the server was started anew.
pub(crate) struct Line {
    protocol: Protocol,
    pub(crate) client: Client,
    generation: u64,
}

impl Line {
    pub(crate) fn open(world: &World, protocol: Protocol) -> Self {
        let generation = *world.generation.borrow();
        Self { protocol, client: world.cluster.client(protocol), generation }
    }

    /// Waits, once a connection broke, for the server that comes after the one that it was to.
    pub(crate) async fn reopen(&mut self, world: &World, broken: &impl std::fmt::Display) {
        let mut generation = world.generation.subscribe();
        let later = generation.wait_for(|generation| *generation > self.generation);
        let came = tokio::time::timeout(PATIENCE, later).await.is_ok();
        assert!(came, "the server is not gone, but: {broken}");
        *self = Self::open(world, self.protocol);
    }

    /// Gets a path in a form, from the next server if this one goes away.
    pub(crate) async fn get(&mut self, world: &World, path: &str, accept: &str) -> Response {
        loop {
            match self.client.request("GET", path).header("accept", accept).try_send().await {
                Ok(answer) => return answer,
                Err(broken) => self.reopen(world, &broken).await,
            }
        }
    }
}
