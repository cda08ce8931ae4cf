//! The in-memory engine: a map of versions behind one lock, for tests and for servers that need no durability. It
//! implements the whole contract, including history and expiry. So the result of a test on it holds for the other
//! engines too.

use pintle_locks::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;

use crate::feed::{FeedPublisher, HistoryReader};
use crate::retention::RetentionTracker;
use crate::{
    Change, ChangeFeed, Clock, Compare, Condition, Error, HistoryRetention, Key, KeyInterval, Op, RangeResponse,
    Record, RecordPage, Revision, Store, StoreFuture, StoreSnapshot, StoredChange, SystemClock, Timestamp,
};

/// The number of changes that one compaction step removes while it holds the lock.
const MAX_STEP_CHANGES: usize = 512;

/// A store in memory.
pub struct MemoryStore {
    engine: Arc<MemoryEngine>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// One value of a key, or a tombstone (`None`).
#[derive(Debug)]
struct Version {
    revision: Revision,
    create_revision: Revision,
    value: Option<Bytes>,
    expires: Option<Timestamp>,
}

#[derive(Debug)]
struct MemoryState {
    revision: Revision,
    compact_revision: Revision,
    keys: BTreeMap<Key, Vec<Version>>,
    log: VecDeque<(Revision, Key)>,
    expiries: BTreeMap<(Timestamp, Revision), Key>,
    retention_tracker: RetentionTracker,
    closed: bool,
}

#[derive(Debug)]
struct MemoryEngine {
    clock: Arc<dyn Clock>,
    publisher: Arc<FeedPublisher>,
    state: Mutex<MemoryState>,
    wake: Condvar,
}

impl MemoryStore {
    /// Creates an empty store with the default retention and the system clock.
    pub fn new() -> MemoryStore {
        MemoryStore::with(HistoryRetention::default(), Arc::new(SystemClock))
    }

    /// Creates an empty store.
    pub fn with(retention: HistoryRetention, clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore::from_snapshot(&StoreSnapshot::default(), retention, clock)
    }

    /// Creates a store with the records of another store, and continues its revisions. The new store has no earlier
    /// history.
    pub fn from_snapshot(snapshot: &StoreSnapshot, retention: HistoryRetention, clock: Arc<dyn Clock>) -> MemoryStore {
        let StoreSnapshot { revision, records, expiries } = snapshot;
        let due: BTreeMap<&Key, Timestamp> = expiries.iter().map(|(key, due)| (key, *due)).collect();
        let version = |record: &Record| {
            let Record { key, value, mod_revision, create_revision, .. } = record;
            let (value, expires) = (Some(value.clone()), due.get(key).copied());
            let version = Version { revision: *mod_revision, create_revision: *create_revision, value, expires };
            (key.clone(), vec![version])
        };
        let expiries = records.iter().filter_map(|record| {
            let due = due.get(&record.key)?;
            Some(((*due, record.mod_revision), record.key.clone()))
        });
        let state = MemoryState {
            revision: *revision,
            compact_revision: *revision,
            keys: records.iter().map(version).collect(),
            log: VecDeque::new(),
            expiries: expiries.collect(),
            retention_tracker: RetentionTracker::new(retention),
            closed: false,
        };
        let publisher = Arc::new(FeedPublisher::new(*revision));
        let engine = Arc::new(MemoryEngine { clock, publisher, state: Mutex::new(state), wake: Condvar::new() });
        MemoryStore { engine, maintenance: Mutex::new(None) }
    }

    /// Starts the thread that expires keys and compacts history. The first change that needs the thread starts it.
    fn start_maintenance(&self) {
        let mut maintenance = self.maintenance.lock();
        if maintenance.is_none() {
            let engine = Arc::clone(&self.engine);
            let spawned = std::thread::Builder::new()
                .name("store-maintenance".to_owned())
                .spawn(move || engine.run_maintenance());
            match spawned {
                Ok(handle) => *maintenance = Some(handle),
                // The next change tries again; nothing expires until then.
                Err(error) => tracing::warn!(%error, "Failed to start the store maintenance thread, will retry"),
            }
        }
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        self.engine.state.lock().closed = true;
        self.engine.wake.notify_all();
        self.engine.publisher.close();
        self.maintenance.lock().take()
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        if let Some(maintenance) = self.stop() {
            // The panic hook has already reported a panic of this thread.
            let _ = maintenance.join();
        }
    }
}

impl Store for MemoryStore {
    fn current_revision(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async { Ok(self.engine.lock_open()?.revision) })
    }

    fn get(&self, key: Key, at: Option<Revision>) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let state = self.engine.lock_open()?;
            let at = state.resolve_revision(at)?;
            Ok(state.keys.get(&key).and_then(|versions| to_record(&key, version_at(versions, at)?)))
        })
    }

    fn range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> StoreFuture<'_, RangeResponse> {
        Box::pin(async move {
            let state = self.engine.lock_open()?;
            let revision = state.resolve_revision(at)?;
            let mut range = RangeResponse { records: Vec::new(), remaining: 0, revision };
            if interval.is_empty() {
                return Ok(range);
            }
            for (key, versions) in state.keys.range::<Key, _>(interval.bounds()) {
                let Some(version) = version_at(versions, revision) else { continue };
                if limit.is_some_and(|limit| range.records.len() >= limit) {
                    range.remaining += u64::from(version.value.is_some());
                } else {
                    range.records.extend(to_record(key, version));
                }
            }
            Ok(range)
        })
    }

    fn page(&self, interval: KeyInterval, at: Option<Revision>, limit: usize) -> StoreFuture<'_, RecordPage> {
        Box::pin(async move {
            let state = self.engine.lock_open()?;
            let revision = state.resolve_revision(at)?;
            let mut page = RecordPage { records: Vec::new(), is_last: true };
            if interval.is_empty() {
                return Ok(page);
            }
            for (key, versions) in state.keys.range::<Key, _>(interval.bounds()) {
                let Some(record) = version_at(versions, revision).and_then(|version| to_record(key, version)) else {
                    continue;
                };
                if page.records.len() == limit {
                    page.is_last = false;
                    break;
                }
                page.records.push(record);
            }
            Ok(page)
        })
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, Revision> {
        Box::pin(async move {
            self.start_maintenance();
            let mut state = self.engine.lock_open()?;
            let now = self.engine.clock.now();
            let before = state.next_deadline();
            let stored = state.commit(change, now)?;
            let revision = stored.revision;
            self.engine.publisher.publish(vec![stored]);
            let wake = state.next_deadline() != before || state.retention_tracker.exceeds_size();
            drop(state);
            if wake {
                self.engine.wake.notify_all();
            }
            Ok(revision)
        })
    }

    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>> {
        Box::pin(async move {
            let state = self.engine.lock_open()?;
            let from = state.resolve_revision(Some(from))?;
            let feed = self.engine.publisher.subscribe(from, Arc::clone(&self.engine) as Arc<dyn HistoryReader>);
            Ok(Box::new(feed) as Box<dyn ChangeFeed>)
        })
    }

    fn compact(&self, before: Revision) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut state = self.engine.lock_open()?;
            state.compact_revision = state.resolve_revision(Some(before))?;
            drop(state);
            self.engine.compact();
            Ok(())
        })
    }

    fn keeps_history_in_memory(&self) -> bool {
        true
    }

    fn oldest_revision(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async { Ok(self.engine.lock_open()?.compact_revision) })
    }

    fn expiries(&self) -> StoreFuture<'_, Vec<(Key, Timestamp)>> {
        Box::pin(async {
            let state = self.engine.lock_open()?;
            Ok(state.expiries.iter().map(|((due, _), key)| (key.clone(), *due)).collect())
        })
    }

    fn health(&self) -> Result<(), Error> {
        self.engine.lock_open().map(drop)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            if let Some(maintenance) = self.stop() {
                // The thread holds its lock for microseconds and exits at once.
                let _ = maintenance.join();
            }
            Ok(())
        })
    }
}

impl HistoryReader for MemoryEngine {
    fn read_page(&self, after: Revision, until: Revision, limit: usize) -> StoreFuture<'_, Vec<StoredChange>> {
        Box::pin(async move {
            let state = self.state.lock();
            let after = state.resolve_revision(Some(after))?;
            let first = state.log.partition_point(|(revision, _)| *revision <= after);
            let changes = state.log.range(first..).take_while(|(revision, _)| *revision <= until).take(limit);
            Ok(changes.filter_map(|(revision, key)| state.stored_change(*revision, key)).collect())
        })
    }
}

impl MemoryEngine {
    fn lock_open(&self) -> Result<pintle_locks::MutexGuard<'_, MemoryState>, Error> {
        let state = self.state.lock();
        if state.closed { Err(Error::Closed) } else { Ok(state) }
    }

    /// Deletes expired keys and compacts history whenever a deadline has passed.
    fn run_maintenance(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let now = self.clock.now();
            let expired = state.expire(now);
            self.publisher.publish(expired);
            if let Some(compactable_revision) = state.retention_tracker.compactable_revision(now) {
                state.compact_revision = state.compact_revision.max(compactable_revision);
            }
            if state.compact_step() {
                drop(state);
                std::thread::yield_now();
                state = self.state.lock();
                continue;
            }
            match state.next_deadline() {
                Some(due) if due <= now => {}
                Some(due) => drop(self.wake.wait_for(&mut state, self.clock.until(due))),
                None => self.wake.wait(&mut state),
            }
        }
    }

    /// Removes everything below the compact revision. Releases the lock between the steps.
    fn compact(&self) {
        while self.state.lock().compact_step() {}
    }
}

impl MemoryState {
    /// The revision to read at, or an error if the revision cannot be read.
    fn resolve_revision(&self, at: Option<Revision>) -> Result<Revision, Error> {
        match at {
            None => Ok(self.revision),
            Some(at) if at < self.compact_revision => Err(Error::Compacted { oldest: self.compact_revision }),
            Some(at) if at > self.revision => Err(Error::FutureRevision { current: self.revision }),
            Some(at) => Ok(at),
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let expiry = self.expiries.keys().next().map(|(due, _)| *due);
        match (expiry, self.retention_tracker.next_deadline()) {
            (Some(expiry), Some(retention)) => Some(expiry.min(retention)),
            (expiry, retention) => expiry.or(retention),
        }
    }

    fn commit(&mut self, change: Change, now: Timestamp) -> Result<StoredChange, Error> {
        let Change { key, compare, op, conditions, encoded: _ } = change;
        let current =
            self.keys.get(&key).and_then(|versions| versions.last()).filter(|version| version.value.is_some());
        let current_revision = current.map(|version| version.revision);
        let matches = compare.holds(current_revision) && op.applies(current_revision);
        if !matches {
            let current = current.and_then(|version| to_record(&key, version));
            return Err(Error::Conflict { current: current.map(Box::new) });
        }
        if !conditions.iter().all(|condition| self.holds(condition)) {
            return Err(Error::ConditionFailed);
        }
        if let Some(expires) = current.and_then(|version| version.expires.map(|expires| (expires, version.revision))) {
            self.expiries.remove(&expires);
        }
        let revision = self.revision.next();
        let create_revision = current.map_or(revision, |version| version.create_revision);
        let (value, expires) = match op {
            Op::Put { value, ttl } => (Some(value), ttl.map(|ttl| now.after(ttl))),
            Op::Delete => (None, None),
        };
        if let Some(expires) = expires {
            self.expiries.insert((expires, revision), key.clone());
        }
        self.revision = revision;
        self.retention_tracker.record_change(revision, now, key.len() + value.as_ref().map_or(0, Bytes::len));
        self.log.push_back((revision, key.clone()));
        let version = Version { revision, create_revision, value: value.clone(), expires };
        self.keys.entry(key.clone()).or_default().push(version);
        Ok(StoredChange { revision, key, value, stale: false })
    }

    fn holds(&self, condition: &Condition) -> bool {
        let newest = |versions: &Vec<Version>| {
            versions.last().filter(|version| version.value.is_some()).map(|version| version.revision)
        };
        match condition {
            Condition::Unchanged(key, revision) => self.keys.get(key).and_then(newest) == Some(*revision),
            Condition::NotWrittenSince(interval, revision) => {
                interval.is_empty()
                    || self
                        .keys
                        .range::<Key, _>(interval.bounds())
                        .filter_map(|(_, v)| newest(v))
                        .all(|at| at <= *revision)
            }
        }
    }

    fn expire(&mut self, now: Timestamp) -> Vec<StoredChange> {
        let mut deletions = Vec::new();
        while let Some(((due, revision), key)) = self.expiries.pop_first() {
            if due > now {
                self.expiries.insert((due, revision), key);
                break;
            }
            let change = Change::delete(key, Compare::ModRevision(revision));
            deletions.extend(self.commit(change, now));
        }
        deletions
    }

    /// Removes some of the compacted versions. Returns true if there are more.
    fn compact_step(&mut self) -> bool {
        for _ in 0..MAX_STEP_CHANGES {
            let Some((revision, key)) = self.log.pop_front_if(|(revision, _)| *revision <= self.compact_revision)
            else {
                return false;
            };
            if let Some(versions) = self.keys.get_mut(&key) {
                let obsolete = versions.partition_point(|version| version.revision < revision);
                versions.drain(..obsolete);
                if versions.len() == 1 && versions[0].revision == revision && versions[0].value.is_none() {
                    self.keys.remove(&key);
                }
            }
        }
        true
    }

    fn stored_change(&self, revision: Revision, key: &Key) -> Option<StoredChange> {
        let versions = self.keys.get(key)?;
        let at = versions.binary_search_by_key(&revision, |version| version.revision).ok()?;
        Some(StoredChange { revision, key: key.clone(), value: versions[at].value.clone(), stale: false })
    }
}

/// The version that is visible at a revision.
fn version_at(versions: &[Version], at: Revision) -> Option<&Version> {
    versions.partition_point(|version| version.revision <= at).checked_sub(1).map(|index| &versions[index])
}

/// The version as a record; `None` for a tombstone.
fn to_record(key: &Key, version: &Version) -> Option<Record> {
    version.value.clone().map(|value| Record {
        key: key.clone(),
        value,
        mod_revision: version.revision,
        create_revision: version.create_revision,
        stale: false,
    })
}
