//! The engine without a disk: a map of version chains behind one lock, for tests and for servers that may forget.
//! It keeps the whole contract, history and expiry included, so that a test on it says something about the others.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;

use crate::feed::{History, Hub};
use crate::window::Timeline;
use crate::{
    Change, ChangeFeed, Clock, Committed, Error, Expect, Key, Op, Pending, Range, Record, Revision, Span, Store,
    StoredChange, SystemClock, Timestamp, Window, lock,
};

/// How many changes one compaction step forgets while it holds the lock.
const SLICE: usize = 512;

/// A store that lives and dies with the process.
pub struct Memory {
    core: Arc<Core>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

/// One value (or deletion, without a value) that a key had.
#[derive(Debug)]
struct Version {
    revision: Revision,
    create_revision: Revision,
    value: Option<Bytes>,
    expires: Option<Timestamp>,
}

#[derive(Debug)]
struct State {
    revision: Revision,
    compacted: Revision,
    keys: BTreeMap<Key, Vec<Version>>,
    log: VecDeque<(Revision, Key)>,
    expiries: BTreeMap<(Timestamp, Revision), Key>,
    timeline: Timeline,
    closed: bool,
}

#[derive(Debug)]
struct Core {
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
    state: Mutex<State>,
    wake: Condvar,
}

impl Memory {
    /// An empty store with the default window and the machine's clock.
    pub fn new() -> Memory {
        Memory::with(Window::default(), Arc::new(SystemClock))
    }

    /// An empty store.
    pub fn with(window: Window, clock: Arc<dyn Clock>) -> Memory {
        let state = State {
            revision: Revision::EMPTY,
            compacted: Revision::EMPTY,
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            expiries: BTreeMap::new(),
            timeline: Timeline::new(window),
            closed: false,
        };
        let hub = Arc::new(Hub::new(Revision::EMPTY));
        let core = Arc::new(Core { clock, hub, state: Mutex::new(state), wake: Condvar::new() });
        Memory { core, keeper: Mutex::new(None) }
    }

    /// Starts the thread that expires and forgets, with the first change that will need it.
    fn start_keeper(&self) {
        let mut keeper = lock(&self.keeper);
        if keeper.is_none() {
            let core = Arc::clone(&self.core);
            let spawned = std::thread::Builder::new().name("store-keeper".to_owned()).spawn(move || core.keep());
            match spawned {
                Ok(handle) => *keeper = Some(handle),
                // Tried again with the next change; until then nothing expires.
                Err(error) => tracing::warn!(%error, "cannot start the thread that expires values"),
            }
        }
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        lock(&self.core.state).closed = true;
        self.core.wake.notify_all();
        self.core.hub.close();
        lock(&self.keeper).take()
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(keeper) = self.stop() {
            // A panic of that thread has been reported by the panic hook.
            let _ = keeper.join();
        }
    }
}

impl Store for Memory {
    fn current_revision(&self) -> Pending<'_, Revision> {
        Box::pin(async { Ok(self.core.open()?.revision) })
    }

    fn get(&self, key: Key, at: Option<Revision>) -> Pending<'_, Option<Record>> {
        Box::pin(async move {
            let state = self.core.open()?;
            let at = state.readable(at)?;
            Ok(state.keys.get(&key).and_then(|chain| record(&key, visible(chain, at)?)))
        })
    }

    fn range(&self, span: Span, at: Option<Revision>, limit: Option<usize>) -> Pending<'_, Range> {
        Box::pin(async move {
            let state = self.core.open()?;
            let revision = state.readable(at)?;
            let mut range = Range { records: Vec::new(), remaining: 0, revision };
            if span.is_empty() {
                return Ok(range);
            }
            let end = span.end.map_or(Bound::Unbounded, Bound::Excluded);
            for (key, chain) in state.keys.range::<Key, _>((Bound::Included(span.start), end)) {
                let Some(version) = visible(chain, revision) else { continue };
                if limit.is_some_and(|limit| range.records.len() >= limit) {
                    range.remaining += u64::from(version.value.is_some());
                } else {
                    range.records.extend(record(key, version));
                }
            }
            Ok(range)
        })
    }

    fn commit(&self, change: Change) -> Pending<'_, Committed> {
        Box::pin(async move {
            self.start_keeper();
            let mut state = self.core.open()?;
            let now = self.core.clock.now();
            let before = state.next_due();
            let (committed, stored) = state.commit(change, now)?;
            self.core.hub.publish(vec![stored]);
            let sooner = state.next_due() != before || state.timeline.is_full();
            drop(state);
            if sooner {
                self.core.wake.notify_all();
            }
            Ok(committed)
        })
    }

    fn changes(&self, from: Revision) -> Pending<'_, ChangeFeed> {
        Box::pin(async move {
            let state = self.core.open()?;
            let from = state.readable(Some(from))?;
            Ok(self.core.hub.attach(from, Arc::clone(&self.core) as Arc<dyn History>))
        })
    }

    fn compact(&self, before: Revision) -> Pending<'_, ()> {
        Box::pin(async move {
            let mut state = self.core.open()?;
            state.compacted = state.readable(Some(before))?;
            drop(state);
            self.core.sweep();
            Ok(())
        })
    }

    fn oldest_revision(&self) -> Pending<'_, Revision> {
        Box::pin(async { Ok(self.core.open()?.compacted) })
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {
            if let Some(keeper) = self.stop() {
                // The thread holds its lock for microseconds and leaves at once.
                let _ = keeper.join();
            }
            Ok(())
        })
    }
}

impl History for Core {
    fn page(&self, after: Revision, until: Revision, limit: usize) -> Pending<'_, Vec<StoredChange>> {
        Box::pin(async move {
            let state = lock(&self.state);
            let after = state.readable(Some(after))?;
            let first = state.log.partition_point(|(revision, _)| *revision <= after);
            let events = state.log.range(first..).take_while(|(revision, _)| *revision <= until).take(limit);
            Ok(events.filter_map(|(revision, key)| state.stored_change(*revision, key)).collect())
        })
    }
}

impl Core {
    fn open(&self) -> Result<std::sync::MutexGuard<'_, State>, Error> {
        let state = lock(&self.state);
        if state.closed { Err(Error::Closed) } else { Ok(state) }
    }

    /// Deletes what expired and forgets what left the window, whenever something is due.
    fn keep(&self) {
        let mut state = lock(&self.state);
        while !state.closed {
            let now = self.clock.now();
            let expired = state.expire(now);
            self.hub.publish(expired);
            if let Some(horizon) = state.timeline.horizon(now) {
                state.compacted = state.compacted.max(horizon);
            }
            if state.sweep() {
                drop(state);
                std::thread::yield_now();
                state = lock(&self.state);
                continue;
            }
            state = match state.next_due() {
                Some(due) if due <= now => state,
                Some(due) => {
                    self.wake.wait_timeout(state, self.clock.until(due)).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Forgets everything that is compacted, letting others in between the steps.
    fn sweep(&self) {
        while lock(&self.state).sweep() {}
    }
}

impl State {
    /// The revision at which to read, if it can be read.
    fn readable(&self, at: Option<Revision>) -> Result<Revision, Error> {
        match at {
            None => Ok(self.revision),
            Some(at) if at < self.compacted => Err(Error::Compacted { oldest: self.compacted }),
            Some(at) if at > self.revision => Err(Error::Future { current: self.revision }),
            Some(at) => Ok(at),
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        let expiry = self.expiries.keys().next().map(|(due, _)| *due);
        match (expiry, self.timeline.next_due()) {
            (Some(expiry), Some(window)) => Some(expiry.min(window)),
            (expiry, window) => expiry.or(window),
        }
    }

    fn commit(&mut self, change: Change, now: Timestamp) -> Result<(Committed, StoredChange), Error> {
        let Change { key, expect, op } = change;
        let current = self.keys.get(&key).and_then(|chain| chain.last()).filter(|version| version.value.is_some());
        let holds = match (expect, current) {
            (Expect::Absent, current) => current.is_none(),
            (Expect::At(revision), current) => current.is_some_and(|version| version.revision == revision),
            (Expect::Any, _) => true,
        } && (op != Op::Delete || current.is_some());
        let previous = current.and_then(|version| record(&key, version));
        if !holds {
            return Err(Error::Conflict { current: previous.map(Box::new) });
        }
        if let Some(expires) = current.and_then(|version| version.expires.map(|expires| (expires, version.revision))) {
            self.expiries.remove(&expires);
        }
        let revision = self.revision.next();
        let create_revision = previous.as_ref().map_or(revision, |record| record.create_revision);
        let (value, expires) = match op {
            Op::Put { value, ttl } => (Some(value), ttl.map(|ttl| now.after(ttl))),
            Op::Delete => (None, None),
        };
        if let Some(expires) = expires {
            self.expiries.insert((expires, revision), key.clone());
        }
        self.revision = revision;
        self.timeline.note(revision, now, key.len() + value.as_ref().map_or(0, Bytes::len));
        self.log.push_back((revision, key.clone()));
        let version = Version { revision, create_revision, value: value.clone(), expires };
        self.keys.entry(key.clone()).or_default().push(version);
        let stored = StoredChange { revision, key, value, create_revision };
        Ok((Committed { revision, previous }, stored))
    }

    fn expire(&mut self, now: Timestamp) -> Vec<StoredChange> {
        let mut deletions = Vec::new();
        while let Some(((due, revision), key)) = self.expiries.pop_first() {
            if due > now {
                self.expiries.insert((due, revision), key);
                break;
            }
            let change = Change::delete(key, Expect::At(revision));
            deletions.extend(self.commit(change, now).map(|(_, stored)| stored));
        }
        deletions
    }

    /// Forgets some of what is compacted; tells whether there is more.
    fn sweep(&mut self) -> bool {
        for _ in 0..SLICE {
            let Some((revision, key)) = self.log.pop_front_if(|(revision, _)| *revision <= self.compacted) else {
                return false;
            };
            if let Some(chain) = self.keys.get_mut(&key) {
                let newest_kept = chain.partition_point(|version| version.revision < revision);
                chain.drain(..newest_kept);
                if chain.len() == 1 && chain[0].revision == revision && chain[0].value.is_none() {
                    self.keys.remove(&key);
                }
            }
        }
        true
    }

    fn stored_change(&self, revision: Revision, key: &Key) -> Option<StoredChange> {
        let chain = self.keys.get(key)?;
        let at = chain.binary_search_by_key(&revision, |version| version.revision).ok()?;
        let Version { create_revision, ref value, .. } = chain[at];
        Some(StoredChange { revision, key: key.clone(), value: value.clone(), create_revision })
    }
}

/// The version of a chain that a reader at `at` sees.
fn visible(chain: &[Version], at: Revision) -> Option<&Version> {
    chain.partition_point(|version| version.revision <= at).checked_sub(1).map(|index| &chain[index])
}

/// A version as a record; `None` for a deletion.
fn record(key: &Key, version: &Version) -> Option<Record> {
    version.value.clone().map(|value| Record {
        key: key.clone(),
        value,
        mod_revision: version.revision,
        create_revision: version.create_revision,
        stale: false,
    })
}
